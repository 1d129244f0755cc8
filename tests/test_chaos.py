"""Chaos itself: it can be repeated, its audit sees what it must, and a short run of it holds."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.history.v1 import HistoryEvent
from temporalio.contrib.pydantic import pydantic_data_converter

from chaos import driver
from chaos.audit import Evidence, Verdict, audit
from chaos.conversations import Conversation, PlannedCall, conversation
from chaos.evidence import Spans
from chaos.nemesis import Struck
from chaos.plan import Fault, Kind, plan
from chaos.proxy import Proxy
from chaos.run import main
from chaos.traffic import Run
from onward.console import Output
from onward.errors import UsageError
from onward.messages import RunRef, RunResult, ToolInput, Witness
from onward.testing import wait_until

ORDER = "chaos-1-1-1.1"
DONE = {"is_error": False, "text": '{"refund": "re_1"}'}
DOUBT = {"is_error": True, "text": "OUTCOME UNKNOWN: this call may … ({why}). Do not repeat it."}


# ---- real runs


Chaos = Callable[[driver.Options], Awaitable[tuple[int, dict[str, Any]]]]


@pytest.fixture
def chaos(capsys: pytest.CaptureFixture[str]) -> Chaos:
    """Let chaos loose, and return exit status and JSON."""

    async def run(options: driver.Options) -> tuple[int, dict[str, Any]]:
        output = Output(as_json=True)
        status = await driver.run(options, output)
        output.flush()
        return status, json.loads(capsys.readouterr().out)

    return run


@pytest.mark.crash
@pytest.mark.timeout(240)
async def test_a_short_chaos_doubles_and_loses_nothing(chaos: Chaos, tmp_path: Path) -> None:
    """Every kind of fault strikes, each effect happens once, each doubt is explained."""
    options = driver.Options(at_once=6, minutes=0.35, seed=4, workers=2, out=tmp_path)
    status, found = await chaos(options)
    assert (status, found["problems"]) == (0, [])
    assert found["ok"]
    assert [found[name] for name in ("duplicates", "lost", "doubts_unexplained")] == [0, 0, 0]
    assert found["effects"] > 0
    assert len(found["faults_by_kind"]) == 11
    assert (found["faults"], found["kills"]) == (len(options.plan), 5)
    assert len((tmp_path / "faults.jsonl").read_text().splitlines()) == found["faults"]


@pytest.mark.crash
@pytest.mark.timeout(180)
async def test_a_service_that_forgets_its_keys_is_caught(chaos: Chaos, tmp_path: Path) -> None:
    """An audit that cannot fail shows nothing: here every refund is made twice, and it says so."""
    options = driver.Options(at_once=2, minutes=0.02, workers=1, forgetful=True, out=tmp_path)
    status, found = await chaos(options)
    assert (status, found["ok"], found["lost"]) == (1, False, 0)
    assert found["duplicates"] > 0
    assert all("refund (keyed)" in problem for problem in found["problems"])


# ---- the plan


def test_a_seed_gives_one_plan() -> None:
    """A seed that failed strikes the same faults at the same times again; another one does not."""
    first = plan(7, seconds=60, workers=3)
    assert plan(7, seconds=60, workers=3) == first
    assert plan(7, seconds=90, workers=3)[: len(first)] == first
    assert plan(8, seconds=60, workers=3) != first
    assert conversation(7, 5) == conversation(7, 5) != conversation(8, 5)


def test_the_plan_can_be_read_before_it_strikes(capsys: pytest.CaptureFixture[str]) -> None:
    """`--plan` prints a line for each fault, and starts nothing."""
    assert main(["--plan", "--minutes", "0.5", "--seed", "7"]) == 0
    printed = capsys.readouterr().out.splitlines()
    faults = plan(7, seconds=30, workers=3)
    assert [line.partition(" s  ")[2] for line in printed] == list(map(str, faults))


async def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    """Nothing of an earlier run is mixed up with this one, or removed."""
    (tmp_path / "faults.jsonl").touch()
    with pytest.raises(UsageError, match="expected an empty folder"):
        await driver.run(driver.Options(out=tmp_path), Output())


def test_wrong_use_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A number that cannot be is refused with the option's name, before anything starts."""
    assert main(["--minutes", "-1"]) == 2
    assert "--minutes" in capsys.readouterr().err


