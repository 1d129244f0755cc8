"""What a person says of a call that waits: approve it, deny it, settle its doubt."""

from onward import run_input
from onward.client import Decision
from onward.console import Output
from onward.messages import Settlement
from onward.session import open_run
from onward.wording import UNDECIDED


async def approve(
    run_id: str,
    call: str,
    out: Output,
    *,
    edit: str | None = None,
    remember: bool = False,
    view: str = "",
    by: str = "",
) -> int:
    """Let a call run, as Claude asked for it or as `edit` has it: JSON, `@FILE` or `-`."""
    edited = None if edit is None else run_input.read_edit(edit)
    run = await open_run(run_id, out)
    decision = await run.approve(call, edit=edited, remember=remember, view=view, by=by)
    how = "may run as you edited it" if edited else "may run"
    _tell(out, decision, f"{_named(decision)} {how}{_kept(decision) if remember else ''}")
    return 0


async def deny(
    run_id: str, call: str, why: str, out: Output, *, view: str = "", by: str = ""
) -> int:
    """Refuse a call."""
    run = await open_run(run_id, out)
    decision = await run.deny(call, why, view=view, by=by)
    _tell(out, decision, f"{_named(decision)} will not run; Claude is told")
    return 0


async def resolve(
    run_id: str,
    call: str,
    outcome: Settlement,
    note: str,
    out: Output,
    *,
    view: str = "",
    by: str = "",
) -> int:
    """Settle a doubt."""
    run = await open_run(run_id, out)
    decision = await run.resolve(call, outcome, note, view=view, by=by)
    _tell(out, decision, _settled(call, outcome, decision.verdict), verdict=decision.verdict)
    return 0


def _kept(decision: Decision) -> str:
    if UNDECIDED in decision.waited.why:
        return "; not remembered, because whether to ask could not be decided"
    return "; calls like it need no approval any more in this run"


def _named(decision: Decision) -> str:
    waited = decision.waited
    return f"{waited.call} {waited.tool} ({waited.summary})"


def _settled(call: str, outcome: Settlement, verdict: str) -> str:
    if verdict == "open":
        return f"{call} is tried again"
    if verdict == outcome:
        return f"{call} is settled: {outcome}"
    return f"{call} had turned out to be {verdict} meanwhile; that stands"


def _tell(out: Output, decision: Decision, text: str, **more: str) -> None:
    run, said = decision.run, decision.said.model_dump(mode="json")
    if out.as_json:
        out.json({"run": run.id, "run_id": run.run_id, **said, **more})
    else:
        out.say(text)
