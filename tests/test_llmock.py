"""A second opinion: `llmock`, which nobody here wrote, judges how our client takes what it breaks.

It is another Messages API with faults of its own, and a verdict on whoever asks it: was
`retry-after` heeded, was there backoff, was half an answer taken for a whole one.
"""

from collections.abc import Generator, Sequence

import pytest
from agent_runs import Bench, app_of
from llmock.scenarios import Behavior, Fail, Match, StreamFault
from llmock.testing import LLMockServer
from llmock.verdict import Finding, Verdict, judge

from onward import tool

MESSAGES = Match(path="*/messages")
"""Not the question what a model can do, which a run asks once and does without."""
FAULTS: dict[str, Sequence[Behavior]] = {
    "refusals": [
        Fail(429, retry_after=1.0, match=MESSAGES),
        Fail(503, match=MESSAGES),
        Fail(529, match=MESSAGES),
    ],
    "broken streams": [StreamFault("truncate", after_chunks=2), StreamFault("malformed")],
    "lost streams": [StreamFault("disconnect", after_chunks=2), StreamFault("stall")],
}


@pytest.fixture(scope="module")
def server() -> Generator[LLMockServer]:
    """Run an `llmock` of this module's own."""
    with LLMockServer() as running:
        yield running


def verdict_of(server: LLMockServer) -> Verdict:
    """Say what it thinks of whoever asked it for messages."""
    asked = server.state.journal.records(wait=5)
    return judge(each for each in asked if each.path.endswith("/messages"))


def complaints(verdict: Verdict) -> list[Finding]:
    """Say what it finds wrong, but for what it cannot see.

    A malformed stream is often sent whole before anybody can hang up. It then takes the next
    attempt for a call of its own, so that only the number of attempts tells of it.
    """
    found = [*verdict.errors, *verdict.warnings]
    return [each for each in found if each.code != "malformed_chunk_ignored"]


@tool
async def weigh(parcel: str) -> str:
    """Weigh a parcel."""
    return f"{parcel} weighs 2 kg"


@pytest.mark.parametrize("faults", FAULTS.values(), ids=list(FAULTS))
async def test_a_stranger_finds_nothing_wrong(
    bench: Bench, server: LLMockServer, faults: Sequence[Behavior]
) -> None:
    """Not even a warning, and the run comes to its end with its tool run once."""
    server.state.reset()
    server.state.scenarios.add(*faults)
    bench.api.url, bench.silence_s = server.base_url("anthropic"), 2.0
    run = await bench.run(app_of(weigh), prompt="Weigh parcel 7.")
    assert run.result is not None
    assert (run.result.outcome, run.result.steps) == ("completed", 2)
    assert (await run.activities()).count("weigh") == 1
    verdict = verdict_of(server)
    assert not complaints(verdict), verdict.render()
    assert (verdict.attempts, verdict.faults) == (2 + len(faults), len(faults))


async def test_a_stranger_sees_no_vain_retry(bench: Bench, server: LLMockServer) -> None:
    """What cannot succeed is asked once."""
    server.state.reset()
    server.state.scenarios.add(Fail(400, match=MESSAGES))
    bench.api.url = server.base_url("anthropic")
    async with bench.worker(app_of(weigh)):
        await (await bench.start(prompt="Weigh parcel 8.")).failed()
    verdict = verdict_of(server)
    verdict.assert_ok(strict=True)
    assert verdict.attempts == 1
