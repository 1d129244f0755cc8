"""`onward crashtest`: a crash test from the command line, and its report as a table."""

import json
from typing import Any, cast

from onward.console import Output
from onward.errors import UsageError
from onward.failpoints import POINTS
from onward.testing.crash_test.report import CrashReport
from onward.testing.crash_test.testing import crash_test

HELD, BROKEN = 0, 1


async def crashtest(tool: str, given: str, probe: str, points: str, out: Output) -> int:
    """Test a tool; 0: its promise held, 1: it was broken. Raises UsageError."""
    chosen = [point.strip() for point in points.split(",")] if points else list(POINTS)
    with out.progress() as line:
        line.now("starting servers, and one call without a fault", ())
        report = await crash_test(
            tool,
            input=_input(given),
            probe=probe,
            points=chosen,
            progress=lambda done, total: line.now(f"trial {done} of {total}", ()),
        )
    if out.as_json:
        out.json(report.document())
    else:
        _show(report, out)
    return HELD if report.held else BROKEN


def _input(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"--input is no JSON ({error}): {text[:200]!r}") from error
    if not isinstance(given, dict):
        raise UsageError(f"--input is {text[:200]!r}; give one JSON object with the tool's input")
    return cast("dict[str, Any]", given)


def _show(report: CrashReport, out: Output) -> None:
    tried = [(t.fault, str(t.effects), t.told, t.verdict) for t in report.trials]
    missed = [(f"{point}: {POINTS[point]}", "", "", "not reached") for point in report.unreached]
    out.table(("fault", "effects", "Claude was told", "verdict"), [*tried, *missed])
    if report.unreached:
        out.say(
            "Its requests pass no socket of Python's (a C driver, a subprocess, a file?), so it was"
            " struck between its lines and at random moments instead"
        )
    for line in report.summary():
        out.say(line)
