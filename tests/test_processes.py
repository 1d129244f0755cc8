"""Process control: a kill test proves something only if the process was there and was killed."""

import json
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Protocol

import psutil
import pytest
import pytest_asyncio

from onward import ToolContext, tool
from onward.testing import (
    ManagedProcess,
    ProcessFailed,
    ServiceProcess,
    TemporalServer,
    WorkerProcess,
    clean_env,
    tool_context,
    wait_until,
)


class Spawn(Protocol):
    async def __call__(self, code: str, **env: str) -> ManagedProcess: ...


@pytest_asyncio.fixture
async def spawn(tmp_path: Path) -> AsyncGenerator[Spawn]:
    """Start `python -c code`; all are ended after the test."""
    started: list[ManagedProcess] = []

    async def start(code: str, **env: str) -> ManagedProcess:
        process = await ManagedProcess.spawn(
            [sys.executable, "-c", code], log=tmp_path / "log", env=clean_env(env)
        )
        started.append(process)
        return process

    yield start
    for process in started:
        await process.stop()


FOREVER = "import time; print('up', flush=True); time.sleep(600)"


async def test_kill_is_a_kill(spawn: Spawn) -> None:
    """The exit status proves the SIGKILL."""
    process = await spawn(FOREVER)
    assert await process.kill() == -9
    assert process.returncode == -9
    assert not psutil.pid_exists(process.pid)


async def test_kill_of_a_process_that_had_ended_is_an_error(spawn: Spawn) -> None:
    """A kill test whose victim ended by itself must fail, not pass."""
    process = await spawn("raise SystemExit(3)")
    await process.wait(10)
    with pytest.raises(ProcessFailed, match="had ended with 3"):
        await process.kill()


async def test_what_a_process_said_before_it_failed_is_in_the_error(spawn: Spawn) -> None:
    """Waiting for a dead process ends at once and says why it died."""
    process = await spawn("raise RuntimeError('no such thing')")
    with pytest.raises(ProcessFailed, match=r"(?s)ended with 1 before 'up'.*no such thing"):
        await process.logged("up", 30)


async def test_waiting_for_a_log_line_has_a_deadline(spawn: Spawn) -> None:
    """No test waits for ever."""
    process = await spawn(FOREVER)
    await process.logged("up", 10)
    with pytest.raises(ProcessFailed, match=r"(?s)waited 0.1 s for 'never'.*up"):
        await process.logged("never", 0.1)


async def test_a_successor_does_not_read_its_predecessors_log(spawn: Spawn) -> None:
    """With one log for both, a worker is not ready because the one before it was."""
    first = await spawn("print('up')")
    await first.wait(10)
    second = await spawn("import time; print('other', flush=True); time.sleep(600)")
    await second.logged("other", 10)
    assert "up" not in second.output()
    assert "up" in second.log.read_text()


async def test_pause_and_resume(spawn: Spawn) -> None:
    """A paused process does nothing and loses nothing."""
    process = await spawn(
        "import time\nn = 0\nwhile n := n + 1: print(n, flush=True); time.sleep(.01)"
    )
    await process.logged("3", 10)
    process.pause()
    await wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, 5)
    said = process.output()
    with pytest.raises(ProcessFailed, match="waited"):
        await process.until(lambda: process.output() != said, 0.2, what="a word")
    process.resume()
    await process.until(lambda: process.output() != said, 5, what="a word")


async def test_stop_ends_what_does_not_listen(spawn: Spawn) -> None:
    """SIGTERM first, SIGKILL for whoever ignores it; also where it is paused."""
    process = await spawn(
        f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {FOREVER}"
    )
    await process.logged("up", 10)
    process.pause()
    assert await process.stop(deadline_s=0.2) == -signal.SIGKILL
    polite = await spawn(FOREVER)
    await polite.logged("up", 10)
    polite.pause()
    assert await polite.stop() == -signal.SIGTERM


