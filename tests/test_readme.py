"""The README is true: a new user gets there by typing what it says."""

import asyncio
import os
import re
from pathlib import Path

import pytest
from agent_runs import says, uses
from pages import ROOT, Reader, blocks

from onward.testing import wait_until
from onward.testing.messages_api import Script, ScriptedAPI

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

RUN_ELSEWHERE = {
    # With the wheel in a clean environment, by test_install.py.
    "mkdir refunds && cd refunds",
    "python3 -m venv .venv && source .venv/bin/activate",
    'pip install "../onward[local]"',
    # By test_demo.py; `make demo` is its first line.
    "make demo",
    "onward demo --unprotected",
}
ORDERS = ("A-1", "A-2", "A-3")
REFUNDS = [uses(("refund", {"order_id": order, "cents": 500})) for order in ORDERS]


async def test_a_new_user_gets_there_by_the_readme_alone(tmp_path: Path) -> None:
    """Fifteen lines, two terminals, kill -9 of the worker, start it again: one refund an order."""
    script = Script(steps=[*REFUNDS, says("All are refunded.", delay_s=4)])
    async with ScriptedAPI({"default": script}) as api:
        reader = Reader("README.md", tmp_path, {"ANTHROPIC_BASE_URL": api.url})
        (tmp_path / "refunds.py").write_text(reader.code("import"))
        (*exports, worker) = reader.commands("onward-worker --local")
        for command in exports:
            await reader.types(command)
        (start,) = reader.commands("--id batch-1 --wait")
        (count,) = reader.commands("SELECT")
        async with reader.running(worker, "polling") as first:
            starting = asyncio.create_task(reader.types(start))
            await wait_until(lambda: len(api.journal) > len(ORDERS), 60, what="the last request")
            await first.kill()
        async with reader.running(worker, "polling"):
            started = await starting
    assert started.status == 0
    assert "All are refunded." in started.output
    books = (await reader.types(count)).output
    assert re.findall(r"'(A-\d)', 500", books) == list(ORDERS)
    assert reader.untyped() == RUN_ELSEWHERE


def test_the_first_program_is_about_fifteen_lines() -> None:
    """What a newcomer reads first is as short as its heading says."""
    program = next(block.text for block in blocks("README.md") if block.language == "python")
    assert len([line for line in program.splitlines() if line]) <= 15


async def test_make_demo_is_the_demo() -> None:
    """`make demo` runs the command that the demo's own tests run."""
    process = await asyncio.create_subprocess_exec(
        "make", "-n", "demo", cwd=ROOT, env=dict(os.environ), stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert b"starter.py demo" in printed
