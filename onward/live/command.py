"""`onward watch`: follow a run as it happens, and end with its outcome."""

import asyncio

from onward.commands import EXIT_CODES, show_end
from onward.console import Output
from onward.invoked import typed
from onward.live.documents import document
from onward.live.following import follow
from onward.live.happenings import Happening
from onward.live.printing import Printer
from onward.session import find_run, open_session


async def watch(run_id: str, out: Output, *, all_steps: bool) -> int:
    """Follow a run until it ends; Ctrl-C leaves it alone. Exits by its outcome.

    Raises NoSuchRun, UsageError, ConnectError.
    """
    session = await open_session(out)
    run = await find_run(session, run_id)
    printer = Printer(run.id, out)

    def show(happening: Happening) -> None:
        out.json_line(document(happening)) if out.as_json else printer.show(happening)

    try:
        how = await follow(session, run, show, all_steps=all_steps)
    except asyncio.CancelledError:  # Ctrl-C
        printer.ended()
        out.note(f"the run goes on without you; `{typed('watch', run.id)}` comes back to it")
        raise
    if not out.as_json:
        show_end(run, how, out)
    return EXIT_CODES[how.result.outcome]
