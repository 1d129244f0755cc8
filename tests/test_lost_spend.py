"""Money that crashes and cancels waste is never forgotten: what a dead stream told is counted."""

from typing import Any

import pytest
from agent_runs import Bench, app_of, says, uses
from crash_runs import CrashBench
from full_windows import FULL, Noted, kinds, note, started
from people import waiting

from onward.ledger import Ledger
from onward.messages import LimitChange, Spend
from onward.testing import wait_until
from onward.testing.messages_api import Fault, Step

PROMPT, OUTPUT = 10_000, 300
TOLD = {"input_tokens": PROMPT, "output_tokens": OUTPUT}
"""What the scripted Claude says that a request uses."""


async def streaming(ledger: Ledger, step: str, attempts: int = 1) -> None:
    """Wait until the streams of so many attempts at a step have told what they use."""

    async def told() -> bool:
        usages = await ledger.usages(step)
        return sum(bool(attempt["usage"]) for attempt in usages.values()) == attempts

    await wait_until(told, 30, what=f"{attempts} streams of step {step} telling what they use")


@pytest.mark.field("C12")
async def test_a_cancel_in_mid_stream_counts_what_the_stream_had_told(bench: Bench) -> None:
    """The run ends only after its activity has said what was used, and flags that as a part."""
    fault = Fault(stall_s=600)  # after everything but the last event
    async with bench.worker(app_of()):
        run = await bench.start(says(usage=TOLD, faults=[fault]))
        await streaming(bench.ledger(run), "1")
        await run.handle.signal("cancel")
        at_once = await run.spend()
        result = await run.ended()
        after = await run.spend()
    assert at_once in (Spend(), result.spend)
    assert (result.outcome, result.spend, result.spend.lost_requests) == ("cancelled", after, 1)
    assert (after.lost.input_tokens, after.lost.output_tokens) == (PROMPT, OUTPUT)
    assert after.lost.cost_usd == after.cost_usd > 0


async def test_a_cancel_in_a_summary_counts_the_reply_that_it_was_to_make_room_for(
    bench: Bench,
) -> None:
    """A reply that the window cut off was paid for, whatever becomes of the summary after it."""
    cut = note("cut", stop_reason="model_context_window_exceeded")
    run = await started(bench, [note("a"), cut], Step(delay_s=60))
    async with bench.worker(app_of(Noted().tool)):
        await wait_until(lambda: "sum up" in kinds(run), 30, what="a request for a summary")
        await run.handle.signal("cancel")
        result = await run.ended()
    assert (result.outcome, result.spend.requests) == ("cancelled", len(run.requests))


async def test_a_summary_that_is_asked_for_anew_is_counted_once(bench: Bench) -> None:
    """A lost summary leaves too little to ask again; once the limit is raised, another is made."""
    used = {"iterations": [{"type": "compaction", "input_tokens": 700, "output_tokens": 3000}]}
    lost = Step(usage=used | {"output_tokens": 3000}, faults=[Fault(cut=True)])
    steps = [note("a", usage=FULL | {"output_tokens": 10}), says()]
    run = await started(bench, steps, lost, max_output_tokens=3500)
    async with bench.worker(app_of(Noted().tool, at_limit="wait", max_tokens=5000)):
        await waiting(run)
        handle: Any = run.handle
        await handle.execute_update("limit", LimitChange(max_output_tokens=50_000))
        result = await run.ended()
    assert (result.outcome, result.spend.requests) == ("completed", len(run.requests))
    await run.replay()


@pytest.mark.crash
@pytest.mark.timeout(120)
async def test_ten_kills_in_mid_stream_waste_ten_requests(crash_bench: CrashBench) -> None:
    """Each kill wastes one request at most, and the tokens of all of them are in the spend."""
    steps, kills = 5, 10
    stalls = [Fault(stall_s=600, after_events=4)] * (kills // steps)
    asked = [
        uses(("look_up", {"order": f"o-{n}"}), usage=TOLD, faults=stalls) for n in range(steps)
    ]
    run = await crash_bench.bench.start(*asked, says(usage=TOLD))
    ledger = crash_bench.bench.ledger(run)
    async with crash_bench.pair() as workers:
        for kill in range(kills):
            step, attempts = str(kill // 2 + 1), kill % 2 + 1
            await streaming(ledger, step, attempts)
            await workers.kill_the_one_at_work(run)
            await workers.refill()
        result = await run.ended()
    spend = result.spend
    assert (result.outcome, result.steps) == ("completed", steps + 1)
    assert len(run.requests) == spend.requests == steps + 1 + kills
    assert (spend.lost_requests, spend.lost.unpriced_requests) == (kills, 0)
    assert spend.lost.input_tokens == kills * PROMPT
    assert spend.input_tokens == (steps + 1 + kills) * PROMPT
