"""The examples are true: each tool runs in a worker that is killed, and its effect is counted.

Killed at f8, between the effect and its record: the place where only the class's own means help.
"""

import asyncio
import re
import sqlite3
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from agent_runs import Run, says, uses
from crash_runs import CrashBench
from pages import blocks
from postgres_server import postgres_server

from examples import transactional_postgres, transactional_sqlite
from onward import NotSent, Rejected
from onward.agents import App, load_app
from onward.messages import Resolution, Resolve, Waiting
from onward.testing import Effect, tool_context, wait_until
from onward.testing.messages_api import load_scripts
from onward.tools.inputs import check

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

FOLDER = Path(transactional_sqlite.__file__).parent
TABLES = (FOLDER / "accounts.sql").read_text()
EXAMPLES = {
    "read_lookup": ("look_up", "read"),
    "keyed_refund": ("refund", "keyed"),
    "transactional_postgres": ("credit", "transactional"),
    "transactional_sqlite": ("credit", "transactional"),
    "at_most_once_payout": ("pay_out", "at_most_once"),
    "sealed_refund": ("refund", "sealed"),
    "timed_refund": ("refund", "timed"),
}


def test_the_table_names_every_example_with_its_class() -> None:
    """Whoever follows the README copies a tool of the class that they looked for."""
    readme = (FOLDER / "README.md").read_text()
    assert {path.stem for path in FOLDER.glob("[!_]*.py")} == set(EXAMPLES)
    for module, (name, effect) in EXAMPLES.items():
        (agent,) = load_app(f"examples.{module}:app").agents.values()
        (tool,) = agent.tools
        assert (tool.name, tool.effect) == (name, effect)
        assert any(f"`{effect}`" in line and f"({module}.py)" in line for line in table(readme))


def test_the_scripted_claude_asks_for_what_the_example_can_do() -> None:
    """Who has no key follows the README with this script, and its calls are valid."""
    readme = (FOLDER / "README.md").read_text()
    first, batch = re.findall(r"\[script:(\w+)\]", readme)
    can_be_asked(first, load_app("examples.keyed_refund:app"), calls=1)
    program: dict[str, Any] = {"__name__": "refunds"}
    exec(next(each.text for each in blocks("README.md") if each.language == "python"), program)  # noqa: S102
    can_be_asked(batch, program["app"], calls=20)


def can_be_asked(script: str, app: App, calls: int) -> None:
    """Check that a script asks for so many calls, each of which the app's one tool takes."""
    (agent,) = app.agents.values()
    (tool,) = agent.tools
    *asking, _ = load_scripts(FOLDER / "scripts.json")[script].steps
    asked = [block for step in asking for block in step.content if block["type"] == "tool_use"]
    assert [call["name"] for call in asked] == [tool.name] * calls
    for call in asked:
        assert check(call["input"], tool.definition()["input_schema"]) is None


def table(readme: str) -> list[str]:
    """Rows of the README's table."""
    return [line for line in readme.splitlines() if line.startswith("|")]


async def finished(bench: CrashBench, run: Run, **env: str) -> str:
    """Let a run end, with no call in doubt; returns the request in which Claude was told all."""
    async with bench.worker(**env):
        result = await run.ended()
    assert (result.outcome, result.in_doubt) == ("completed", ())
    return run.requests[-1].body


async def killed_at_f8(
    bench: CrashBench, module: str, *given: dict[str, Any], **env: str
) -> tuple[Run, dict[str, str]]:
    """Run calls of an example's tool until its worker is killed after the first one's effect.

    Returns the run and the environment of a worker that goes on with it.
    """
    env |= {"ONWARD_APP": f"examples.{module}:app"}
    async with bench.worker(FP="f8:1:kill", **env) as worker:
        run = await started(bench, module, *given)
        await worker.killed()
    return run, env


async def started(bench: CrashBench, module: str, *given: dict[str, Any]) -> Run:
    """Start a run of an example's agent, with these calls of its tool, one after the other."""
    tool, _ = EXAMPLES[module]
    (agent,) = load_app(f"examples.{module}:app").agents
    return await bench.bench.start(*(uses((tool, one)) for one in given), says(), agent=agent)


def refunds(*amounts: int) -> list[dict[str, Any]]:
    """Inputs of calls for an order each that no other test asks for."""
    return [{"order_id": f"A-{uuid.uuid4().hex}", "amount_cents": cents} for cents in amounts]


async def test_a_read_is_told_once(crash_bench: CrashBench) -> None:
    """A read that was killed is read again, and Claude sees the order that it asked for."""
    run, env = await killed_at_f8(crash_bench, "read_lookup", {"order_id": "A 17/b"})
    told = await finished(crash_bench, run, **env)
    assert "A 17/b" in told
    assert "currency" in told


@pytest.mark.parametrize("module", ["keyed_refund", "sealed_refund", "timed_refund"])
async def test_a_refund_is_made_once(crash_bench: CrashBench, module: str) -> None:
    """Once each, killed or not, and Claude is told of the very refund that was made."""
    given = refunds(500, 700)
    run, env = await killed_at_f8(crash_bench, module, *given)
    told = await finished(crash_bench, run, **env)
    made = effects_of(crash_bench, given)
    assert [effect.amount_cents for effect in made] == [500, 700]
    assert all(re.search(rf"\bre_{effect.n}\b", told) for effect in made)


