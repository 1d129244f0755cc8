"""What is said to one run: a message to Claude, cancel, pause, go on."""

from pathlib import Path
from typing import Any

from onward import run_input
from onward.console import Output
from onward.figures import count
from onward.invoked import typed
from onward.reports import Report
from onward.runs import Run
from onward.session import open_run
from onward.wording import paused_text


async def send(
    run_id: str, text: str | None, out: Output, *, file: Path | None, name: str, by: str
) -> int:
    """Tell Claude something at its next step; `name` is the message's id."""
    message = run_input.read_text(text, file, run_input.MESSAGE)
    run = await open_run(run_id, out)
    sent = await run.send(message, id=name, by=by)
    if out.as_json:
        out.json({"run": run.id, **sent.model_dump(mode="json")})
    elif sent.unseen:
        before = sent.unseen - 1
        after = f", after {count(before, 'message')} sent before" if before else ""
        out.say(f"sent to {run.id!r}: Claude sees it at its next step{after}")
    else:
        out.say(f"Claude has seen message {sent.id!r} of {run.id!r} already; it counts once")
    return 0


async def cancel(
    run_id: str, reason: str, out: Output, *, after_step: bool = False, by: str = ""
) -> int:
    """Ask a run to end cleanly, now or after its step."""
    run = await open_run(run_id, out)
    asked = await run.cancel(reason, after_step=after_step, by=by)
    how = f"`{typed('result', run.id, '--wait')}` says how"
    if out.as_json:
        out.json({**_document(await run.describe()), "cancelling": asked})
    elif asked:
        out.say(f"asked {run.id!r} to stop; it ends {when_it_ends(after_step=after_step)}. {how}")
    else:
        out.say(f"{run.id!r} has ended already; there is nothing to cancel. {how}")
    if asked:
        _note_deaf(await run.report(), out)
    return 0


async def pause(run_id: str, reason: str, out: Output, *, by: str) -> int:
    """Let a run finish its step, and then wait."""
    run = await open_run(run_id, out)
    seen = await run.report()
    if (paused := seen.status.paused) is None:
        await run.pause(reason, by=by)
    if out.as_json:
        out.json({**_document(seen.run), "pausing": paused is None})
    elif paused:
        out.say(
            f"{run.id!r} is already {paused_text(paused)}. `{typed('resume', run.id)}` lifts it"
        )
    else:
        out.say(
            f"asked {run.id!r} to pause: it finishes its step, and then waits. "
            f"`{typed('resume', run.id)}` lets it go on"
        )
    _note_deaf(seen, out)
    return 0


async def resume(run_id: str, reason: str, out: Output, *, by: str) -> int:
    """Let a paused run go on."""
    run = await open_run(run_id, out)
    seen = await run.report()
    # Nobody said that it is not paused, so it may be.
    resuming = seen.status.paused is not None or not seen.live
    if resuming or seen.ended:
        await run.resume(reason, by=by)
    if out.as_json:
        out.json({**_document(seen.run), "resuming": resuming})
    elif resuming:
        out.say(f"{run.id!r} may go on")
    else:
        out.say(f"{run.id!r} is not paused; nothing was changed")
    _note_deaf(seen, out)
    return 0


def when_it_ends(*, after_step: bool) -> str:
    """Say when a run ends that is cancelled so."""
    return "after its step" if after_step else "at once, but for a call that has an effect"


def _document(run: Run) -> dict[str, Any]:
    return {"run": run.id, "run_id": run.run_id}


def _note_deaf(seen: Report, out: Output) -> None:
    if not seen.live:
        out.warn(f"{seen.trouble or 'no worker answers'}; the run hears it when one is there")
