"""Whatever Claude sends goes back to it as it came, from wherever it was kept meanwhile."""

import json
from typing import Any

from agent_runs import MODEL, Bench
from message_kinds import KINDS, USAGE
from recorded import Recording
from recorded_runs import checked, reply_problems


def reply(kind: str, content: list[dict[str, Any]]) -> Recording:
    """Make a reply of one kind, whole, as the API gives one that is not streamed."""
    calls = any(block["type"] == "tool_use" for block in content)
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "container": {"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"},
        "usage": USAGE,
        "hue": [None],
    }
    return Recording(kind, {"status": 200, "body": body})


def long_arguments() -> list[dict[str, Any]]:
    """A call whose arguments are as long as a file that Claude writes."""
    given = {"path": "x", "content": "Grüße\n" * 30_000}
    return [{"type": "tool_use", "id": "toolu_1", "name": "act", "input": given}]


async def test_every_kind_of_content_goes_back_as_it_came(bench: Bench) -> None:
    """In a real run: the next request holds it, names its container, and its cost is exact."""
    replies = [reply(kind, content) for kind, content in KINDS.items()]
    wrong = await checked(bench, [*replies, reply("long", long_arguments())], reply_problems)
    assert not wrong, json.dumps(wrong, indent=2)
