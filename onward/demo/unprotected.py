"""The demo without Onward: the plain loop, the same script, the same kills, the same audit."""

import json
import sys
from contextlib import AsyncExitStack
from typing import Any

from onward.demo.audit import Evidence
from onward.demo.chase import Chase, Snapshot, View
from onward.demo.report import Bill
from onward.demo.stage import Stage
from onward.managed_process import ManagedProcess, clean_env
from onward.testing.messages_api import read_journal


class PlainLoop:
    """Starts the loop's process, and reads the file from which it resumes."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.state = stage.folder / "conversation.json"
        self._seen = (0, 0)
        self._messages: list[dict[str, Any]] = []

    async def start(self) -> ManagedProcess:
        """Start the loop; it resumes from its file."""
        stage = self._stage
        module = [sys.executable, "-m", "onward.demo.plain_loop"]
        return await ManagedProcess.spawn(
            [*module, str(self.state), str(stage.workspace), stage.script.prompt],
            log=stage.folder / "loop.log",
            env=clean_env(stage.environment),
            cwd=stage.folder,
        )

    def finished_steps(self) -> int:
        """Count the steps in the file."""
        return sum(message["role"] == "assistant" for message in self.messages())

    def messages(self) -> list[dict[str, Any]]:
        """Return the conversation as saved; parsed only when the file has changed."""
        try:
            found = self.state.stat()
        except FileNotFoundError:
            return []
        if self._seen != (found.st_mtime_ns, found.st_ino):
            self._messages = json.loads(self.state.read_text())
            self._seen = (found.st_mtime_ns, found.st_ino)
        return self._messages

    def ended(self) -> bool:
        """Tell whether Claude has said the last word."""
        messages = self.messages()
        return bool(messages) and messages[-1]["role"] == "assistant"

    def saying(self) -> str:
        """What Claude said last."""
        spoken = [message for message in self.messages() if message["role"] == "assistant"]
        texts = [block["text"] for block in spoken[-1]["content"] if block["type"] == "text"]
        return " ".join(texts)


async def run(stage: Stage, view: View, cleanup: AsyncExitStack) -> tuple[Evidence, Bill]:
    """Run the loop through all kills and gather what the audit needs."""
    loop = PlainLoop(stage)
    snapshot = Snapshot("A plain loop, without Onward", len(stage.script.steps))
    snapshot.kills = len(stage.script.kills)
    chase = Chase(stage, loop, view, snapshot)

    def tell(snapshot: Snapshot) -> None:
        snapshot.saying = loop.saying() if loop.messages() else "starting"

    cleanup.push_async_callback(chase.killer.stop)
    await chase.run(loop.ended, tell)
    return _evidence(stage, loop, chase), _bill(loop)


def _evidence(stage: Stage, loop: PlainLoop, chase: Chase) -> Evidence:
    return Evidence(
        script=stage.script,
        refactor=stage.refactor,
        workspace=stage.workspace,
        struck=chase.killer.struck,
        claude=read_journal(stage.journal),
        requests=stage.payments.requests(),
        effects=stage.payments.effects(),
        trouble=chase.trouble,
        outcome="completed" if loop.ended() else "before its end",
    )


def _bill(loop: PlainLoop) -> Bill:
    """A plain loop keeps no account: what a lost request cost is lost with it."""
    return Bill(steps=loop.finished_steps(), spend={"cost_usd": None})
