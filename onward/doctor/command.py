"""The command: look at everything, and print what was found."""

from typing import Any

from onward.checks import Check
from onward.connection import find_target
from onward.console import Output
from onward.doctor.examining import examine
from onward.settings import load_settings

WELL, WRONG, AWAY = 0, 1, 3


async def doctor(out: Output, *, call: bool = False) -> int:
    """Look at everything; 0: all well, 1: something is wrong, 3: a server does not answer.

    `call`: ask Claude something, too, which costs a little. Raises UsageError for settings that
    cannot be read.
    """
    settings = load_settings()
    checks = await examine(settings, find_target(settings), call=call)
    states = {check.state for check in checks}
    if out.as_json:
        out.json({"ok": states <= {"ok", "note"}, "checks": {c.name: _document(c) for c in checks}})
    else:
        out.checks((check.state, check.name, str(check)) for check in checks)
    return AWAY if "away" in states else WRONG if "wrong" in states else WELL


def _document(check: Check) -> dict[str, Any]:
    return {"state": check.state, "found": check.found, "todo": check.todo, **check.figures}