async def test_a_payout_in_doubt_is_settled_by_a_person(crash_bench: CrashBench) -> None:
    """It is sent once and never again, and the next one waits for what the person says."""
    given = refunds(500, 700)
    run, env = await killed_at_f8(crash_bench, "at_most_once_payout", *given)
    async with crash_bench.worker(**env):
        waiting = await wait_until(lambda: waits_for_a_person(run), 60)
        assert [(call.call, call.kind) for call in waiting] == [("1.1", "doubt")]
        assert [effect.amount_cents for effect in effects_of(crash_bench, given)] == [500]
        said = Resolve(call="1.1", outcome="done", note="It is on the statement.")
        await run.handle.execute_update(  # pyright: ignore[reportUnknownMemberType]
            "resolve", said, result_type=Resolution
        )
        result = await run.ended()
    assert (result.outcome, result.in_doubt) == ("completed", ())
    assert "It is on the statement." in run.requests[-1].body
    assert [effect.amount_cents for effect in effects_of(crash_bench, given)] == [500, 700]


async def waits_for_a_person(run: Run) -> tuple[Waiting, ...]:
    """Calls of a run that wait for a person."""
    return (await run.status()).waiting


def effects_of(bench: CrashBench, given: list[dict[str, Any]]) -> list[Effect]:
    """What the payments service did for these calls."""
    orders = [one["order_id"] for one in given]
    return [effect for effect in bench.payments.effects() if effect.order in orders]


ADA, GRACE = ({"customer": name, "amount_cents": 500} for name in ("ada", "grace"))


@pytest.fixture
def accounts_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lay out the accounts in a SQLite file."""
    file = tmp_path / "accounts.db"
    with closing(sqlite3.connect(file)) as db:
        db.executescript(TABLES)
    monkeypatch.setenv("ACCOUNTS_DB", str(file))
    return file


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def postgres() -> AsyncGenerator[str]:
    """Run a PostgreSQL server."""
    async with postgres_server() as url:
        yield url


@pytest.fixture
def accounts_url(postgres: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Lay out the accounts anew in PostgreSQL."""
    with psycopg.connect(postgres) as db:
        db.execute("DROP TABLE IF EXISTS accounts, calls")
        db.execute(TABLES.encode())
    monkeypatch.setenv("DATABASE_URL", postgres)
    return postgres


def in_file(file: Path) -> dict[str, int]:
    """Balances in SQLite."""
    with closing(sqlite3.connect(file)) as db:
        return dict(db.execute("SELECT customer, balance_cents FROM accounts").fetchall())


def in_postgres(url: str) -> dict[str, int]:
    """Balances in PostgreSQL."""
    with psycopg.connect(url) as db:
        return dict(db.execute("SELECT customer, balance_cents FROM accounts").fetchall())


async def test_a_credit_in_sqlite_is_made_once(
    crash_bench: CrashBench, accounts_file: Path
) -> None:
    """Killed after the commit: the successor finds the key, and credits nothing."""
    where = {"ACCOUNTS_DB": str(accounts_file)}
    run, env = await killed_at_f8(crash_bench, "transactional_sqlite", ADA, GRACE, **where)
    told = await finished(crash_bench, run, **env)
    assert in_file(accounts_file) == {"ada": 500, "grace": 500}
    assert len(re.findall(r"balance_cents\W+500\b", told)) == 2


async def test_a_credit_in_postgres_is_made_once(
    crash_bench: CrashBench, accounts_url: str
) -> None:
    """Killed in the middle of the transaction, and again after its commit: one credit."""
    env = {"ONWARD_APP": "examples.transactional_postgres:app", "DATABASE_URL": accounts_url}
    with psycopg.connect(accounts_url) as db:
        db.execute("SELECT * FROM accounts WHERE customer = 'ada' FOR UPDATE")
        async with crash_bench.worker(**env) as worker:
            run = await started(crash_bench, "transactional_postgres", ADA, GRACE)
            await wait_until(lambda: waits_for_a_lock(accounts_url), 60)
            await worker.kill()
    async with crash_bench.worker(FP="f8:1:kill", **env) as worker:
        await worker.killed()
    told = await finished(crash_bench, run, **env)
    assert in_postgres(accounts_url) == {"ada": 500, "grace": 500}
    assert len(re.findall(r"balance_cents\W+500\b", told)) == 2


def waits_for_a_lock(url: str) -> bool:
    """Whether a transaction waits for another one."""
    with psycopg.connect(url) as db:
        waiting = db.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return waiting.fetchone() is not None


async def credited_at_once(credit: Callable[..., Any]) -> None:
    """Let many attempts of one call run beside each other; each gets the same answer."""
    context = tool_context()
    attempts = [asyncio.to_thread(credit, "ada", 500, context) for _ in range(8)]
    assert await asyncio.gather(*attempts) == [{"customer": "ada", "balance_cents": 500}] * 8
    with pytest.raises(Rejected, match="nobody"):
        credit("nobody", 500, tool_context(idempotency_key="another"))


async def test_attempts_at_the_same_time_credit_once_in_sqlite(accounts_file: Path) -> None:
    """A zombie beside its successor: the key decides, and a rejected call leaves nothing."""
    await credited_at_once(transactional_sqlite.credit)
    assert in_file(accounts_file) == {"ada": 500, "grace": 0}


async def test_attempts_at_the_same_time_credit_once_in_postgres(accounts_url: str) -> None:
    """A zombie beside its successor: the key decides, and a rejected call leaves nothing."""
    await credited_at_once(transactional_postgres.credit)
    assert in_postgres(accounts_url) == {"ada": 500, "grace": 0}


def test_a_database_that_is_away_was_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection is no doubt: the call is tried again."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://onward@127.0.0.1:1/postgres")
    with pytest.raises(NotSent, match="no connection"):
        transactional_postgres.credit("ada", 500, tool_context())
