"""The wheel in a clean environment: what it brings, and that it lives beside a shop's own code."""

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from agent_runs import says, uses
from pages import ROOT, Said

from onward.agents import load_app
from onward.errors import AppError
from onward.local_services import RedisServer, TemporalServer
from onward.managed_process import ManagedProcess, clean_env
from onward.testing.messages_api import Script, ScriptedAPI

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Installed:
    """A folder in which somebody began from nothing."""

    folder: Path
    story: str
    """What the script printed that began there."""

    @property
    def bin(self) -> Path:
        """Commands of its environment."""
        return self.folder / ".venv" / "bin"

    def record(self) -> list[str]:
        """Files that the wheel put into the environment, relative to site-packages."""
        (record,) = self.folder.glob(".venv/lib/python*/site-packages/onward-*.dist-info/RECORD")
        return [path for path, *_ in csv.reader(record.read_text().splitlines())]


@pytest_asyncio.fixture
async def installed(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Installed]:
    folder = tmp_path_factory.mktemp("nothing")
    script = [str(ROOT / "tests" / "from_nothing.sh"), str(folder)]
    began = await ManagedProcess.spawn(script, log=folder / "story.log", env=clean_env())
    try:
        assert await began.wait(170) == 0, began.output()
    finally:
        await began.stop()
    yield Installed(folder, began.output())
    shutil.rmtree(folder / ".venv")  # pytest keeps the folders of three sessions


_NOT_THIS = "raise SystemExit('the own module of the shop was taken for one of Onward')\n"
_SHOP = {
    "worker.py": _NOT_THIS,
    "starter.py": _NOT_THIS,
    "workflows/__init__.py": "",
    "workflows/agent.py": _NOT_THIS,
    "workflows/app.py": """
from activities.refunds import refund
from onward import Agent, App

app = App(Agent("refunds", model="claude-sonnet-5-5", tools=[refund]))
""",
    "activities/__init__.py": "",
    "activities/refunds.py": """
import sqlite3

from onward import ToolContext, tool

books = sqlite3.connect("refunds.db", check_same_thread=False)
books.execute("CREATE TABLE IF NOT EXISTS refunds (key PRIMARY KEY, order_id)")


@tool(effect="transactional")
async def refund(order_id: str, ctx: ToolContext) -> str:
    \"\"\"Refund an order.\"\"\"
    with books:
        row = (ctx.idempotency_key, order_id)
        books.execute("INSERT OR IGNORE INTO refunds VALUES (?, ?)", row)
    return f"Refunded {order_id}."


def count(given: dict[str, str]) -> int:
    found = books.execute("SELECT count(*) FROM refunds WHERE order_id = ?", [given["order_id"]])
    return int(found.fetchone()[0])
""",
}


@dataclass(frozen=True)
class Shop:
    """The folder of somebody who runs Temporal already, and an environment with Onward in it."""

    folder: Path
    installed: Installed
    env: dict[str, str]

    async def types(self, command: str, *words: str) -> Said:
        """Type an installed command, and wait for its end."""
        process = await self.starts(command, f"{self.installed.bin}/{command}", *words)
        return Said(await process.wait(120), process.output())

    @asynccontextmanager
    async def worker(self) -> AsyncGenerator[ManagedProcess]:
        """Run `onward-worker`."""
        process = await self.starts("worker", f"{self.installed.bin}/onward-worker")
        try:
            await process.logged("polling", 60)
            yield process
        finally:
            await process.stop()

    async def starts(self, name: str, *argv: str) -> ManagedProcess:
        """Start a command in this folder, with its output in `name.log`."""
        log = self.folder / f"{name}.log"
        return await ManagedProcess.spawn(argv, log=log, env=self.env, cwd=self.folder)


@pytest.fixture
def shop(
    installed: Installed, temporal: TemporalServer, redis_local: RedisServer, tmp_path: Path
) -> Shop:
    for name, text in _SHOP.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    env = {
        "PATH": f"{installed.bin}{os.pathsep}{os.environ['PATH']}",
        "TEMPORAL_ADDRESS": temporal.address,
        "ONWARD_REDIS_URL": redis_local.url,
        "ONWARD_TASK_QUEUE": "a-shop",
        "ONWARD_APP": "workflows.app:app",
        "ANTHROPIC_API_KEY": "scripted",
    }
    whole = clean_env(env)
    whole.pop("PYTHONPATH", None)  # another test's forked workers may have set it, to this checkout
    return Shop(tmp_path, installed, whole)


async def _from_nothing_to_a_run_that_outlives_its_worker(shop: Shop) -> None:
    """A newcomer needs the wheel and the README's fifteen lines: one refund for each order."""
    assert "20 calls of run batch-1: 20 done" in shop.installed.story


