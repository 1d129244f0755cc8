"""What a worker's terminal shows of an activity that fails."""

import logging

import pytest
from temporalio.exceptions import ApplicationError

from onward.workers.log import OneLine


def record(error: Exception) -> logging.LogRecord:
    """A warning as the SDK logs it for an activity that raised `error`."""
    failed = (type(error), error, None)
    made = logging.LogRecord("temporalio.activity", logging.WARNING, "", 0, "failed", (), failed)
    made.__dict__["temporal_activity"] = {"workflow_id": "run-1", "activity_type": "call_claude"}
    return made


def test_an_expected_failure_is_one_line() -> None:
    """Run, activity and what happened; no stack of forty lines for a wrong key."""
    shown = record(ApplicationError("Check ANTHROPIC_API_KEY.", type="claude"))
    assert OneLine().filter(shown)
    text = logging.Formatter("%(message)s").format(shown)
    assert text == "run-1: call_claude: Check ANTHROPIC_API_KEY."


def test_a_cancel_is_not_shown() -> None:
    """Who cancels a run knows it."""
    assert not OneLine().filter(record(ApplicationError("cancelled", type="cancelled")))


@pytest.mark.parametrize("error", [KeyError("ours"), RuntimeError("ours")])
def test_a_fault_of_ours_keeps_its_trace(error: Exception) -> None:
    """What should not happen is shown whole."""
    shown = record(error)
    assert OneLine().filter(shown)
    assert type(error).__name__ in logging.Formatter("%(message)s").format(shown)
