"""Whatever is wrong with a run or a server, every command says so within seconds."""

import inspect
import statistics
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest
from agent_double import Cli, Ran, double_worker
from agent_runs import ASKED, Bench, Run, app_of, says, uses
from temporalio.client import Client
from typed_commands import new_id, until_trouble

import starter
from onward import tool
from onward.testing import wait_until
from onward.testing.messages_api import Fault

WITHIN_S, NEVER_S = 6.0, 10.0
"""An answer takes less than the first, by the median; even on a busy machine none takes the second.
"""
RUN = "RUN"


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


ABOUT_A_RUN: dict[str, Sequence[str]] = {
    "watch": (RUN,),
    "status": (RUN,),
    "result": (RUN,),
    "cancel": (RUN,),
    "send": (RUN, "Leave order A-7 out"),
    "pause": (RUN,),
    "resume": (RUN,),
    "approve": (RUN, "1.1"),
    "deny": (RUN, "1.1"),
    "resolve": (RUN, "1.1", "done"),
    "limit": (RUN, "--max-steps", "9"),
    "spend": (RUN,),
    "audit": (RUN,),
    "transcript": (RUN,),
    "fork": (RUN, "--step", "99"),  # which no run here has: nothing is started
}
"""Every command that takes a run, as typed."""
USAGE, AWAY, NO_RUN = 2, 3, 4
SAYS_SOMETHING = ("send", "approve", "deny", "resolve", "limit")
"""Commands that a worker must hear."""
STEERS = ("send", "pause", "resume", "approve", "deny", "resolve", "limit")


def test_the_table_has_every_command_about_a_run() -> None:
    """A new command is asked the same questions as the others."""
    takes_run = [
        app.name[0]
        for app in (starter.app[name] for name in starter.app if not name.startswith("-"))
        if _takes_run(app.default_command)
    ]
    assert sorted(takes_run) == sorted(ABOUT_A_RUN)


def _takes_run(command: object) -> bool:
    assert callable(command)
    found = inspect.signature(command).parameters.get("run_id")
    return found is not None and found.kind is inspect.Parameter.POSITIONAL_ONLY


async def answers(cli: Cli, run_id: str, *left_out: str) -> dict[str, Ran]:
    """What each command says about the run; it must say so in time, and without a traceback."""
    said, took = dict[str, Ran](), dict[str, float]()
    for name, tokens in ABOUT_A_RUN.items():
        if name in left_out:
            continue
        began = time.monotonic()
        said[name] = await cli(name, *(run_id if token == RUN else token for token in tokens))
        took[name] = time.monotonic() - began
        assert "Traceback" not in said[name].err, said[name].err
        assert said[name].out or said[name].err, f"{name} said nothing"
    assert statistics.median(took.values()) < WITHIN_S, took
    assert max(took.values()) < NEVER_S, took
    return said


def codes(said: Mapping[str, Ran]) -> dict[str, int]:
    return {name: ran.code for name, ran in said.items()}


def expected(usual: int, *but: tuple[int, Sequence[str]]) -> dict[str, int]:
    """Codes of all commands: `usual`, with exceptions."""
    return dict.fromkeys(ABOUT_A_RUN, usual) | {name: code for code, names in but for name in names}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up a worker that is away sooner than in 3 s: many commands ask for it here."""
    monkeypatch.setattr("onward.reports.QUERY_TIMEOUT", timedelta(seconds=0.5))


@pytest.mark.usefixtures("queue")
async def test_a_run_that_does_not_exist(cli: Cli, client: Client, queue: str) -> None:
    """Exit 4 with its id, and how to see which there are; so is somebody else's workflow."""
    theirs = await client.start_workflow("somebody-elses", id=uuid.uuid4().hex, task_queue=queue)
    said = await answers(cli, "no-such-run")
    assert codes(said) == expected(NO_RUN)
    assert {"knows no run 'no-such-run'" in ran.err for ran in said.values()} == {True}
    foreign = await answers(cli, theirs.id)
    assert codes(foreign) == expected(NO_RUN)
    assert {"of type 'somebody-elses'" in ran.err for ran in foreign.values()} == {True}
    await theirs.terminate()


async def test_a_run_that_has_ended(cli: Cli, bench: Bench) -> None:
    """What looks goes on looking; what steers is exit 2 and says how it ended."""
    run = await bench.run(app_of(), says())
    said = await answers(cli, run.name)
    assert codes(said) == expected(0, (USAGE, (*STEERS, "fork")))
    assert {"has ended (completed" in said[name].err for name in STEERS} == {True}
    assert "there is nothing to cancel" in said["cancel"].err


@pytest.mark.usefixtures("hasty")
async def test_a_run_whose_worker_is_away(cli: Cli, bench: Bench) -> None:
    """Nothing hangs on a worker: it is told what history knows, or exit 3 and how to start one."""
    run = await bench.start(says())
    said = await answers(cli, run.name, "watch")
    usage = ("result", "transcript", "fork")
    assert codes(said) == {
        name: code
        for name, code in expected(0, (USAGE, usage), (AWAY, SAYS_SOMETHING)).items()
        if name != "watch"
    }
    for name in SAYS_SOMETHING:
        assert f"no worker of task queue '{bench.queue}' answers" in said[name].err
        assert "Start `onward-worker`, then say it again" in said[name].err
    await run.handle.terminate()


async def test_a_run_whose_code_fails_on_its_worker(cli: Cli, client: Client, queue: str) -> None:
    """Its task is tried again and again: what went wrong is said, to whoever looks or speaks."""
    async with double_worker(client, queue):
        run_id = new_id()
        await cli("start", "loops", "--id", run_id)
        await until_trouble(cli, run_id, "a bug in the loop")
        said = await answers(cli, run_id, "watch", "transcript", "fork", "audit")
    assert {said[name].code for name in SAYS_SOMETHING} == {AWAY}
    assert {"a bug in the loop" in said[name].err for name in SAYS_SOMETHING} == {True}
    assert {said[name].code for name in ("status", "spend", "cancel", "pause")} == {0}
    await client.get_workflow_handle(run_id).terminate()


@pytest.mark.parametrize("begun", [True, False])
async def test_a_run_that_was_terminated(cli: Cli, bench: Bench, *, begun: bool) -> None:
    """Also before any worker saw it: exit 1 with the reason, and nothing waits for an answer."""
    run = await _terminated(bench, begun=begun)
    said = await answers(cli, run.name)
    failed = ("watch", "result")
    untold = ("fork",) if begun else ("transcript", "fork")
    assert codes(said) == expected(0, (USAGE, (*STEERS, *untold)), (1, failed))
    assert {"it was terminated: wrong list" in said[name].err for name in failed} == {True}


async def _terminated(bench: Bench, *, begun: bool) -> Run:
    run = await bench.start(uses(("look", {})), says(faults=[Fault(hold_s=600)]))
    if begun:
        async with bench.worker(app_of(look), **ASKED):
            await wait_until(lambda: len(run.requests) > 1, 30, what="the second request")
            await run.handle.terminate(reason="wrong list")
    else:
        await run.handle.terminate(reason="wrong list")
    return run


@pytest.mark.usefixtures("queue")
async def test_a_temporal_that_is_away(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 3 with its address from every command, also those about no run."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    said = await answers(cli, "any-run")
    for tokens in ("start go", "list", "list --waiting", "spend --since 1d", "doctor"):
        said[tokens] = await cli(*tokens.split())
    assert set(codes(said).values()) == {AWAY}
    assert {"127.0.0.1:1" in ran.err + ran.out for ran in said.values()} == {True}