async def _the_wheel_brings_one_package_and_two_commands(shop: Shop) -> None:
    """Nothing of the name `workflows` or `worker` lands where a shop's own code is found."""
    record = shop.installed.record()
    (info,) = {path.split("/")[0] for path in record if ".dist-info" in path}
    assert {path.split("/")[0] for path in record} == {"onward", info, ".."}
    outside = {path for path in record if path.startswith("..")}
    assert outside == {"../../../bin/onward", "../../../bin/onward-worker"}
    assert {"onward/app/workflows/agent.py", "onward/app/worker.py"} <= set(record)


async def _a_type_checker_sees_the_types_of_an_installed_onward(shop: Shop) -> None:
    """A shop's mypy finds a wrong argument in its app, and nothing wrong in the README's."""
    readme = (shop.installed.folder / "refunds.py").read_text()
    (shop.folder / "right.py").write_text(readme)
    (shop.folder / "wrong.py").write_text(readme.replace('system="You', 'system=5, tool="You'))
    python = str(shop.installed.bin / "python")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python]
    checked = await shop.starts("mypy", *mypy, "right.py", "wrong.py")
    assert await checked.wait(120) == 1
    assert '"system" to "Agent" has incompatible type "int"' in checked.output()
    assert "right.py" not in checked.output()


async def _a_shops_own_code_is_its_own(shop: Shop) -> None:
    """Its `workflows` and `activities` are what its app imports, and Onward's still run."""
    refund = uses(("refund", {"order_id": "A-1"}))
    async with ScriptedAPI({"default": Script(steps=[refund, says("Refunded.")])}) as api:
        shop.env["ANTHROPIC_BASE_URL"] = api.url
        async with shop.worker():
            ran = await shop.types("onward", "start", "Refund A-1", "--agent", "refunds", "--wait")
    assert (ran.status, "Refunded." in ran.output) == (0, True)
    assert json.loads(api.journal[-1].body)["messages"][-1]["content"][0]["content"] == (
        "Refunded A-1."
    )


async def _a_shops_own_tool_is_crash_tested(shop: Shop) -> None:
    """`onward crashtest` forks Onward's workers in a folder that has a `worker` of its own."""
    tested = await shop.types(
        *("onward", "crashtest", "activities.refunds:refund"),
        *("--input", '{"order_id": "{unique}"}', "--probe", "activities.refunds:count"),
        *("--points", "f8"),
    )
    assert tested.status == 0, tested.output


async def _a_worker_of_the_shops_tests_is_onwards(shop: Shop) -> None:
    """`WorkerProcess` starts the installed worker, whatever the folder that it starts in holds."""
    program = "from onward import own_code; print(own_code.command('worker'))"
    said = await shop.types("python", "-c", program)
    assert "onward.app.worker" in said.output
    helped = await shop.types("python", "-P", "-m", "onward.app.worker", "--help")
    assert (helped.status, "Usage" in helped.output) == (0, True)


async def _the_commands_name_themselves(shop: Shop) -> None:
    """What an installed Onward tells people to type can be typed."""
    helped = await shop.types("onward", "--help")
    assert "Usage: onward COMMAND" in helped.output
    mistaken = await shop.types("onward", "status")
    assert "`onward status --help` shows what is possible" in mistaken.output
    assert "(onward-worker)" in helped.output


# One test: its environment is made once, and tests of one file may run in several processes.
_PROOFS = (
    _from_nothing_to_a_run_that_outlives_its_worker,
    _the_wheel_brings_one_package_and_two_commands,
    _a_type_checker_sees_the_types_of_an_installed_onward,
    _a_shops_own_code_is_its_own,
    _a_shops_own_tool_is_crash_tested,
    _a_worker_of_the_shops_tests_is_onwards,
    _the_commands_name_themselves,
)


@pytest.mark.crash
async def test_an_installed_onward(shop: Shop, subtests: pytest.Subtests) -> None:
    """The wheel is all that a newcomer needs, and a shop's own code and Onward's both run."""
    for proof in _PROOFS:
        with subtests.test(proof.__name__):
            await proof(shop)


# ---- beside a checkout there is no room for both


def test_an_app_that_has_our_names_is_told_to_install_onward() -> None:
    """In a checkout `workflows` is Onward's: a clear error at the start, with the way out."""
    with pytest.raises(AppError, match=r"'workflows\.app' .* 'workflows' is its own.* Install"):
        load_app("workflows.app:app")


def test_an_app_whose_imports_have_our_names_is_told_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is one that has a name of its own and imports `activities.payments`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_app_of_a_shop.py").write_text("import activities.payments\n")
    with pytest.raises(AppError, match=r"'activities\.payments' .* Install"):
        load_app("own_app_of_a_shop:app")


def test_a_module_in_the_way_is_named_and_not_run(tmp_path: Path) -> None:
    """`python -m onward` beside somebody's `starter.py`, which is found first."""
    (tmp_path / "starter.py").write_text(_NOT_THIS)
    ran = subprocess.run(
        [sys.executable, "-m", "onward", "list"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"error: '{tmp_path}/starter.py' is in the way: Onward runs from")
