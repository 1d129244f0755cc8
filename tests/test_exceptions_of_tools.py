"""What an exception from a tool means: one test for each row of the table and each class."""

import time
from typing import Any

import httpx2
import pytest
from agent_runs import Bench, Run, app_of, says, uses
from test_field_conversation import results_in

from activities import tools
from onward import NotSent, Rejected, ToolContext, tool
from onward.messages import EffectClass

EFFECTS: list[EffectClass] = ["read", "keyed", "at_most_once"]


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


class Attempts:
    """A tool that raises some errors first, and what it was called with."""

    def __init__(self, effect: EffectClass, *errors: Exception) -> None:
        self.keys: list[str] = []
        self._errors = list(errors)

        @tool(effect=effect)
        async def act(ctx: ToolContext) -> str:
            """Act."""
            self.keys.append(ctx.idempotency_key)
            if self._errors:
                raise self._errors.pop(0)
            return "acted"

        self.tool = act


async def _run(bench: Bench, attempts: Attempts) -> tuple[Run, dict[str, Any]]:
    run = await bench.run(app_of(attempts.tool), uses(("act", {})), says())
    return run, results_in(run)[0]


@pytest.mark.parametrize("error", [*REJECTED, *NOT_SENT, *UNKNOWN], ids=repr)
async def test_in_a_read_tool_every_exception_goes_to_claude(
    bench: Bench, error: Exception
) -> None:
    """A tool that only reads is asked once; Claude hears what went wrong."""
    attempts = Attempts("read", error)
    _, told = await _run(bench, attempts)
    assert told["is_error"]
    assert len(attempts.keys) == 1


@pytest.mark.parametrize("effect", ["keyed", "at_most_once"])
@pytest.mark.parametrize("error", REJECTED, ids=repr)
async def test_a_rejection_goes_to_claude(
    bench: Bench, error: Exception, effect: EffectClass
) -> None:
    """The request certainly did nothing: an error result, no second try, no doubt."""
    attempts = Attempts(effect, error)
    run, told = await _run(bench, attempts)
    assert told["is_error"]
    assert "OUTCOME UNKNOWN" not in told["content"]
    assert run.result is not None
    assert (len(attempts.keys), run.result.in_doubt) == (1, ())


@pytest.mark.parametrize("effect", ["keyed", "at_most_once"])
@pytest.mark.parametrize("error", NOT_SENT, ids=repr)
async def test_what_was_not_sent_is_sent_again(
    bench: Bench, error: Exception, effect: EffectClass
) -> None:
    """Nothing left the process: tried again with the same key, also where it must not repeat."""
    attempts = Attempts(effect, error)
    run, told = await _run(bench, attempts)
    assert told["content"] == "acted"
    assert run.result is not None
    assert (len(attempts.keys), len(set(attempts.keys)), run.result.in_doubt) == (2, 1, ())


@pytest.mark.parametrize("error", UNKNOWN, ids=repr)
async def test_an_unknown_end_of_a_keyed_call_is_asked_again(
    bench: Bench, error: Exception
) -> None:
    """The same key goes out again: the other side knows whether it happened."""
    attempts = Attempts("keyed", error)
    run, told = await _run(bench, attempts)
    assert told["content"] == "acted"
    assert run.result is not None
    assert (len(attempts.keys), len(set(attempts.keys)), run.result.in_doubt) == (2, 1, ())


@pytest.mark.parametrize("error", UNKNOWN, ids=repr)
async def test_an_unknown_end_of_an_at_most_once_call_is_in_doubt(
    bench: Bench, error: Exception
) -> None:
    """It may have happened, so it is never tried again, and Claude is told so."""
    attempts = Attempts("at_most_once", error)
    run, told = await _run(bench, attempts)
    assert "OUTCOME UNKNOWN" in told["content"]
    assert run.result is not None
    assert (len(attempts.keys), run.result.in_doubt) == (1, ("1.1",))


async def test_a_rejection_after_a_request_that_may_still_land_is_in_doubt(bench: Bench) -> None:
    """Told "refused" while an earlier request may still land would be a lie (ledger.md, 0.5)."""
    attempts = Attempts("keyed", httpx2.ReadTimeout("late"), status(400))
    run, told = await _run(bench, attempts)
    assert "OUTCOME UNKNOWN" in told["content"]
    assert run.result is not None
    assert run.result.in_doubt == ("1.1",)


async def test_what_can_never_be_sent_ends_as_an_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is retried for ever: after its tries the call failed, and nothing is in doubt."""
    monkeypatch.setattr(tools, "_MOST_REQUESTS", 2)
    attempts = Attempts("at_most_once", *[NotSent("no route")] * 9)
    run, told = await _run(bench, attempts)
    assert (len(attempts.keys), told["is_error"]) == (2, True)
    assert "2 tries; the last said: no route" in told["content"]
    assert run.result is not None
    assert run.result.in_doubt == ()


async def test_time_alone_leaves_no_doubt(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that slept past the ten minutes still asks a few times with the same key."""
    monkeypatch.setattr(tools, "_LONGEST_MS", 0)
    attempts = Attempts("keyed", httpx2.ReadTimeout("late"), httpx2.ReadTimeout("late"))
    run, told = await _run(bench, attempts)
    assert told["content"] == "acted"
    assert run.result is not None
    assert (len(attempts.keys), run.result.in_doubt) == (3, ())


async def test_a_result_that_cannot_be_written_down_is_still_done(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value whose own code hangs holds nothing up: the call is done, and Claude is told so."""
    monkeypatch.setattr(tools, "_CONTENT_S", 0.3)

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


@pytest.mark.parametrize("effect", EFFECTS)
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
    attempts = Attempts("at_most_once", ValueError("unknown"))
    step = uses(("act", {}), ("act", {}))
    run = await bench.run(app_of(attempts.tool), step, says())
    first, second = results_in(run)
    assert "OUTCOME UNKNOWN" in first["content"]
    assert "not run" in second["content"]
    assert len(attempts.keys) == 1


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
