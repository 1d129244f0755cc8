"""Claude may make no summary: the run goes on without, and does not ask for one at every step."""

from decimal import Decimal

import pytest
from agent_runs import Bench, app_of, says
from full_windows import FULL, Noted, kinds, note, started

from onward import Limits
from onward.testing.messages_api import ErrorDetail, Fault, Step

pytestmark = pytest.mark.replay


@pytest.mark.parametrize("stop_reason", ["refusal", "max_tokens", "tool_use"])
async def test_without_a_summary_a_step_is_done_as_long_as_it_fits(
    bench: Bench, stop_reason: str
) -> None:
    """Claude may make none: the run goes on as it is, and does not ask again at each step."""
    noted = Noted()
    steps = [note("a"), note("b", usage=FULL), note("c", usage=FULL), says()]
    run = await started(bench, steps, Step(content=[], stop_reason=stop_reason))
    async with bench.worker(app_of(noted.tool)):
        result = await run.ended()
    assert (result.outcome, noted.notes) == ("completed", ["a", "b", "c"])
    assert kinds(run) == ["ask", "ask", "sum up", "ask", "ask"]
    assert result.spend.requests == 5


async def test_after_ten_steps_a_summary_is_asked_for_again(bench: Bench) -> None:
    """What Claude would not do once it may do later; what is carried over remembers it."""
    bench.history_events, noted = 60, Noted()
    steps = [note(f"n{n}", usage=FULL) for n in range(12)]
    run = await started(bench, [*steps, says()], Step(content=[], stop_reason="refusal"))
    app = app_of(noted.tool, limits=Limits(max_cost_usd=Decimal(100)))
    async with bench.worker(app, max_cached_workflows=10):
        await run.ended()
    assert kinds(run) == ["ask", "sum up", *["ask"] * 10, "sum up", "ask", "ask"]
    assert len(await run.chain()) > 1


async def test_a_refusal_for_length_asks_for_a_summary_at_once(bench: Bench) -> None:
    """The last one was in vain a moment ago; but without one the run would end now."""
    noted = Noted()
    error = ErrorDetail(type="invalid_request_error", message="prompt is too long: 2 > 1 maximum")
    too_long = says(faults=[Fault(status=400, error=error)])
    run = await started(
        bench,
        [note("a", usage=FULL), note("b", usage=FULL), too_long],
        Step(content=[], stop_reason="refusal"),
    )
    async with bench.worker(app_of(noted.tool)):
        result = await run.ended()
    assert result.outcome == "context_exceeded"
    assert kinds(run) == ["ask", "sum up", "ask", "ask", "sum up"]


async def test_a_model_that_cannot_sum_up_is_asked_as_ever(bench: Bench) -> None:
    """The API refuses the feature: no retry, no failed run."""
    noted = Noted()
    steps = [note("a"), note("b", usage=FULL), says()]
    run = await started(bench, steps, Step(faults=[Fault(status=400)], faults_forever=True))
    async with bench.worker(app_of(noted.tool)):
        result = await run.ended()
    assert (result.outcome, kinds(run)) == ("completed", ["ask", "ask", "sum up", "ask"])
