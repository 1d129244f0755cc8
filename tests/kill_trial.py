"""One trial of the kill matrix: strike the worker of a call, let another one go on, audit.

The victim is a forked process, the successor a worker in ours. A call's `raise` needs none: its
worker lives on. The audit reads the payments service's books, the transactions' file, what Claude
was told and the run's result, and nothing of Onward's.
"""

import asyncio
import json
import random
import sqlite3
import uuid
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import crash_app
import kill_victim
from agent_runs import Bench, Run, says, uses
from kill_cells import Cell, Told
from kill_victim import Servers

from onward.failpoints import struck
from onward.testing import PaymentsProcess, wait_until
from onward.testing.crash_test.worker_main import settled
from onward.testing.warm import WarmWorker


@dataclass(frozen=True)
class Stage:
    """What trials share."""

    bench: Bench
    servers: Servers
    payments: PaymentsProcess
    folder: Path
    """For logs and for the file of transactions."""
    deadline_s: float = 180.0
    """For a whole trial, which takes ten seconds, most of them patience, on a machine with time."""

    @property
    def env(self) -> dict[str, str]:
        """Where the tools' other side is; of the victims, and of this process too."""
        return {
            "PAYMENTS_URL": self.payments.url,
            "TRANSACTIONS_DB": str(self.folder / "transactions.db"),
            # No certificates: each client of HTTP would read all of the machine's, for 30 ms.
            "SSL_CERT_FILE": "",
            "SSL_CERT_DIR": str(self.folder),
        }


@dataclass(frozen=True)
class Trial:
    """A cell, struck once. The same seed gives the same order id and the same delays."""

    cell: Cell
    seed: int

    def __str__(self) -> str:
        return f"{self.cell} seed {self.seed}"

    @property
    def order(self) -> str:
        """What the call is about."""
        return f"{self.cell}:{self.seed:08x}".replace(":", "-")

    async def problems(self, stage: Stage) -> list[str]:
        """Run it, and return what was not as it must be."""
        try:
            async with asyncio.timeout(stage.deadline_s):
                run = await _struck(self, stage)
        except Exception as error:  # noqa: BLE001  (whatever it is, this trial has failed)
            return [f"{type(error).__name__}: {error}"]
        return [*_wrong_end(self.cell, run), *_wrong_books(self, stage, run)]


# ---- the strike


async def _struck(trial: Trial, stage: Stage) -> Run:
    cell, chance = trial.cell, random.Random(trial.seed)  # noqa: S311
    bench = replace(stage.bench, queue=f"trial-{uuid.uuid4().hex[:12]}")
    async with _victim(trial, stage, bench.queue) as victim:
        run = await bench.start(uses((cell.tool, {"order": trial.order})), says())
        match cell.action:
            case "raise":
                await run.ended()
                await victim.logged(struck(cell.point, "raise"), stage.deadline_s)
            case "kill":
                await victim.killed(stage.deadline_s)
                await _succeed(run, chance)
            case "pause":
                await victim.paused(stage.deadline_s)
                await _outlive(victim, trial, stage, run, chance)
    return run


@asynccontextmanager
async def _victim(trial: Trial, stage: Stage, queue: str) -> AsyncGenerator[WarmWorker]:
    cell = trial.cell
    victim = WarmWorker.fork(
        kill_victim.main,
        [stage.servers, queue, stage.bench.takeover_s],
        env=stage.env | {"FP": f"{cell.point}:1:{cell.action}"},
        log=stage.folder / f"{trial.order}.log",
        cwd=Path(__file__).parent,
    )
    try:
        yield victim
    finally:
        if victim.returncode is None:
            await victim.kill()


async def _succeed(run: Run, chance: random.Random) -> None:
    await asyncio.sleep(chance.uniform(0, run.bench.takeover_s))
    async with _successor(run.bench):
        await run.ended()


async def _outlive(
    zombie: WarmWorker, trial: Trial, stage: Stage, run: Run, chance: random.Random
) -> None:
    """Let a successor act while the victim is paused past its lease, then let that one go on."""
    async with _successor(run.bench):
        if trial.cell.holds_lock:
            await wait_until(lambda: _taken_over(run), stage.deadline_s)
        else:
            await run.ended()
        await asyncio.sleep(chance.uniform(0, 0.2))
        zombie.resume()
        await zombie.logged(settled(trial.cell.activity), stage.deadline_s)
        await run.ended()


def _successor(bench: Bench) -> AbstractAsyncContextManager[object]:
    options: dict[str, Any] = {"max_cached_workflows": 10, **kill_victim.UNGUARDED}
    return bench.worker(crash_app.app, **options)


async def _taken_over(run: Run) -> bool:
    (record,) = (await run.bench.ledger(run).records("1.1")).records.values()
    return record.requests > 1


# ---- the audit


def _wrong_end(cell: Cell, run: Run) -> list[str]:
    result = run.result
    if result is None or result.outcome != "completed":
        return [f"the run did not complete: {result}"]
    in_doubt = ("1.1",) if cell.told == "in_doubt" else ()
    checks = {
        f"calls in doubt are {result.in_doubt}, not {in_doubt}": result.in_doubt == in_doubt,
        f"{result.steps} steps and not 2": result.steps == 2,
        f"Claude was told {_told(run)[0]}, not {cell.told}": _told(run)[0] == cell.told,
    }
    return [problem for problem, right in checks.items() if not right]


def _wrong_books(trial: Trial, stage: Stage, run: Run) -> list[str]:
    cell, made, arrived = trial.cell, _made(trial, stage), _arrivals(trial, stage)
    told, content = _told(run)
    problems: list[str] = []
    if len(made) not in cell.effects:
        problems.append(f"{len(made)} effects, not {cell.effects}")
    if cell.effect == "at_most_once" and arrived > 1:
        problems.append(f"{arrived} requests of an at_most_once call arrived")
    if told == "done" and cell.effect != "read" and content not in made:
        problems.append(f"Claude was told {content}, and the books hold {made}")
    if told == "done" and trial.order not in str(content):
        problems.append(f"Claude was told {content} of order {trial.order}")
    return problems


def _told(run: Run) -> tuple[Told, Any]:
    """Return what the last request told Claude of the call, and the result in it."""
    sent: Any = json.loads(run.requests[-1].body)
    (result,) = sent["messages"][2]["content"]
    content = result["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    if not result.get("is_error"):
        return "done", json.loads(text)
    return ("in_doubt" if "OUTCOME UNKNOWN" in text else "failed"), text


def _made(trial: Trial, stage: Stage) -> list[dict[str, Any]]:
    """Return the effects of the trial's order, as the other side answers with them."""
    if trial.cell.effect == "transactional":
        return [{"order": trial.order}] * _transactions(trial, stage)
    return [
        {"refund": f"re_{made.n}", "order": made.order, "amount_cents": made.amount_cents}
        for made in stage.payments.effects()
        if made.order == trial.order
    ]


def _transactions(trial: Trial, stage: Stage) -> int:
    with closing(sqlite3.connect(stage.env["TRANSACTIONS_DB"], timeout=stage.deadline_s)) as db:
        query = "SELECT count(*) FROM refunds WHERE order_id = ?"
        return int(db.execute(query, (trial.order,)).fetchone()[0])


def _arrivals(trial: Trial, stage: Stage) -> int:
    """Count the requests for the trial's order that arrived whole."""
    wanted = json.dumps(trial.order)
    arrived = stage.payments.requests()
    return sum(wanted in request.body and request.state == "whole" for request in arrived)
