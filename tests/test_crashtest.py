"""The crash test finds what is wrong with a tool, and nothing wrong with one that is right."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import planted_faults
import pytest
import pytest_asyncio
from agent_runs import Bench
from aiohttp import web

from onward.console import Output
from onward.errors import UsageError
from onward.failpoints import POINTS
from onward.local_services import TemporalServer
from onward.testing import PaymentsProcess
from onward.testing.crash_test import crash_test
from onward.testing.crash_test.command import crashtest
from onward.testing.crash_test.faults import NO_FAULT, Fault
from onward.testing.crash_test.plan import plan
from onward.testing.crash_test.recording import Recording, Request
from onward.testing.crash_test.report import CrashReport, report_of
from onward.testing.crash_test.servers import Servers
from onward.testing.crash_test.subject import subject
from onward.testing.crash_test.testing import try_all, without_fault
from onward.testing.crash_test.trial import trial
from onward.tools import Tool

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

ORDER = {"order": "{unique}"}
BESIDE = 3


def at(point: str, action: Any, nth: int = 1) -> Fault:
    """Make a fault at a numbered point."""
    return Fault(action=action, point=point, nth=nth)


def before(tool: Tool[..., Any], text: str) -> Fault:
    """Make a kill before the first line of a tool that holds this text."""
    code = tool.__wrapped__.__code__
    lines = Path(code.co_filename).read_text().splitlines()
    first = next(n for n, line in enumerate(lines, 1) if n > code.co_firstlineno and text in line)
    return Fault(action="kill", point="line", line=(code.co_filename, first))


PLANTED: Mapping[str, tuple[Fault, str, str]] = {
    "read_that_books": (NO_FAULT, "changes", "Declare what this tool is"),
    "keyed_without_key": (at("f6", "kill"), "repeated", "Hand ctx.idempotency_key"),
    "keyed_with_another_body": (at("f6", "kill"), "doubt", "the same body"),
    "pays_twice": (NO_FAULT, "repeated", "Make one request"),
    "retries": (at("f6", "cut"), "repeated", "Switch retries off"),
    # The second write of these clients is the body: without it the service acts on nothing.
    "swallows": (at("f5", "cut", 2), "lost", "Let it raise"),
    "rejects_what_happened": (at("f6", "cut"), "denied", "Raise Rejected only"),
    "sealed_without_fence": (at("f5", "pause", 2), "repeated", "Send ctx.fence"),
    "timed_too_short": (at("f5", "pause", 2), "repeated", "make settle_s longer"),
    "commits_twice": (
        before(planted_faults.commits_twice, "INSERT INTO keys"),
        "repeated",
        "one and the same commit",
    ),
    "key_first": (
        before(planted_faults.key_first, "INSERT INTO refunds"),
        "lost",
        "never store a key before its effect",
    ),
}
"""By tool: the fault that shows what is wrong with it, how the promise breaks, what to do."""


@dataclass(frozen=True)
class Laid:
    """Servers that run already, and the other side of the tools."""

    servers: Servers
    payments: PaymentsProcess

    def effects(self, given: Mapping[str, Any]) -> int:
        """Count an order's effects, in either place."""
        order = given["order"]
        refunds = sum(effect.order.startswith(order) for effect in self.payments.effects())
        return refunds + planted_faults.count(dict(given))

    async def report(self, name: str, fault: Fault) -> CrashReport:
        """Try one fault on one tool."""
        tested = subject(getattr(planted_faults, name), ORDER, self.effects)
        outcome = await trial(self.servers, tested, fault)
        return report_of(tested.spec, tested.effect, [outcome])


