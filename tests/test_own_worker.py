"""A team's own worker with two agents, as docs/your-own-worker.md and examples/own_worker show."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest
from agent_runs import Bench, says, uses
from pages import ROOT, Reader
from temporalio.client import Client

from examples.own_worker.agents import app
from examples.own_worker.worker import TASK_QUEUE
from examples.own_worker.workflows import SettleReturn
from onward import OnwardPlugin
from onward.messages import RunResult
from onward.testing import ManagedProcess, clean_env, wait_until
from onward.testing.payments import PaymentsProcess

EXAMPLE = ROOT / "examples" / "own_worker"


def test_the_page_shows_the_example(tmp_path: Path) -> None:
    """What the page says is what runs below."""
    reader = Reader("docs/your-own-worker.md", tmp_path)
    assert reader.code("Client.connect") in dedented("worker.py", 4)
    assert reader.code("run_agent(") in dedented("workflows.py", 8)
    assert reader.untyped() == set()


def dedented(name: str, columns: int) -> str:
    """A file of the example, its lines moved to the left."""
    lines = (EXAMPLE / name).read_text().splitlines(keepends=True)
    return "".join(line.removeprefix(" " * columns) for line in lines)


@pytest.mark.crash
async def test_a_workflow_adds_up_two_agents_across_a_kill(
    bench: Bench, payments: PaymentsProcess, tmp_path: Path, redis_url: str
) -> None:
    """SIGKILL in the second agent: one refund, and the spend of both in the typed result."""
    order = f"A-{bench.queue}"
    key = f"refund-{order}"
    found = says(f"All of it. [script:{key}]")  # which is in the second agent's prompt
    bench.api.scripts["default"] = bench.script(uses(("look_up", {"order_id": order})), found)
    refund = ("refund", {"order_id": order, "amount_cents": 2500})
    bench.api.scripts[key] = bench.script(uses(refund), says("Refunded.", delay_s=2))
    env = {
        "TEMPORAL_ADDRESS": bench.temporal.service_client.config.target_host,
        "ONWARD_REDIS_URL": redis_url,
        "ONWARD_PAYLOAD_DIR": str(tmp_path / "payloads"),
        "ANTHROPIC_BASE_URL": bench.api.url,
        "ANTHROPIC_API_KEY": "test",
        "PAYMENTS_URL": payments.url,
        "PYTHONPATH": str(ROOT),
    }

    @asynccontextmanager
    async def worker(name: str) -> AsyncGenerator[ManagedProcess]:
        command = [sys.executable, "-m", "examples.own_worker.worker"]
        log = tmp_path / f"{name}.log"
        process = await ManagedProcess.spawn(command, log=log, env=clean_env(env), cwd=tmp_path)
        try:
            await process.logged("polling", 60)
            yield process
        finally:
            await process.stop()

    client = await Client.connect(env["TEMPORAL_ADDRESS"], plugins=[OnwardPlugin(app)])
    parent = await client.start_workflow(
        SettleReturn.run, order, id=f"return-{order}", task_queue=TASK_QUEUE
    )
    async with worker("first") as first:
        await wait_until(lambda: len(bench.api.journal.of(key)) == 2, 60, what="the second step")
        await first.kill()
    async with worker("second"):
        settled = await parent.result()
    assert settled.outcome == "completed"
    assert settled.text == f"{order}: Refunded."
    assert settled.cost_usd == sum(
        [await spent(client, f"{parent.id}-{part}") for part in ("look", "refund")]
    )
    assert settled.cost_usd > 0
    made = [effect.amount_cents for effect in payments.effects() if effect.order == order]
    assert made == [2500]


async def spent(client: Client, run: str) -> Decimal:
    """Ask a run's own result what it cost."""
    result: RunResult = await client.get_workflow_handle(run, result_type=RunResult).result()
    return result.spend.cost_usd
