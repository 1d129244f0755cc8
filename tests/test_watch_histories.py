"""Runs of earlier releases are told as those of today: in `watch`, in `audit`."""

import pytest
from temporalio.client import Client, WorkflowHistory
from test_recorded_histories import RECORDED

from onward.audit.timeline import Timeline
from onward.live.happenings import Asked, Happening, Replied, Trouble
from onward.live.story import Story


@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_history_is_told(client: Client, name: str) -> None:
    """No event of it is one that cannot be shown, and each step that was asked has its reply."""
    story, timeline = Story(client), Timeline(client)
    history, told = WorkflowHistory.from_json(name, RECORDED[name]), list[Happening]()
    for event in history.events:
        told += await story.hear(event)
        await timeline.hear(event)
    assert not [each for each in told if isinstance(each, Trouble)]
    asked, replied = ([e.step for e in told if isinstance(e, kind)] for kind in (Asked, Replied))
    assert [*dict.fromkeys(asked)] == replied != []  # asked twice where the ledger was refilled
    asks = any(each.reply.calls for each in told if isinstance(each, Replied))
    assert (timeline.lost, bool(timeline.calls) or not asks) == ([], True)