@pytest_asyncio.fixture(loop_scope="session")
async def laid(  # noqa: PLR0917  (fixtures)
    bench: Bench,
    temporal: TemporalServer,
    redis_url: str,
    payments: PaymentsProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncGenerator[Laid]:
    """Lay out what the tools need, and use the servers of this test process."""
    monkeypatch.setenv("PAYMENTS_URL", payments.url)
    monkeypatch.setenv("BOOKS_DB", str(tmp_path / "books.db"))
    monkeypatch.chdir(Path(__file__).parent)
    yield Laid(Servers(bench.temporal, temporal.address, redis_url, bench.api, tmp_path), payments)


async def test_a_planted_fault_of_each_kind_is_found(laid: Laid) -> None:
    """A tool that breaks its promise is caught, and its author is told what to do."""
    free = asyncio.Semaphore(BESIDE)

    async def found(name: str, fault: Fault) -> tuple[str | None, str]:
        async with free:
            (only,) = (await laid.report(name, fault)).trials
        return only.problem, only.todo

    faults = {name: planted[0] for name, planted in PLANTED.items()}
    results = await asyncio.gather(*(found(name, fault) for name, fault in faults.items()))
    for (name, (_, problem, todo)), (seen, said) in zip(PLANTED.items(), results, strict=True):
        assert (name, seen) == (name, problem)
        assert todo in said


async def test_a_tool_that_keeps_its_promise_passes(laid: Laid) -> None:
    """Nobody is sent after a fault that is not there; a tool that asks first waits for nobody."""
    tested = subject(planted_faults.right, ORDER, laid.effects)
    report = await try_all(laid.servers, tested, ["f6"], lambda _done, _all: None)
    report.assert_held()
    assert [trial.action for trial in report.trials if trial.struck] == [
        *("none", "kill", "pause", "cut")
    ]
    assert json.loads(json.dumps(report.document()))["held"] is True


async def test_a_doubt_is_held_against_nobody_who_could_not_know(laid: Laid) -> None:
    """An at_most_once call that is killed between claim and record may be in doubt."""
    report = await laid.report("right_payout", at("f6", "kill"))
    (only,) = report.trials
    assert (only.told, only.effects, only.problem) == ("doubt", 1, None)


async def test_a_tool_without_sockets_is_struck_between_its_lines(laid: Laid) -> None:
    """A tool whose effect passes no socket of Python's is tested all the same."""
    tested = subject("planted_faults:right_booking", ORDER, "planted_faults:count")
    base = await trial(laid.servers, tested, NO_FAULT)
    assert base.recording.requests == ()
    faults = plan(base.recording, ["f6"])
    killed = [fault.line for fault in faults if (fault.action, fault.point) == ("kill", "line")]
    first, *later = (before(planted_faults.right_booking, text) for text in ("BEGIN", "COMMIT"))
    assert killed == list(base.recording.lines)
    assert {first.line, *(fault.line for fault in later)} < set(killed)
    outcome = await trial(laid.servers, tested, replace(first, action="pause"))
    assert (outcome.struck, outcome.effects, outcome.answer.told) == (True, 1, "done")


def test_a_point_is_struck_in_each_of_the_first_requests() -> None:
    """A tool that makes several requests is struck at each; a reply never read has no point."""
    asked = Recording(requests=(Request(2, 1, 1), Request(3)))
    assert [str(fault) for fault in plan(asked, ["f5", "f7"])] == [
        "kill f5: half of the request's body was written (request 1)",
        "pause f5: half of the request's body was written (request 1)",
        "cut f5: half of the request's body was written (request 1)",
        "kill f5: half of the request's body was written (request 2)",
        "pause f5: half of the request's body was written (request 2)",
        "cut f5: half of the request's body was written (request 2)",
        "kill f7: the reply was read (request 1)",
    ]


@pytest.mark.parametrize(
    ("tool", "given", "probe", "said"),
    [
        ("planted_faults:nothing", ORDER, "true", "has no 'nothing'"),
        ("no_such_module:right", ORDER, "true", "cannot be imported"),
        ("planted_faults", ORDER, "true", "not of the form 'module:name'"),
        ("planted_faults:count", ORDER, "true", "no tool; decorate"),
        ("planted_faults:right", {"sum": 1}, "true", "'order' is a required property"),
        ("planted_faults:right", ORDER, "planted_faults:nothing", "has no 'nothing'"),
    ],
)
async def test_what_cannot_be_tested_is_refused_before_any_server_starts(
    monkeypatch: pytest.MonkeyPatch, tool: str, given: dict[str, Any], probe: str, said: str
) -> None:
    """A slip on the command line costs no minute, and the message says what to mend."""
    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.setattr("onward.testing.crash_test.testing.servers", None)
    with pytest.raises(UsageError, match=said):
        await crash_test(tool, input=given, probe=probe)


def test_the_page_says_what_each_point_is() -> None:
    """`--points f6` can be typed by who has read the page; it names the points that there are."""
    page = (Path(__file__).parent.parent / "docs/testing-your-tools.md").read_text()
    assert re.findall(r"^\| `(f\d+)` \| (.*) \|$", page, re.MULTILINE) == list(POINTS.items())


@pytest.mark.parametrize(
    ("given", "points", "said"),
    [
        ("{", "f1", "--input is no JSON"),
        ("[1]", "f1", "give one JSON object"),
        (json.dumps(ORDER), "f1,f13", "no point is named 'f13'"),
    ],
)
async def test_a_slip_in_an_option_is_named(
    monkeypatch: pytest.MonkeyPatch, given: str, points: str, said: str
) -> None:
    """What was typed is shown, and what could be."""
    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.setattr("onward.testing.crash_test.testing.servers", None)
    with pytest.raises(UsageError, match=said):
        await crashtest("planted_faults:right", given, "planted_faults:count", points, Output())


async def test_a_probe_that_counts_all_inputs_is_noticed(laid: Laid) -> None:
    """Trials beside each other would be counted into each other: they run one after another."""
    tested = subject("planted_faults:right_booking", ORDER, "planted_faults:count_all")
    outcome, counts_all = await without_fault(laid.servers, tested)
    assert (outcome.effects, counts_all) == (1, True)


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        ("planted_faults:count_nothing", "answered 'many', but a probe answers with one whole"),
        ("echo none", "answered 'none'"),
        ("echo gone >&2; exit 3", "ended with 3: gone"),
        ("http://127.0.0.1:9/{unique}", "Connection refused"),
    ],
)
async def test_a_probe_that_answers_no_number_is_named(probe: str, said: str) -> None:
    """Nothing is counted on a guess."""
    counting = subject(planted_faults.right, ORDER, probe).probe
    with pytest.raises(UsageError, match=said):
        await counting.count({"order": "o-1"}, "o-1")


