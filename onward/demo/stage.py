"""What both versions of the demo need: a folder, the package's copy, Claude's side, payments."""

import json
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from onward.demo import refactor as refactoring
from onward.demo import script as scripting
from onward.demo.outside import ClaudeRequests, Payments
from onward.demo.refactor import Refactor
from onward.demo.refunds import DELAYS
from onward.demo.script import Script
from onward.testing.payments import PaymentsProcess
from onward.testing.payments.process import payments_service
from onward.testing.processes import ServiceProcess


@dataclass(frozen=True)
class Stage:
    """Everything around the process that gets killed."""

    folder: Path
    """Temporary; holds all else."""
    workspace: Path
    refactor: Refactor
    script: Script
    api: ServiceProcess
    payments: PaymentsProcess
    journal: Path

    @property
    def environment(self) -> dict[str, str]:
        """What the demo's agent needs to know, in whatever process. The key is a dummy."""
        return {
            "ANTHROPIC_BASE_URL": self.api.url,
            "ANTHROPIC_API_KEY": "demo",
            "PAYMENTS_URL": self.payments.url,
            DELAYS: json.dumps(self.script.delays),
        }

    def requests(self) -> ClaudeRequests:
        """Follow what reaches Claude's side."""
        return ClaudeRequests(self.journal)

    def seen_payments(self) -> Payments:
        """Look at what reaches the payments service."""
        return Payments(self.payments)


@asynccontextmanager
async def stage(*, kills: int, seed: int) -> AsyncGenerator[Stage]:
    """Set the stage; at the end everything is gone, processes and folder."""
    refactor = refactoring.plan()
    script = scripting.build(refactor, kills=kills, seed=seed)
    folder = Path(tempfile.mkdtemp(prefix="onward-demo-"))
    async with AsyncExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        workspace = folder / "workspace"
        _fill(workspace, refactor)
        payments = await cleanup.enter_async_context(payments_service(folder / "payments.db"))
        api = await _scripted_api(folder, script)
        cleanup.push_async_callback(api.stop)
        journal = folder / "journal.jsonl"
        yield Stage(folder, workspace, refactor, script, api, payments, journal)


def _fill(workspace: Path, refactor: Refactor) -> None:
    workspace.mkdir()
    refactoring.copy_package(refactor, workspace)
    shutil.copy(Path(__file__).with_name("proof.py"), workspace / "check.py")


async def _scripted_api(folder: Path, script: Script) -> ServiceProcess:
    scripts = folder / "scripts.json"
    scripts.write_text(json.dumps(script.scripts()))
    files = ("--scripts", str(scripts), "--journal", str(folder / "journal.jsonl"))
    return await ServiceProcess.start_module(
        "onward.testing.messages_api", "--port", "0", *files, log=folder / "messages_api.log"
    )