async def test_a_child_gets_no_settings_or_keys_of_ours(
    spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A developer's key or address never reaches a test's process, nor does a failpoint."""
    for name in ("ANTHROPIC_API_KEY", "TEMPORAL_ADDRESS", "ONWARD_REDIS_URL", "FP"):
        monkeypatch.setenv(name, "secret")
    process = await spawn("import os, json; print(json.dumps(dict(os.environ)))", ONWARD_APP="mine")
    await process.wait(10)
    assert "secret" not in process.output()
    assert json.loads(process.output())["ONWARD_APP"] == "mine"


async def test_a_child_finds_what_is_on_this_machine(
    spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a proxy the demo waited for ever; what the shell excepts from it stays excepted."""
    monkeypatch.setenv("no_proxy", "ours.example")
    monkeypatch.setenv("http_proxy", "http://proxy.example")
    told = "import urllib.request as r; print(*[bool(r.proxy_bypass(h)) for h in %r])"
    process = await spawn(told % (["127.0.0.1", "localhost", "ours.example", "theirs.example"],))
    await process.wait(10)
    assert process.output().split() == ["True", "True", "True", "False"]


async def test_wait_until_returns_what_it_waited_for() -> None:
    """Sync and async conditions alike."""
    values = iter([0, "", "there"])

    async def later() -> str:
        return "there"

    assert await wait_until(lambda: next(values), 5) == "there"
    assert await wait_until(later, 5) == "there"


async def test_wait_until_says_what_it_waited_for() -> None:
    """A timeout names the condition and what was seen last."""
    with pytest.raises(TimeoutError, match=r"waited 0.01 s for the end; last value: \[\]"):
        await wait_until(list[int], 0.01, what="the end")


# ---- a worker


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for worker.py: a process that says it polls, then passes a failpoint."""
    path = tmp_path / "worker.py"
    path.write_text(
        "import time, sys\n"
        "from onward.failpoints import failpoint\n"
        "print('polling', *sys.argv[1:])\n"
        "failpoint('f6')\n"
        "print('passed')\n"
        "time.sleep(600)\n"
    )
    monkeypatch.setattr("onward.own_code.ROOT", tmp_path)
    return path


@pytest.mark.crash
@pytest.mark.usefixtures("script")
async def test_a_worker_is_killed_at_a_failpoint(tmp_path: Path) -> None:
    """`FP` kills it at the point, after it was ready and before it went on."""
    worker = await WorkerProcess.start(
        {"FP": "f6:1:kill"}, args=["--local"], log=tmp_path / "worker.log"
    )
    assert await worker.killed() == -9
    assert worker.output() == "polling --local\nfailpoint f6: kill\n"


@pytest.mark.crash
@pytest.mark.usefixtures("script")
async def test_a_worker_is_paused_at_a_failpoint(tmp_path: Path) -> None:
    """`FP` pauses it at the point until it is resumed."""
    worker = await WorkerProcess.start({"FP": "f6:1:pause"}, log=tmp_path / "worker.log")
    await worker.paused()
    await worker.ready()
    assert "passed" not in worker.output()
    worker.resume()
    await worker.logged("passed", 10)
    assert await worker.stop() == -signal.SIGTERM


@pytest.mark.usefixtures("script")
async def test_a_worker_that_no_failpoint_killed_is_an_error(tmp_path: Path) -> None:
    """A crash test whose crash did not happen must fail."""
    worker = await WorkerProcess.start({}, log=tmp_path / "worker.log")
    await worker.ready()
    with pytest.raises(ProcessFailed, match="still runs"):
        await worker.killed(0.1)
    await worker.stop()


FORKS = """
import asyncio, operator, os, pathlib
from onward.testing.warm import WarmWorker, remove_fork_folder
folder = pathlib.Path(os.environ["TMPDIR"])
worker = WarmWorker.fork(operator.index, [0], env={}, log=folder / "forked.log")
asyncio.run(worker.wait(30))
print("folders", len(list(folder.glob("pymp-*"))), flush=True)
remove_fork_folder()
print("left", len(list(folder.glob("pymp-*"))), flush=True)
os._exit(0)
"""


async def test_the_process_that_workers_are_forked_from_leaves_no_folder(
    spawn: Spawn, tmp_path: Path
) -> None:
    """A command ends without Python's own clean-up; what it left would stay for ever."""
    process = await spawn(FORKS, TMPDIR=str(tmp_path))
    assert await process.wait(30) == 0
    assert "folders 1\nleft 0" in process.output()


SHUTDOWN = """
import atexit
from onward import Agent, App
atexit.register(print, "the interpreter shuts down", flush=True)
app = App(Agent("a", model="m"))
"""


async def test_the_real_worker_gets_ready_and_ends(
    temporal: TemporalServer, redis_url: str, tmp_path: Path
) -> None:
    """`ready()` is when it polls; SIGTERM ends it without an error.

    Past the interpreter's own shutdown, in which the SDK's threads crash one worker in seven.
    """
    (tmp_path / "shutdown.py").write_text(SHUTDOWN)
    env = {
        "TEMPORAL_ADDRESS": temporal.address,
        "ONWARD_REDIS_URL": redis_url,
        "ONWARD_TASK_QUEUE": "test-processes",
        "ONWARD_APP": "shutdown:app",
    }
    worker = await WorkerProcess.start(env, log=tmp_path / "worker.log")
    await worker.ready()
    assert await worker.stop() == 0
    assert "shuts down" not in worker.output()


async def test_a_service_that_does_not_start_says_why(tmp_path: Path) -> None:
    """The error holds what it said."""
    with pytest.raises(ProcessFailed, match="No module named no_such_module"):
        await ServiceProcess.start_module("no_such_module", log=tmp_path / "log")


# ---- a tool's unit test


async def test_a_tool_is_tested_by_calling_it() -> None:
    """A tool author's unit test needs no server: the tool is the function, the context is given."""

    @tool(effect="keyed")
    async def echo(text: str, ctx: ToolContext) -> str:
        """Say it again."""
        return f"{text} {ctx.idempotency_key}"

    assert await echo("hello", tool_context(idempotency_key="onw_1")) == "hello onw_1"
