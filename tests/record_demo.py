"""Record the demo as it runs on a terminal; `make recording` writes docs/images/demo.svg.

It is shown at double speed, the servers' start shorter than that, and its end for as long as it
takes to read. Nothing else is changed: what is seen is what the demo wrote.
"""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from itertools import pairwise
from pathlib import Path

from terminal_film import Film, svg

ROOT = Path(__file__).parent.parent
RECORDING = ROOT / "docs" / "images" / "demo.svg"
_COLUMNS, _ROWS = 108, 27
_EVERY_S = 0.5
"""Between two frames; the demo's clock would change ten times as many."""
_FASTER = 2.0
_LONGEST_S, _READ_S = 0.8, 12.0
"""How long a frame is shown at most, and the last one."""
_LAST_WORDS = b"Enter to stop"


def record() -> Film:
    """Run the demo on a terminal of its own, to its last words."""
    film = Film(_COLUMNS, _ROWS)
    film.write(b"$ onward demo\r\n")
    film.shoot(0.0)
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(_COLUMNS), "LINES": str(_ROWS)}
    command = [sys.executable, str(ROOT / "starter.py"), "demo"]
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=env, start_new_session=True
    ) as demo:
        os.close(terminal)
        _shoot(film, screen)
        os.write(screen, b"\n")
        if demo.wait(60) != 0:
            raise SystemExit(f"the demo ended with {demo.returncode}: nothing was recorded")
    return film


def _shoot(film: Film, screen: int) -> None:
    began, heard = time.monotonic(), b""
    due = began
    while _LAST_WORDS not in heard:
        if select.select([screen], [], [], 0.1)[0]:
            data = os.read(screen, 65536)
            heard = heard[-len(_LAST_WORDS) :] + data
            film.write(data)
        if (now := time.monotonic()) >= due:
            film.shoot(now - began)
            due = now + _EVERY_S
    film.shoot(time.monotonic() - began)


def shown_s(film: Film) -> list[float]:
    """Seconds for which each frame is shown."""
    real = (after.at_s - before.at_s for before, after in pairwise(film.frames))
    return [*(min(each / _FASTER, _LONGEST_S) for each in real), _READ_S]


if __name__ == "__main__":
    found = record()
    RECORDING.write_text(svg(found, shown_s(found)))
