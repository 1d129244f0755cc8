"""Read a run's history, and print the conversation in it."""

from collections.abc import Iterable, Iterator
from typing import Literal

from onward import json_text
from onward.client import Run
from onward.console import Output, count
from onward.retelling import html, text
from onward.retelling.pieces import pieces
from onward.retelling.request import request
from onward.retelling.steps import Retelling, retell
from onward.session import find_run, open_session

Format = Literal["text", "json", "html"]


async def transcript(run_id: str, out: Output, *, form: Format, whole: bool) -> int:
    """Print the whole conversation of a run.

    Raises NoSuchRun, UsageError, ConnectError, PayloadError, and HistoryGap where history does not
    tell it whole.
    """
    session = await open_session(out)
    run = await find_run(session, run_id)
    retelling = await retell(session.client, run)
    match form:
        case "text":
            out.styled(f"{run.id}: {_about(run, retelling)}", "dim")
            text.show(pieces(retelling), out, whole=whole)
        case "json":
            _write(request(retelling), out)
        case "html":
            _write(html.page(run.id, _about(run, retelling), pieces(retelling)), out)
    for note in _notes(run, retelling, form):
        out.note(note)
    return 0


def _about(run: Run, retelling: Retelling) -> str:
    frozen = json_text.load_object(retelling.opening.frozen)
    steps = count(len(retelling.steps), "step")
    return f"agent {run.agent}, {frozen.get('model')}, {steps}, {run.status.lower()}"


def _write(parts: Iterable[str], out: Output) -> None:
    for part in parts:
        out.piece(part)


def _notes(run: Run, retelling: Retelling, form: Format) -> Iterator[str]:
    last = retelling.last
    if run.open:
        yield f"the run goes on: this is up to step {last.id}"
    if form == "json" and not last.answered:
        yield (
            f"left out is Claude's reply of step {last.id}: it was not told the results of what it "
            "asks for there, so the API would refuse it"
        )
