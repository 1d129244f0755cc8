"""A command's connection to Temporal, and where it prints."""

from dataclasses import dataclass
from urllib.parse import quote

from onward import run_input
from onward.client import RunHandle
from onward.connection import Connection, connect, find_target, quiet_runtime
from onward.console import Output
from onward.errors import NoSuchRun, UsageError
from onward.listing.short_ids import MAX_SHOWN, ids_that_begin
from onward.runs import Run, look, onwards_own
from onward.settings import load_settings


@dataclass(frozen=True)
class Session(Connection):
    """A connection, and where to print."""

    out: Output

    def ui_link(self, run: Run) -> str | None:
        """Address of the run in the Temporal UI, where the UI is known."""
        if self.target.ui_url is None:
            return None
        namespace, run_id = quote(self.target.namespace, safe=""), quote(run.id, safe="")
        return f"{self.target.ui_url}/namespaces/{namespace}/workflows/{run_id}"


async def open_session(out: Output) -> Session:
    """Connect, and say to which server. Raises ConnectError."""
    settings = load_settings()
    target = find_target(settings)
    client = await connect(settings, target, runtime=quiet_runtime())
    because = {"local": ", of onward-worker --local", "default": ", nothing is configured"}
    out.note(
        f"Temporal at {target.address}, namespace {target.namespace}"
        f"{because.get(target.source, '')}"
    )
    return Session(client, target, settings, out)


async def find_run(session: Session, run_id: str) -> Run:
    """Describe the newest run of that id, or of the only id that begins so.

    Raises NoSuchRun, UsageError, ConnectError.
    """
    asked = run_input.checked_id(run_id)
    try:
        found = await look(session.client, asked)
    except NoSuchRun:
        whole = await _only_id(session, asked)
        if whole is None:
            raise
        found = await look(session.client, whole)
    return onwards_own(found)


async def open_run(run_id: str, out: Output) -> RunHandle:
    """Connect, and return a handle on the run, as `find_run` finds it."""
    session = await open_session(out)
    return RunHandle(session, (await find_run(session, run_id)).id)


async def _only_id(session: Session, beginning: str) -> str | None:
    """Find the id that begins so, and say it. Raises UsageError where several do."""
    match await ids_that_begin(session.client, beginning):
        case []:
            return None
        case [whole]:
            session.out.note(f"run {whole}")
            return whole
        case several:
            shown = ", ".join(map(repr, several[:MAX_SHOWN]))
            more = " and more" if len(several) > MAX_SHOWN else ""
            raise UsageError(
                f"{beginning!r} begins the ids of several runs: {shown}{more}. Type more of the "
                "one that you mean"
            )
