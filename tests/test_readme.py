"""The README and docs/getting-started.md are true: a new user gets there by typing what they say.

Both are one story in one folder: the second page goes on with the file and the run of the first.
"""

import asyncio
import os
import re
from pathlib import Path

import pytest
from agent_double import Cli
from agent_runs import says, uses
from pages import ROOT, Reader, blocks

from onward.testing import wait_until
from onward.testing.messages_api import Script, ScriptedAPI, Step

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

RUN_ELSEWHERE = {
    # The same by test_install.py, with the wheel and by uv: pip takes two minutes for it.
    "mkdir ../refunds && cd ../refunds",
    "python3 -m venv .venv && source .venv/bin/activate",
    'pip install "../onward[local]"',
    # By test_demo.py; `make demo` is its first line.
    "make demo",
    "onward demo --unprotected",
}
PAGE = "docs/getting-started.md"
ORDERS = ("A-1", "A-2", "A-3")


def refund(order: str, cents: int = 500, delay_s: float = 0.0) -> Step:
    """Let Claude ask for a refund."""
    return uses(("refund", {"order_id": order, "cents": cents}), delay_s=delay_s)


SCRIPTS = {
    "default": Script(steps=[*map(refund, ORDERS), says("All are refunded.", delay_s=4)]),
    "asks": Script(steps=[refund("B-1", 80_00), refund("B-2"), says("Both are refunded.")]),
    # It is cancelled before it ends.
    "long": Script(steps=[refund(f"C-{number}", delay_s=1.0) for number in range(1, 21)]),
}


async def test_a_new_user_gets_there_by_these_pages_alone(tmp_path: Path, cli: Cli) -> None:
    """Fifteen lines, a run, kill -9, the same again: one refund an order. Then look and decide."""
    async with ScriptedAPI(SCRIPTS) as api:
        readme = Reader("README.md", tmp_path, {"ANTHROPIC_BASE_URL": api.url})
        page = Reader(PAGE, tmp_path, cli=cli)
        program = readme.code("import")
        (tmp_path / "refunds.py").write_text(program)
        (key, app, worker) = readme.commands("onward-worker --local")
        await readme.types(key, {"…": "test"})
        await readme.types(app)
        (start,) = readme.commands("--id batch-1 --wait")
        async with readme.running(worker, "polling") as first:
            assert shows("polling", first.output())
            starting = asyncio.create_task(readme.types(start))
            await wait_until(lambda: len(api.journal) > len(ORDERS), 60, what="the last request")
            await first.kill()
        # Its rule is for the page's second run; changed here, no third worker must start.
        (tmp_path / "refunds.py").write_text(asking_first(program, page))
        async with readme.running(worker, "polling"):
            started = await starting
            assert started.status == 0
            assert shows("did not answer", started.output)
            await looks(page)
            await decides(page)
            await steers_and_stops(page)
            await counts(page)
    (count,) = readme.commands("SELECT")
    books = (await readme.types(count)).output
    assert re.findall(r"'([AB]-\d)', (\d+)", books) == [
        *((order, "500") for order in ORDERS),
        *(("B-1", "8000"), ("B-2", "500")),
    ]
    assert readme.untyped() - RUN_ELSEWHERE == set()
    assert page.untyped() == set()


def shows(containing: str, output: str) -> bool:
    """Tell whether the page shows such an output; its `…` stands for anything."""
    shown = (block.text for block in blocks(PAGE) if block.language == "text")
    (text,) = (text for text in shown if containing in text)
    lines = (
        "(?s:.*)" if line == "…" else re.escape(line).replace("…", ".*")
        for line in text.splitlines()
    )
    return re.search("\n".join(lines), output) is not None


def asking_first(program: str, page: Reader) -> str:
    """Change the README's program as the page says."""
    *kept, agent, app = program.splitlines(keepends=True)
    assert (agent[:8], app[:6]) == ("agent = ", "app = ")
    return "".join(kept) + page.code("Rule")


async def looks(page: Reader) -> None:
    """Every way to look at the run finds it, and that it ended well."""
    for command in page.commands("onward watch batch-1"):
        looked = await page.types(command)
        assert looked.status == 0
        assert "refund" in looked.output


async def decides(page: Reader) -> None:
    """A call above the rule's amount waits for a person, is found, and runs once it may."""
    (start,) = page.commands("--id batch-2 --wait")
    started = await page.types(start, {"Refund": "[script:asks] Refund"})
    assert started.status == 8
    assert shows("1.1 refund", started.output)
    for_whom, approve, result = page.commands("onward approve")

    async def listed() -> bool:
        return "batch-2" in (await page.types(for_whom)).output

    await wait_until(listed, 30, what="batch-2 in the list")
    assert (await page.types(approve)).status == 0
    ended = await page.types(result)
    assert (ended.status, "Both are refunded." in ended.output) == (0, True)


async def steers_and_stops(page: Reader) -> None:
    """A run takes a message, a pause and a cancel, and says so at its end."""
    start, *steering, result = page.commands("onward cancel")
    assert (await page.types(start, {"Refund": "[script:long] Refund"})).status == 0
    for command in steering:
        assert (await page.types(command)).status == 0
    ended = await page.types(result)
    assert ended.status == 5
    assert shows("cancelled", ended.output)


async def counts(page: Reader) -> None:
    """The request that the kill took is in the bill."""
    run, by_step, since = page.commands("onward spend")
    assert shows("whose answer was lost", (await page.types(run)).output)
    for command in (by_step, since):
        assert (await page.types(command)).status == 0


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
