"""Read a run's history, and print the conversation in it."""

from collections.abc import Iterable, Iterator
from typing import Literal

from temporalio.client import Client

from onward import history, json_text
from onward.console import Output
from onward.documents import unseen_lines
from onward.figures import count
from onward.history import Ended
from onward.messages import Fork
from onward.retelling import html, text
from onward.retelling.pieces import pieces
from onward.retelling.request import request
from onward.retelling.steps import Retelling, retell
from onward.runs import Run, ended, rpc_errors
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
    done = await ended(session.client, run)
    about = await _about(session.client, run, retelling, done)
    match form:
        case "text":
            out.styled(f"{run.id}: {about}", "dim")
            text.show(pieces(retelling), out, whole=whole)
        case "json":
            _write(request(retelling), out)
        case "html":
            _write(html.page(run.id, about, pieces(retelling)), out)
    unseen = unseen_lines(run.id, done.result.unseen) if done else []
    for note in (*_notes(run, retelling, form), *unseen):
        out.note(note)
    return 0


async def _about(client: Client, run: Run, retelling: Retelling, done: Ended | None) -> str:
    frozen = json_text.load_object(retelling.opening.frozen)
    steps = count(retelling.count, "step")
    state = done.result.outcome if done else run.state
    about = f"agent {run.agent}, {frozen.get('model')}, {steps}, {state}"
    parent = await _parent(client, run)
    if parent is None:
        return about
    copied = count(retelling.opening.copied_steps, "step")
    return f"{about}; the first {copied} copied from run {parent.workflow_id} ({parent.run_id})"


async def _parent(client: Client, run: Run) -> Fork | None:
    async with rpc_errors(run.id):
        request = await history.request_of(client, run.key)
    return request.fork if request else None


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
