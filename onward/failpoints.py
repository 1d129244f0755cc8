"""Named points at which a test kills, pauses or fails a worker.

    FP="f6:1:kill"            the first time a request is sent and its reply not yet read: SIGKILL
    FP="f3:2:pause,f10:1:raise"

Each entry is name, which hit of this process (counted from 1), and what happens. A hit is one pass
through `failpoint(name)`. Without `FP` nothing is counted and nothing happens.
"""

import asyncio
import os
import re
import signal
import threading
from collections import Counter
from functools import lru_cache
from typing import Literal, cast

from onward.errors import UsageError

POINTS = {
    "f1": "before the claim is sent",
    "f2": "the claim was sent, its reply not read",
    "f3": "claimed",
    "f4": "before the request is sent",
    "f5": "half of the request's body was written",
    "f6": "the request was sent, its reply not read",
    "f7": "the reply was read",
    "f8": "before the completion is sent to the ledger",
    "f9": "the completion was sent, its reply not read",
    "f10": "completed in the ledger",
    "f11": "before the activity returns",
    "f12": "after the activity returned",
}
"""Every point, in the order in which one call passes them."""

Action = Literal["kill", "pause", "raise"]

_ENTRY = re.compile(r"(?P<name>\w+):(?P<nth>[1-9]\d*):(?P<action>kill|pause|raise)")
_lock = threading.Lock()
_hits: Counter[tuple[str, str]] = Counter()  # by (FP, name): a new FP starts to count anew


def failpoint(name: str) -> None:
    """Do what `FP` says for this hit of the point `name`; nothing without `FP`.

    Raises RuntimeError where `FP` says `raise`, UsageError where `FP` cannot be understood.
    """
    spec = os.environ.get("FP", "")
    if not spec:
        return
    if name not in POINTS:
        raise UsageError(f"no failpoint is named {name!r}; there are {', '.join(POINTS)}")
    with _lock:
        _hits[spec, name] += 1
        action = _parse(spec).get((name, _hits[spec, name]))
    if action is not None:
        _act(action, name)


def pass_return() -> None:
    """Pass the points around an activity's return of a call's result."""
    failpoint("f11")
    # Nothing of ours runs after the return: by then the SDK has sent the result.
    asyncio.get_running_loop().call_later(0.2, failpoint, "f12")


def struck(name: str, action: Action) -> str:
    """Say what standard error says when a point acts: a fault that never struck proves nothing."""
    return f"failpoint {name}: {action}"


def _act(action: Action, name: str) -> None:
    os.write(2, f"{struck(name, action)}\n".encode())
    if action == "raise":
        raise RuntimeError(f"failpoint {name}: {POINTS[name]}")
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    # To this thread and not to the process: another thread could take the signal, and this one
    # would run on past the point for a moment.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


@lru_cache
def _parse(spec: str) -> dict[tuple[str, int], Action]:
    return dict(_entry(text.strip()) for text in spec.split(","))


def _entry(text: str) -> tuple[tuple[str, int], Action]:
    found = _ENTRY.fullmatch(text)
    if found is None or found["name"] not in POINTS:
        raise UsageError(
            f"FP holds {text!r}, but an entry is NAME:NTH:ACTION with NAME one of "
            f"{', '.join(POINTS)}, NTH from 1, and ACTION kill, pause or raise"
        )
    return (found["name"], int(found["nth"])), cast("Action", found["action"])


if os.environ.get("FP"):  # a wrong FP must stop the worker at its start, not fail an activity later
    _parse(os.environ["FP"])
