"""A command's connection to Temporal, and where it prints."""

from dataclasses import dataclass
from urllib.parse import quote

from onward import run_input
from onward.connection import Connection, connect, find_target, quiet_runtime
from onward.console import Output
from onward.runs import Run, describe
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
    because = {"local": ", of worker.py --local", "default": ", nothing is configured"}
    out.note(
        f"Temporal at {target.address}, namespace {target.namespace}"
        f"{because.get(target.source, '')}"
    )
    return Session(client, target, settings, out)


async def find_run(session: Session, run_id: str) -> Run:
    """Describe the newest run of that id. Raises NoSuchRun, UsageError, ConnectError."""
    return await describe(session.client, run_input.checked_id(run_id))
