"""The tool as the crash test's workers run it: the same, but watched, and struck where wanted."""

import functools
import inspect
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from onward.testing.crash_test import recording
from onward.testing.crash_test.lines import LineTap
from onward.testing.crash_test.names import LINE_ENV, MOMENT_ENV
from onward.testing.crash_test.recording import Line, Recording
from onward.testing.crash_test.sockets import SocketTap
from onward.tools import Tool


class Watch:
    """Watches every call of one tool in this process, and writes to `file` what it did."""

    def __init__(self, tool: Tool[..., Any], file: Path, env: Mapping[str, str]) -> None:
        self._file, self._running = file, 0
        self._moment_s = float(env.get(MOMENT_ENV, "0"))
        self._strike = _strike(env.get(LINE_ENV, ""))
        self._lines = LineTap(inspect.unwrap(tool).__code__.co_filename, self._strike)
        self._sockets = SocketTap(lambda: self._running > 0)
        self._sockets.install()

    @contextmanager
    def call(self) -> Generator[None]:
        """Watch one call, on its own thread."""
        recording.write_begin(self._file)
        began = time.monotonic()
        if self._moment_s:
            threading.Timer(self._moment_s, _kill).start()
        self._running += 1
        if not os.environ.get("FP"):  # tracing costs time, and only plans and lines need it
            self._lines.start()
        try:
            yield
        finally:
            self._lines.stop()
            self._running -= 1
            recording.write_end(self._file, self._recorded(time.monotonic() - began))

    def _recorded(self, took_s: float) -> Recording:
        return Recording(tuple(self._sockets.requests), self._lines.lines, took_s)


def watched(tool: Tool[..., Any], watch: Watch) -> Tool[..., Any]:
    """Make the same tool, watched; nobody is asked, neither before a call nor of a doubt."""
    # Not in_doubt="model": a tool that reads may not say who settles its doubts.
    nobody: dict[str, Any] = {"moves_money": False, "irreversible": False, "in_doubt": None}
    unattended = replace(tool.options, ask="never", **nobody)
    return Tool(_watched(tool.__wrapped__, watch), unattended)


def _watched(function: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run_async(*args: Any, **given: Any) -> Any:
        with watch.call():
            return await function(*args, **given)

    @functools.wraps(function)
    def run(*args: Any, **given: Any) -> Any:
        with watch.call():
            return function(*args, **given)

    return run_async if inspect.iscoroutinefunction(function) else run


def _strike(spec: str) -> Callable[[Line], None]:
    if not spec:
        return lambda _line: None
    action, number, path = spec.split(":", 2)
    act = _kill if action == "kill" else _pause

    def reached(line: Line) -> None:
        if line == (path, int(number)):
            act()

    return reached


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _pause() -> None:
    # As in onward/failpoints.py: another thread could take a signal to the process.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
