"""What an exception from a tool means: one test for each row of the table and each class."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from agent_runs import Bench, app_of, says, uses
from test_field_conversation import results_in

from activities import returned, tools
from onward import NotSent, Rejected, ToolContext, tool
from onward.messages import EffectClass

MAY_CHANGE: list[EffectClass] = ["keyed", "at_most_once"]


def status(code: int) -> Exception:
    """What `raise_for_status` raises."""
    request = httpx2.Request("POST", "http://localhost/refunds")
    response = httpx2.Response(code, request=request)
    return httpx2.HTTPStatusError(f"{code}", request=request, response=response)


REJECTED: list[Exception] = [
    Rejected("the order is closed"),
    *map(status, (400, 401, 403, 404, 422)),
]
NOT_SENT = [NotSent("busy here"), httpx2.ConnectError("refused"), ConnectionRefusedError("refused")]
UNKNOWN = [
    httpx2.ReadTimeout("late"),
    httpx2.ReadError("reset"),
    *map(status, (408, 409, 429, 500, 503)),
    ValueError("a bug after the request"),
    TimeoutError("too long"),
]


@dataclass(frozen=True)
class Called:
    """What became of one call, whose tool raised these errors first."""

    errors: tuple[Exception, ...]
    keys: tuple[str, ...]
    """Of each attempt, its idempotency key."""
    told: Mapping[str, Any]
    """Claude's tool result."""
    in_doubt: tuple[str, ...]


async def _called(bench: Bench, effect: EffectClass, *rows: Sequence[Exception]) -> list[Called]:
    """Call a tool of this class once for each row, in runs beside each other."""
    errors = {str(row): list(raised) for row, raised in enumerate(rows)}
    keys: dict[str, list[str]] = {row: [] for row in errors}

    @tool(effect=effect)
    async def act(row: str, ctx: ToolContext) -> str:
        """Act."""
        keys[row].append(ctx.idempotency_key)
        if errors[row]:
            raise errors[row].pop(0)
        return "acted"

    async with bench.worker(app_of(act)):
        runs = [await bench.start(uses(("act", {"row": row})), says()) for row in errors]
        ends = await asyncio.gather(*(run.ended() for run in runs))
    return [
        Called(tuple(raised), tuple(keys[row]), results_in(run)[0], end.in_doubt)
        for row, raised, run, end in zip(errors, rows, runs, ends, strict=True)
    ]


async def _each(bench: Bench, effect: EffectClass, errors: Sequence[Exception]) -> list[Called]:
    """Call a tool once for each error that it may raise."""
    return await _called(bench, effect, *([error] for error in errors))


async def test_in_a_read_tool_every_exception_goes_to_claude(bench: Bench) -> None:
    """A tool that only reads is asked once; Claude hears what went wrong."""
    for call in await _each(bench, "read", [*REJECTED, *NOT_SENT, *UNKNOWN]):
        assert call.told["is_error"], call
        assert len(call.keys) == 1, call


@pytest.mark.parametrize("effect", MAY_CHANGE)
async def test_a_rejection_goes_to_claude(bench: Bench, effect: EffectClass) -> None:
    """The request certainly did nothing: an error result, no second try, no doubt."""
    for call in await _each(bench, effect, REJECTED):
        assert call.told["is_error"], call
        assert "OUTCOME UNKNOWN" not in call.told["content"], call
        assert (len(call.keys), call.in_doubt) == (1, ()), call


@pytest.mark.parametrize("effect", MAY_CHANGE)
async def test_what_was_not_sent_is_sent_again(bench: Bench, effect: EffectClass) -> None:
    """Nothing left the process: tried again with the same key, also where it must not repeat."""
    for call in await _each(bench, effect, NOT_SENT):
        assert call.told["content"] == "acted", call
        assert (len(call.keys), len(set(call.keys)), call.in_doubt) == (2, 1, ()), call


async def test_an_unknown_end_of_a_keyed_call_is_asked_again(bench: Bench) -> None:
    """The same key goes out again: the other side knows whether it happened."""
    for call in await _each(bench, "keyed", UNKNOWN):
        assert call.told["content"] == "acted", call
        assert (len(call.keys), len(set(call.keys)), call.in_doubt) == (2, 1, ()), call


