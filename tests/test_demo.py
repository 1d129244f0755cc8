"""The demo as a person runs it: kills, audit, exit status, and nothing left behind."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from onward import own_code
from onward.managed_process import ManagedProcess, clean_env, wait_until
from onward.testing.messages_api import Script, ScriptedAPI, Step
from onward.testing.warm import WarmWorker

pytestmark = pytest.mark.timeout(280)

_TRACE = "DEMO_TEST_TRACE"
"""An environment variable that every process of the demo inherits, to find those left over."""
_FORBIDDEN_KEY = "sk-must-not-be-read"


@pytest.mark.crash
async def test_the_demo_survives_three_kills_and_its_audit_holds(tmp_path: Path) -> None:
    """The main job, whole and real: nothing missing, nothing twice, nothing left behind."""
    status, output = await _demo(tmp_path, "--json", "--seed", "3")
    found: dict[str, Any] = json.loads(output)
    assert (status, found["ok"], found["problems"]) == (0, True, [])
    assert found["steps"] >= 40
    assert {kill["place"] for kill in found["kills"]} == {"claude", "tool", "between"}
    assert found["effects"]["applied"] == found["effects"]["expected"]
    assert found["effects"]["in_doubt"] == 0
    await _nothing_left(tmp_path)


@pytest.mark.crash
async def test_the_same_without_onward_does_something_twice_and_fails(tmp_path: Path) -> None:
    """The audit can fail: a plain loop under the same kills pays a refund twice."""
    status, output = await _demo(tmp_path, "--json", "--seed", "3", "--unprotected")
    found: dict[str, Any] = json.loads(output)
    assert (status, found["ok"]) == (1, False)
    assert found["effects"]["duplicate"] + found["effects"]["missing"] > 0
    await _nothing_left(tmp_path)


@pytest.mark.crash
@pytest.mark.parametrize(
    ("number", "moment", "said"),
    [
        (signal.SIGINT, "steps: Line", "terminated the open run demo-"),
        (signal.SIGTERM, "steps: starting the servers", ""),
    ],
)
async def test_a_stopped_demo_terminates_its_run_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals, moment: str, said: str
) -> None:
    """Ctrl-C in mid-run and SIGTERM at the start end everything, with the shells' exit status."""
    demo = await _start(tmp_path, "--kills", "0")
    await demo.logged(moment, 90)
    demo.signal(number)
    assert await demo.wait(30) == 128 + number
    assert said in demo.output()
    await _nothing_left(tmp_path)
    assert "Traceback" not in demo.output()
    await _no_later_worker_goes_on(tmp_path)


async def _no_later_worker_goes_on(folder: Path) -> None:
    """A local worker with a key, started where the demo was, finds nothing to ask Claude for."""
    async with ScriptedAPI({"default": Script(default=Step())}) as api:
        env = {"ANTHROPIC_API_KEY": _FORBIDDEN_KEY, "ANTHROPIC_BASE_URL": api.url}
        worker = await WarmWorker.start(env, args=["--local"], log=folder / "worker.log")
        try:
            await worker.ready()
            listed = await _command(folder, "list", "--json")
            assert json.loads(listed)["runs"] == []
            assert len(api.journal) == 0
        finally:
            await worker.stop()


async def test_an_impossible_option_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """Wrong use is exit status 2 with the range that is possible."""
    status, output = await _demo(tmp_path, "--kills", "99")
    assert status == 2
    assert "0 to 12" in output


async def _demo(folder: Path, *options: str) -> tuple[int, str]:
    demo = await _start(folder, *options)
    status = await demo.wait(260)
    return status, demo.output()


async def _command(folder: Path, *words: str) -> str:
    """Type a command of `onward` in the folder of the local worker; returns its output."""
    command = [*own_code.command("starter"), *words]
    typed = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=clean_env(), stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await typed.communicate()
    return printed.decode()


async def _start(folder: Path, *options: str) -> ManagedProcess:
    """Start it with a key in its environment that it must not use, and a temp folder of its own."""
    (folder / "tmp").mkdir(exist_ok=True)
    env = clean_env() | {
        _TRACE: str(folder),
        "TMPDIR": str(folder / "tmp"),
        "ANTHROPIC_API_KEY": _FORBIDDEN_KEY,
    }
    return await ManagedProcess.spawn(
        [*own_code.command("starter"), "demo", *options], log=folder / "demo.log", env=env
    )


async def _nothing_left(folder: Path) -> None:
    """Wait a moment: the watcher that ends orphans ends when the demo has."""
    await wait_until(lambda: not _left_over(folder), 5, what=f"the end of {_left_over(folder)}")


def _left_over(folder: Path) -> list[str]:
    """Name the processes that carry our mark, and what lies in the temporary folder."""
    found = [
        f"{process.pid} {process.name()}"
        for process in psutil.process_iter()
        if process.pid != os.getpid() and _environment(process).get(_TRACE) == str(folder)
    ]
    return found + [path.name for path in (folder / "tmp").iterdir()]


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return {} if process.status() == psutil.STATUS_ZOMBIE else process.environ()
    except psutil.Error:
        return {}
