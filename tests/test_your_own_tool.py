"""docs/your-own-tool.md is true: its file is run by a worker and tested, as it says.

Crashing a tool is on a page of its own, and typed by the test of that one.
"""

import asyncio
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_double import Cli
from agent_runs import Bench, says, uses
from pages import Reader

from onward.agents import load_app
from onward.testing.messages_api import Script

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

PAGE = "docs/your-own-tool.md"
PARTS = ("def look_up", "def refund", "def pay_out", "app = App", "def count_refunds")
ELSEWHERE = {"onward-worker --local"}
"""By test_readme.py; here a worker runs in this process."""
ASKED = (
    ("refund", {"order_id": "A-17", "amount_cents": 80_00}, "re_"),
    ("look_up", {"order_id": "A-17"}, "currency"),
    ("refund", {"order_id": "A-17", "amount_cents": 5_00}, "Not done again"),
    ("refund", {"order_id": "B2B-1", "amount_cents": 5_00}, "refunded by their own desk"),
    ("refund", {"order_id": "A-19", "amount_cents": "much"}, "amount_cents"),
    ("pay_out", {"order_id": "A-20", "amount_cents": 5_00}, "re_"),
)
"""Calls that Claude asks for, and what it is told of each."""


async def test_the_file_of_the_page_does_what_it_says(
    bench: Bench, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its agent asks first and is told what the page says, and its unit test passes."""
    reader = Reader(PAGE, tmp_path, cli=cli)
    (tmp_path / "shop.py").write_text("\n\n".join(map(reader.code, PARTS)))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (payments,) = reader.commands("onward.testing.payments")
    *exports, _ = reader.commands("onward-worker --local")
    for export in exports:
        await reader.types(export)
    async with reader.running(payments, '"url"', {"8400": "0"}) as service:
        monkeypatch.setenv("PAYMENTS_URL", json.loads(service.output())["url"])
        await runs(reader, bench)
        test: dict[str, Any] = {}
        exec(reader.code("tool_context"), test)  # noqa: S102  (our own page)
        await asyncio.to_thread(test["test_a_repeated_refund_is_one_refund"])
    del sys.modules["shop"]
    assert reader.untyped() - ELSEWHERE == set()


async def runs(reader: Reader, bench: Bench) -> None:
    """Type the run of the page: it waits, is approved, and Claude is told what happened."""
    calls = [uses((tool, given)) for tool, given, _ in ASKED]
    bench.api.scripts["shop"] = Script(steps=[*calls, says("Settled.")])
    start, approve, result, audit = reader.commands("onward approve")
    async with bench.worker(load_app("shop:app")):
        waiting = await reader.types(start, {"Refund 80": "[script:shop] Refund 80"})
        assert waiting.status == 8
        assert "refund order A-17 · €80.00" in waiting.output
        for command in (approve, result):
            assert (await reader.types(command)).status == 0
    audited = (await reader.types(audit)).output
    told = results(bench.api.journal.of("shop")[-1].body)
    for (_, _, expected), content in zip(ASKED, told, strict=True):
        assert expected in content
    made: Any = importlib.import_module("shop").count_refunds
    assert [made({"order_id": order}) for order in ("A-17", "B2B-1", "A-20")] == [1, 0, 1]
    assert "approved" in audited


def results(body: str) -> list[str]:
    """Texts of the tool results in a request to Claude."""
    messages: Any = json.loads(body)["messages"]
    blocks = (block for each in messages if each["role"] == "user" for block in each["content"])
    return [json.dumps(block["content"]) for block in blocks if block["type"] == "tool_result"]
