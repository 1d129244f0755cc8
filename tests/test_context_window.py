"""Near the model's limit a run does not die: it goes on from a summary, or ends and says why."""

import base64
import json
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from agent_double import Cli
from agent_runs import Bench, Run, app_of, request_body, says, uses
from crash_runs import CrashBench
from full_windows import FULL, Noted, begins, kinds, note, started

from onward import context_window, tool
from onward.agents import ContextPolicy
from onward.testing import wait_until
from onward.testing.messages_api import Asked, ErrorDetail, Fault, ScriptedAPI, Step
from onward.tools import Tool
from onward.wording import how_full

pytestmark = pytest.mark.replay
LOOK = uses(("screenshot", {}))
LIKE_PIXELS = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01"


@pytest_asyncio.fixture(loop_scope="session")
async def small(bench: Bench) -> AsyncGenerator[Bench]:
    """A bench whose API takes prompts of 4,000 tokens and bodies of 100 KB."""
    async with ScriptedAPI({}, window=4_000, max_body_bytes=100_000) as api:
        bench.api = api
        yield bench


def statuses(run: Run) -> list[int | None]:
    """How each request was answered."""
    return [entry.status for entry in run.requests]


def pictures(size: int) -> Tool[[], Any]:
    """A tool that returns an image of this many bytes in base64."""
    data = base64.b64encode(LIKE_PIXELS + bytes(size * 3 // 4)).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}

    @tool(effect="read")
    async def screenshot() -> list[dict[str, Any]]:
        """Look at the screen."""
        return [{"type": "image", "source": source}]

    return screenshot


def messages(run: Run, request: int) -> list[Any]:
    """Messages of a request."""
    found: list[Any] = request_body(run.requests[request])["messages"]
    return found


async def test_a_run_goes_on_from_a_summary(bench: Bench) -> None:
    """Nothing is asked in a nearly full window: a summary comes first, Claude's last reply stays.

    What is summed up is exactly what was sent before, so thinking in that reply still counts.
    """
    noted = Noted()
    steps = [note("a"), note("b", usage=FULL), note("c"), says()]
    run = await bench.run(app_of(noted.tool), *steps)
    assert kinds(run) == ["ask", "ask", "sum up", "after", "after"]
    assert messages(run, 2) == messages(run, 1)
    reply, results = messages(run, 3)[1:]
    assert [block["type"] for block in reply["content"]] == ["thinking", "tool_use"]
    assert results["content"][0]["tool_use_id"] == reply["content"][1]["id"]
    assert messages(run, 4)[:3] == messages(run, 3)
    assert run.result is not None
    assert (run.result.outcome, run.result.steps, noted.notes) == ("completed", 4, ["a", "b", "c"])
    await run.replay()


async def test_a_summary_costs_what_its_iteration_says(bench: Bench) -> None:
    """Its tokens are in no top-level counter, and are counted all the same; it is no step."""
    noted = Noted()
    steps = [note("a"), note("b", usage=FULL), says()]
    summary = {"iterations": [{"type": "compaction", "input_tokens": 700, "output_tokens": 11}]}
    run = await started(bench, steps, Step(usage=summary))
    async with bench.worker(app_of(noted.tool)):
        result = await run.ended()
    spend = result.spend
    assert (spend.requests, result.steps) == (4, 3)
    assert spend.input_tokens > 900_000 + 700
    assert spend.unpriced_requests == 0


@pytest.mark.field("A19")
async def test_a_prompt_that_is_too_long_is_asked_again_once_and_shorter(small: Bench) -> None:
    """The API says no, Claude sums up, the second request fits: each is sent once."""
    noted = Noted(6_000)
    async with small.worker(app_of(noted.tool)):
        run = await small.start(note("a"), note("b"), note("c"), says())
        result = await run.handle.result()
    assert (result.outcome, noted.notes) == ("completed", ["a", "b", "c"])
    assert kinds(run) == ["ask", "ask", "ask", "sum up", "after", "after", "sum up", "after"]
    assert statuses(run) == [200, 200, 400, 200, 200, 400, 200, 200]
    assert max(small.api.journal.identical_bodies(run.name).values()) == 1


@pytest.mark.field("A19")
@pytest.mark.parametrize(
    "said",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199500 + 16000 > 200000",
    ],
)
@pytest.mark.parametrize(
    ("context", "requests"),
    [("compact", ["ask", "ask", "sum up", "after"]), ("stop", ["ask", "ask"])],
)
async def test_what_stays_too_long_ends_with_figures(
    bench: Bench, said: str, context: ContextPolicy, requests: list[str]
) -> None:
    """Never asked twice alike, never for ever: the outcome names how many tokens are too many."""
    noted = Noted()
    error = ErrorDetail(type="invalid_request_error", message=said)
    refused = says(faults=[Fault(status=400, error=error)], faults_forever=True)
    run = await bench.run(app_of(noted.tool, context=context), note("a"), refused)
    assert run.result is not None
    assert (run.result.outcome, kinds(run)) == ("context_exceeded", requests)
    assert said in run.result.detail
    assert run.result.spend.requests == len(requests)


@pytest.mark.field("A19")
async def test_a_first_prompt_that_is_too_long_is_asked_once(small: Bench) -> None:
    """There is nothing to sum up: one request, and the outcome with its figures."""
    async with small.worker(app_of()):
        run = await small.start(says(), prompt="word " * 5_000)
        result = await run.handle.result()
    assert (result.outcome, statuses(run)) == ("context_exceeded", [400])
    assert "> 4000 maximum" in result.detail


async def test_a_reply_cut_off_by_the_window_is_asked_for_again(bench: Bench) -> None:
    """What a cut reply asks for never runs; after a summary the step is done, its cost counted."""
    noted = Noted()
    cut = note("cut", stop_reason="model_context_window_exceeded")
    script = {"a": [note("a"), cut], "after": [note("b"), says()]}

    def answer(asked: Asked) -> Step:
        return script["after" if begins(asked.body) else "a"][asked.step - begins(asked.body)]

    run = await bench.start()
    bench.api.scripts[run.name] = answer
    async with bench.worker(app_of(noted.tool)):
        result = await run.ended()
    assert (result.outcome, result.steps, noted.notes) == ("completed", 3, ["a", "b"])
    assert kinds(run) == ["ask", "ask", "sum up", "after", "after"]
    assert result.spend.requests == 5
    await run.replay()


async def test_a_summary_is_a_reply_like_any_other(bench: Bench) -> None:
    """Overloads and a cut are retried; Redis wiped after it, history tells it again, to the letter.

    Also to a worker that never saw the conversation, and in a run that has continued as new.
    """
    bench.history_events = 14
    noted = Noted()
    steps = [note("a"), note("b", usage=FULL), note("c", delay_s=1), note("d"), says()]
    faults = [Fault(status=529), Fault(cut=True, after_events=1)]
    run = await started(bench, steps, Step(faults=faults))
    async with bench.worker(app_of(noted.tool)):
        await wait_until(lambda: "after" in kinds(run), 30, what="a request after the summary")
        await bench.redis.flushall()  # pyright: ignore[reportUnknownMemberType]
    async with bench.worker(app_of(noted.tool)):
        result = await run.ended()
    assert (result.outcome, noted.notes) == ("completed", ["a", "b", "c", "d"])
    assert kinds(run).count("sum up") == 3
    assert messages(run, -1)[:3] == messages(run, 5)
    assert (await run.handle.describe()).run_id != run.handle.first_execution_run_id


async def test_a_summary_is_given_up_at_once_when_the_run_is_cancelled(bench: Bench) -> None:
    """A long summary is no reason to wait for the end that somebody asked for."""
    noted = Noted()
    steps = [note("a"), note("b", usage=FULL), says()]
    run = await started(bench, steps, Step(delay_s=60))
    async with bench.worker(app_of(noted.tool)):
        await wait_until(lambda: "sum up" in kinds(run), 30, what="a request for a summary")
        await run.handle.signal("cancel")
        result = await run.ended()
    assert (result.outcome, kinds(run)) == ("cancelled", ["ask", "ask", "sum up"])


@pytest.mark.field("A20")
async def test_images_that_pile_up_are_summed_up_in_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes end a request long before tokens do: the run goes on, and no body is refused for it.

    Sizes are a thousandth of the API's and of a screenshot's, so that it is cheap.
    """
    monkeypatch.setattr(context_window, "FULL_BYTES", 24_000)
    async with ScriptedAPI({}, max_body_bytes=32_000) as api:
        bench.api = api
        async with bench.worker(app_of(pictures(2_000)), max_cached_workflows=10):
            run = await bench.start(*([LOOK] * 30), says())
            result = await run.ended()
    assert (result.outcome, result.steps) == ("completed", 31)
    assert set(statuses(run)) == {200}
    assert 2 <= kinds(run).count("sum up") <= 5


@pytest.mark.field("A20")
@pytest.mark.long
async def test_thirty_screenshots_of_their_real_size(bench: Bench) -> None:
    """1.5 MB of PNG in each of 30 steps, which is 60 MB on the wire, where 32 MB are taken."""
    async with bench.worker(app_of(pictures(2_000_000)), max_cached_workflows=10):
        run = await bench.start(*([LOOK] * 30), says())
        result = await run.ended()
    assert (result.outcome, set(statuses(run))) == ("completed", {200})
    assert 2 <= kinds(run).count("sum up") <= 5


@pytest.mark.field("A20")
async def test_a_body_that_is_too_large_is_never_sent_again(small: Bench) -> None:
    """A 413 leads to a summary of what was sent before, and to a smaller request."""
    async with small.worker(app_of(pictures(40_000))):
        run = await small.start(*([LOOK] * 4), says())
        result = await run.handle.result()
    assert result.outcome == "completed"
    answers = [entry.status for entry in small.api.journal]
    assert answers == [200, 200, 200, 413, 200, 200, 200]


async def test_old_results_are_cleared_before_anything_is_summed_up(bench: Bench) -> None:
    """`clear`: the API leaves old results out; we still send all, and a summary only if need be."""
    noted = Noted()
    app = app_of(noted.tool, context="clear")
    run = await bench.run(app, note("a"), note("b", usage=FULL), says())
    asked = json.loads(run.requests[0].body)
    assert asked["context_management"] == {"edits": [{"type": "clear_tool_uses_20250919"}]}
    betas = [entry.headers.get("anthropic-beta") for entry in run.requests]
    editing, on_demand = "context-management-2025-06-27", "compact-2026-09-04"
    assert betas == [editing, editing, on_demand, f"{editing},{on_demand}"]
    assert kinds(run) == ["ask", "ask", "sum up", "after"]


async def test_the_api_may_compact_by_itself(bench: Bench) -> None:
    """With edits that let it, its block is sent back where it stood, and a pause goes on."""
    edit = {"type": "compact_20260112", "pause_after_compaction": True}
    app = app_of(context="stop", context_management={"edits": [edit]})
    block = {"type": "compaction", "content": "So far: nothing.", "encrypted_content": "eA=="}
    run = await bench.run(app, Step(content=[block], stop_reason="compaction"), says())
    assert messages(run, 1)[1] == {"role": "assistant", "content": [block]}
    assert run.requests[0].headers["anthropic-beta"].endswith("compact-2026-01-12")
    assert run.result is not None
    assert run.result.outcome == "completed"


async def test_status_says_how_full_the_window_is(bench: Bench) -> None:
    """Tokens of the last request and its reply, the model's window, and bytes on the wire."""
    noted = Noted()
    used = {"input_tokens": 1_000, "cache_read_input_tokens": 400_000, "output_tokens": 99}
    async with bench.worker(app_of(noted.tool)):
        run = await bench.start(note("a", usage=used), says(delay_s=60))
        await wait_until(lambda: len(run.requests) == 2, 30, what="the second request")
        status = await run.status()
        await run.handle.signal("cancel")
        await run.ended()
    assert status.context is not None
    assert (status.context.tokens, status.context.window) == (401_099, 1_000_000)
    assert status.context.body_bytes == len(run.requests[0].body.encode())
    assert how_full(status.context).startswith("401,099 of 1,000,000 tokens (40%), 0.0 MB of 32")


async def test_a_reset_run_takes_the_summary_that_was_recorded(bench: Bench) -> None:
    """Nothing is asked or done a second time, before the summary or after it."""
    noted = Noted()
    steps = [note("a"), note("b", usage=FULL), note("c"), says()]
    async with bench.worker(app_of(noted.tool)):
        run = await bench.start(*steps)
        await run.ended()
        again = await run.reset_to_task(2)
        result = await again.ended()
    assert (result.outcome, noted.notes) == ("completed", ["a", "b", "c"])
    assert kinds(run).count("sum up") == 1
    assert len(run.requests) == 5


async def test_a_summary_is_told_and_audited_like_a_reply(bench: Bench, cli: Cli) -> None:
    """History and ledger agree on it, and who reads the conversation sees where it stands."""
    noted = Noted()
    run = await bench.run(app_of(noted.tool), note("a"), note("b", usage=FULL), says())
    audited = await cli("audit", run.name, "--verify", "--json")
    assert (audited.code, audited.json["differences"]) == (0, [])
    assert [row["call"] for row in audited.json["effects"]] == ["1.1", "2.1"]
    told = (await cli("transcript", run.name)).out
    assert ", 3 steps, completed" in told.splitlines()[0]
    assert "step 3.c1, a summary" in told
    shown = (await cli("status", run.name, "--json")).json
    assert shown["step"] == "3"


@pytest.mark.crash
async def test_a_worker_that_dies_in_a_summary_costs_one_request(crash_bench: CrashBench) -> None:
    """Another worker asks again; effects before and after the summary happen once each."""
    bench, before, after = crash_bench.bench, f"o-{uuid.uuid4().hex}", f"o-{uuid.uuid4().hex}"
    refunds = [uses(("refund", {"order": order})) for order in (before, after)]
    steps = [refunds[0].model_copy(update={"usage": FULL}), refunds[1], says()]
    run = await started(bench, steps, Step(faults=[Fault(hold_s=60)]))
    async with crash_bench.worker() as worker:
        await wait_until(lambda: "sum up" in kinds(run), 30, what="a request for a summary")
        await worker.kill()
    async with crash_bench.worker():
        result = await run.ended()
    assert kinds(run) == ["ask", "sum up", "sum up", "after", "after"]
    assert (result.outcome, result.spend.lost_requests) == ("completed", 1)
    assert [crash_bench.effects(order) for order in (before, after)] == [1, 1]
