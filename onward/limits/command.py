"""Show the limits of a run, or raise or lower them while it goes on."""

from typing import Any

from onward import invoked
from onward.console import Output
from onward.errors import UsageError
from onward.limits.input import parse_limits
from onward.limits.options import TypedLimits
from onward.limits.use import LimitUse, limit_uses, limits_line
from onward.messages import LimitOverrides, Limits
from onward.reports import Report
from onward.session import open_run


async def limit(run_id: str, typed: TypedLimits, out: Output, *, by: str = "") -> int:
    """Change the limits that were typed; where none was, show them all.

    Raises NoSuchRun, UsageError, ConnectError.
    """
    given = parse_limits(typed)
    run = await open_run(run_id, out)
    seen = await run.report()
    if given == LimitOverrides():
        _show(seen, out)
        return 0
    _refuse_ended(seen)
    _tell(seen, await run.limit(given, by=by), out)
    return 0


def _show(seen: Report, out: Output) -> None:
    uses = limit_uses(seen.status)
    if out.as_json:
        out.json(_document(seen, uses))
    elif uses:
        out.table(("limit", "used of it"), [(use.name, use.said) for use in uses])
    else:
        out.say(f"the run {seen.run.id!r} {_why_none(seen)}")
    if uses and not seen.live:
        out.warn(f"{seen.trouble or 'no worker answers'}: what is used is a lower bound")


def _why_none(seen: Report) -> str:
    if seen.ended is not None:
        return f"has ended ({seen.ended.result.outcome}); no limit of it matters any more"
    return "has not begun, so its limits are not known yet"


def _refuse_ended(seen: Report) -> None:
    if seen.ended is not None:
        raise UsageError(
            f"the run {seen.run.id!r} {_why_none(seen)}. "
            f"`{invoked.typed('fork', seen.run.id)}` starts a run that goes on from its end, with "
            "the limits that you give it"
        )


def _tell(seen: Report, limits: Limits, out: Output) -> None:
    uses = limit_uses(seen.status.model_copy(update={"limits": limits}))
    if out.as_json:
        out.json(_document(seen, uses))
    else:
        out.say(f"{seen.run.id}: {limits_line(limits)}")
    for use in uses:
        if use.met:
            out.warn(f"{use.said} are used already, so Claude is not asked again")


def _document(seen: Report, uses: tuple[LimitUse, ...]) -> dict[str, Any]:
    """Describe limits, and what is used of them, as `limit --json` does."""
    shown = {use.name: {"used": use.used, "limit": use.most, "met": use.met} for use in uses}
    return {"run": seen.run.id, "run_id": seen.run.run_id, "limits": shown}
