"""What the real API sent goes through a run unaltered, and is counted and priced to the cent."""

import json

import pytest
from agent_runs import Bench
from recorded import ABSENT, FILES, Recording, recordings
from recorded_runs import Case, checked, differences, reply_problems, result_of

from onward import json_text
from onward.stream import MessageFold
from onward.testing.messages_api.literal_json import canonical, parse

pytestmark = [pytest.mark.cassettes, pytest.mark.skipif(not FILES, reason=ABSENT)]

ALL = recordings()
MESSAGES = [each for each in ALL if each.is_message]
ERRORS = [each for each in ALL if each.response["status"] != 200]
OTHERS = [each for each in ALL if each not in MESSAGES and each not in ERRORS]


@pytest.mark.timeout(300)
async def test_every_reply_goes_back_as_it_came_and_costs_what_it_cost(bench: Bench) -> None:
    """The next request holds it unaltered; its outcome is the named one, its cost exact."""
    wrong = await checked(bench, MESSAGES, reply_problems)
    assert not wrong, json.dumps(wrong, indent=2)


async def test_every_error_is_named_and_costs_nothing(bench: Bench) -> None:
    """The run fails with what the API said, and nothing was asked twice."""
    wrong = await checked(bench, ERRORS, error_problems)
    assert not wrong, json.dumps(wrong, indent=2)


@pytest.mark.parametrize("recording", MESSAGES, ids=lambda each: each.name)
def test_a_stream_tells_the_whole_message(recording: Recording) -> None:
    """Folded, it is what a plain reading of it gives, in every field and number literal."""
    fold = MessageFold()
    for event in recording.events:
        fold.add(event)
    assert canonical(parse(json_text.dumps(fold.message))) == canonical(recording.truth)


@pytest.mark.parametrize("recording", OTHERS, ids=lambda each: each.name)
def test_an_answer_of_another_endpoint_is_a_count_of_tokens(recording: Recording) -> None:
    """What is neither a message nor an error is all that it says: how long a prompt is."""
    assert recording.truth.keys() == {"input_tokens"}
    assert recording.truth["input_tokens"] > 0


async def error_problems(case: Case) -> list[str]:
    """Say what of a recorded error was not as it should be."""
    run, error = await case.run(), case.recording.truth["error"]
    result = await result_of(run)
    return differences(
        ("outcome", result.outcome, "failed"),
        ("detail", error["message"] in result.detail, True),
        ("requests", len(run.requests), 1),
        ("cost", (result.spend.cost_usd, result.spend.tokens), (0, 0)),
    )