async def test_an_unknown_end_of_an_at_most_once_call_is_in_doubt(bench: Bench) -> None:
    """It may have happened, so it is never tried again, and Claude is told so."""
    for call in await _each(bench, "at_most_once", UNKNOWN):
        assert "OUTCOME UNKNOWN" in call.told["content"], call
        assert (len(call.keys), call.in_doubt) == (1, ("1.1",)), call


async def test_a_rejection_after_a_request_that_may_still_land_is_in_doubt(bench: Bench) -> None:
    """Told "refused" while an earlier request may still land would be a lie."""
    (call,) = await _called(bench, "keyed", [httpx2.ReadTimeout("late"), status(400)])
    assert "OUTCOME UNKNOWN" in call.told["content"]
    assert call.in_doubt == ("1.1",)


async def test_what_can_never_be_sent_ends_as_an_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is retried for ever: after its tries the call failed, and nothing is in doubt."""
    monkeypatch.setattr(tools, "_MOST_REQUESTS", 2)
    (call,) = await _called(bench, "at_most_once", [NotSent("no route")] * 9)
    assert (len(call.keys), call.told["is_error"], call.in_doubt) == (2, True, ())
    assert "2 tries; the last said: no route" in call.told["content"]


async def test_time_alone_leaves_no_doubt(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that slept past the ten minutes still asks a few times with the same key."""
    monkeypatch.setattr(tools, "_LONGEST_MS", 0)
    (call,) = await _called(bench, "keyed", [httpx2.ReadTimeout("late")] * 2)
    assert call.told["content"] == "acted"
    assert (len(call.keys), call.in_doubt) == (3, ())


async def test_a_result_that_cannot_be_written_down_is_still_done(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value whose own code hangs holds nothing up: the call is done, and Claude is told so."""
    monkeypatch.setattr(returned, "_LONGEST_S", 0.3)

    class Hangs:
        def __repr__(self) -> str:
            time.sleep(20)
            return "late"

    @tool
    async def act() -> object:
        """Act."""
        return Hangs()

    run = await bench.run(app_of(act), uses(("act", {})), says())
    assert "The call is done" in results_in(run)[0]["content"]


@pytest.mark.parametrize("effect", ["read", *MAY_CHANGE])
async def test_a_tool_that_never_ends_is_timed_out(bench: Bench, effect: EffectClass) -> None:
    """`timeout_s` ends the wait; what it means is the class's: an error, another try, a doubt."""
    began: list[bool] = []

    @tool(effect=effect, timeout_s=0.3)
    def hangs() -> str:
        """Hang the first time."""
        began.append(True)
        if len(began) == 1:
            time.sleep(30)
        return "acted"

    run = await bench.run(app_of(hangs), uses(("hangs", {})), says())
    told = results_in(run)[0]["content"]
    expected = {"read": "TimeoutError", "keyed": "acted", "at_most_once": "OUTCOME UNKNOWN"}
    assert expected[effect] in told


async def test_after_a_doubt_no_later_effect_of_the_reply_runs(bench: Bench) -> None:
    """What follows a call in doubt may depend on it: it waits for the model's next word."""
    began: list[str] = []

    @tool
    async def act(what: str) -> str:
        """Act."""
        began.append(what)
        raise ValueError("unknown")

    step = uses(("act", {"what": "first"}), ("act", {"what": "second"}))
    run = await bench.run(app_of(act), step, says())
    first, second = results_in(run)
    assert "OUTCOME UNKNOWN" in first["content"]
    assert "not run" in second["content"]
    assert began == ["first"]


async def test_a_key_that_may_be_forgotten_is_not_used_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many services prune keys after a day: past that a `keyed` call is as one without."""
    monkeypatch.setattr(tools, "_KEY_LASTS_MS", 0)
    sent = list[bool]()

    @tool(effect="keyed")
    async def act() -> None:
        """Act, without an answer."""
        sent.append(True)
        raise TimeoutError

    run = await bench.run(app_of(act), uses(("act", {})), says())
    assert run.result is not None
    assert (run.result.in_doubt, len(sent)) == (("1.1",), 1)
    assert "may have forgotten the key" in run.requests[-1].body