# ---- the audit


def one_call(result: dict[str, Any] | None, *refunds: str, tool: str = "refund") -> Evidence:
    """Evidence of one run with one call, of which Claude was told `result`."""
    talk = Conversation("chaos-1-1", ((PlannedCall("1.1", tool, ORDER, ""),),), 0.0)
    text = json.dumps({} if result is None else {ORDER: result})
    run = Run(talk, RunResult(outcome="completed", text=text))
    return Evidence([run], {ORDER: refunds}, {ORDER: (100.0, 110.0)}, [])


def counts(verdict: Verdict) -> Sequence[int]:
    """All numbers of a verdict."""
    return (
        verdict.duplicates,
        verdict.lost,
        verdict.falsely_failed,
        verdict.doubts,
        verdict.doubts_unexplained,
    )


def test_the_audit_accepts_what_is_right() -> None:
    """An effect that was made once and told is no problem, nor is a read without one."""
    assert audit(one_call(DONE, "re_1")).problems == []
    assert audit(one_call({"is_error": False, "text": "{}"}, tool="look_up")).problems == []


def test_the_audit_counts_a_planted_duplicate() -> None:
    """Two refunds of one call are one too many, whichever of them Claude was told of."""
    verdict = audit(one_call(DONE, "re_1", "re_2"))
    assert counts(verdict) == (1, 0, 0, 0, 0)
    assert ORDER in verdict.problems[0]


@pytest.mark.parametrize(
    "evidence",
    [one_call(DONE), one_call(DONE, "re_2"), one_call(None, "re_1")],
    ids=["no refund", "another refund", "no word"],
)
def test_the_audit_counts_what_is_lost(evidence: Evidence) -> None:
    """Told done without that refund in the books, or not told at all: lost."""
    assert audit(evidence).lost == 1


def test_the_audit_counts_a_run_without_end() -> None:
    """A run that did not complete is lost, and so is the word on its call."""
    evidence = one_call(None)
    run = replace(evidence.runs[0], result=None, trouble="did not end: refund: at work")
    verdict = audit(replace(evidence, runs=[run]))
    assert verdict.lost == 2
    assert "did not end" in verdict.problems[0]


@pytest.mark.parametrize("text", ["No such order.", "not run, because …"])
def test_the_audit_counts_a_false_no(text: str) -> None:
    """Told that nothing was done, and it was: the model would ask again."""
    assert audit(one_call({"is_error": True, "text": text}, "re_1")).falsely_failed == 1


@pytest.mark.parametrize(
    ("why", "kind", "target", "began", "explained"),
    [
        ("records_lost", "flush", "redis", 105.0, True),
        ("records_lost", "flush", "redis", 99.0, False),
        ("records_lost", "flush", "redis", 111.0, False),
        ("records_lost", "kill", "redis", 105.0, False),
        ("owner_lost", "kill", "worker 1", 105.0, True),
        ("owner_lost", "flush", "redis", 105.0, False),
        ("ReadError: ", "cut", "payments", 105.0, True),
        ("ReadError: ", "kill", "redis", 105.0, False),
    ],
)
def test_a_doubt_needs_its_fault(
    why: str, kind: Kind, target: str, began: float, *, explained: bool
) -> None:
    """Only a fault that can make such a doubt explains it, and only between witness and record."""
    told = DOUBT | {"text": str(DOUBT["text"]).format(why=why)}
    struck = Struck(Fault(5.0, kind, target), 5.0, began, began + 0.5)
    verdict = audit(replace(one_call(told, tool="pay_out"), struck=[struck]))
    assert counts(verdict) == (0, 0, 0, 1, 0 if explained else 1)
    assert verdict.doubts_by_why == {why: 1}


