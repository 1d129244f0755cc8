"""Calls of which only segments still tell: Temporal has forgotten the histories that asked."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from onward import json_text
from onward.audit.positions import step_number
from onward.audit.timeline import CallStory
from onward.edits import as_run
from onward.messages import ClaudeReply, RunRef
from onward.run_records import RunRecords
from onward.transcript import Turn


def recalled(earlier: RunRecords, run: RunRef, *, copied_steps: int) -> dict[str, CallStory]:
    """Tell the calls of a run that its segments hold; without the first steps of a fork."""
    answers = dict(_answers(earlier.turns.values()))
    stories = dict[str, CallStory]()
    for reply in _replies(earlier):
        for call in as_run(reply, earlier.edits).calls:
            if step_number(call.call) > copied_steps:
                story = CallStory(call, run, over=call.tool_use_id in answers)
                story.told = answers.get(call.tool_use_id, "")
                stories[call.call] = story
    return stories


def _replies(earlier: RunRecords) -> Iterator[ClaudeReply]:
    for step in earlier.turns:
        end = earlier.ends.get(step)
        if end and end.result:
            yield ClaudeReply.model_validate_json(end.result)


def _answers(turns: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield tool use and what Claude was told of it, where that is plain words."""
    for text in turns:
        content = Turn.model_validate_json(text).content
        blocks: list[Mapping[str, Any]] = json_text.values(content) if content else []
        for block in blocks:
            if block.get("type") == "tool_result":
                words = block.get("content")
                yield str(block["tool_use_id"]), words if isinstance(words, str) else ""