async def test_a_url_and_a_command_are_asked_of_one_trial_alone() -> None:
    """`{unique}` names this trial's input to them, so that trials can run beside each other."""
    command = subject(planted_faults.right, ORDER, "echo {unique} | tr -d o-").probe
    assert await command.count({}, "o-17") == 17
    async with _answering() as url:
        probe = subject(planted_faults.right, ORDER, f"{url}/count/{{unique}}").probe
        assert await probe.count({}, "2026") == 2026


@asynccontextmanager
async def _answering() -> AsyncGenerator[str]:
    """Serve /count/N, which answers N."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=request.match_info["n"] + "\n")

    app = web.Application()
    app.router.add_get("/count/{n}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_the_command_tells_its_verdict_by_exit_code_and_in_words(
    laid: Laid, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A build that runs it stops at a broken promise, and its log says what to do."""
    monkeypatch.setattr(
        "onward.testing.crash_test.testing.servers", lambda: nullcontext(laid.servers)
    )
    wanted = ("planted_faults:read_that_books", json.dumps(ORDER), "planted_faults:count", "f1")
    assert await crashtest(*wanted, Output()) == 1
    told = capsys.readouterr()
    assert told.out == "no fault\t1\tdone\tbroken (changes)\n"
    assert "promised  no effect" in told.err
    assert "to do     a read may run any number of times" in told.err