async def test_a_span_begins_where_the_witness_may_have_been_taken() -> None:
    """A fault between the reply's record and Temporal's hearing of it is not left out."""
    spans = Spans(pydantic_data_converter)
    call = ToolInput(
        run=RunRef(workflow_id="w", first_run_id="r", run_id="r", original_run_id="r"),
        agent="chaos",
        step="1",
        index=0,
        call="1.1",
        fingerprint="f",
        effect="at_most_once",
        key="k",
        witness=Witness(nonce="n", inc="i", run_id="r"),
        takeover_s=1,
        timeout_s=1,
    )
    (payload,) = await pydantic_data_converter.encode([call])
    for event in (
        _event(1, 10, "scheduled", activity_type={"name": "call_claude"}),
        _event(2, 11, "started", scheduled_event_id=1),
        _event(3, 19, "completed", scheduled_event_id=1),
        _event(4, 20, "scheduled", activity_type={"name": "pay"}, input={"payloads": [payload]}),
        _event(5, 21, "started", scheduled_event_id=4),
        _event(6, 25, "completed", scheduled_event_id=4),
    ):
        await spans.hear(event)
    assert spans.of == {"1.1": (11, 25)}


def _event(number: int, at: int, what: str, **attributes: Any) -> HistoryEvent:
    named: dict[str, Any] = {f"activity_task_{what}_event_attributes": attributes}
    return HistoryEvent(event_id=number, event_time=Timestamp(seconds=at), **named)


# ---- the proxy


@asynccontextmanager
async def shouting(arrived: list[bytes]) -> AsyncGenerator[Proxy]:
    """Run a proxy before a server that notes each chunk and shouts it back."""

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(100):
            arrived.append(chunk)
            writer.write(chunk.upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    async with server, Proxy(server.sockets[0].getsockname()[1]) as proxy:
        yield proxy


async def said_to(proxy: Proxy) -> bytes:
    """Say "hello" on a new connection; returns what comes back until it ends, or all of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        writer.write(b"hello!")
        return await reader.readexactly(6)
    except asyncio.IncompleteReadError as error:
        return error.partial
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("fault", "came", "back"),
    [
        (Fault(0, "delay", "payments", delay_s=0.01), [b"hello!"], b"HELLO!"),
        (Fault(0, "cut", "payments", side="request"), [b"hel"], b""),
        (Fault(0, "cut", "payments", side="reply"), [b"hello!"], b"HEL"),
    ],
    ids=["delay", "cut request", "cut reply"],
)
async def test_the_proxy_does_what_the_fault_says(
    fault: Fault, came: list[bytes], back: bytes
) -> None:
    """Late but whole, or half of it and then the end; afterwards all is well again."""
    arrived: list[bytes] = []
    async with shouting(arrived) as proxy:
        async with proxy.trouble(fault):
            heard = await said_to(proxy)
        assert (heard, arrived) == (back, came)
        assert await said_to(proxy) == b"HELLO!"


async def test_the_proxy_swallows_only_the_reply() -> None:
    """What was asked is done, no word of it comes back, and the connection ends with the fault."""
    arrived: list[bytes] = []
    async with shouting(arrived) as proxy:
        async with proxy.trouble(Fault(0, "swallow", "payments")):
            asking = asyncio.create_task(said_to(proxy))
            await wait_until(lambda: arrived, 10, what="the request")
            assert not asking.done()
        assert (await asking, arrived) == (b"", [b"hello!"])


async def test_a_server_that_is_down_ends_the_connection() -> None:
    """Whoever asks while the server behind the proxy is dead is not left waiting."""
    arrived: list[bytes] = []
    async with shouting(arrived) as living:
        port = living.port
    async with Proxy(port) as proxy:
        assert await said_to(proxy) == b""
