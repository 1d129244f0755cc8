"""docs/client.md is true: its code is run, in order, against a real run."""

import ast
from pathlib import Path

import pytest
from agent_runs import MODEL, Bench, says, uses
from pages import ROOT, Reader

import onward.client
from onward import Agent, App, tool

PAGE = "docs/client.md"


@tool(effect="keyed", ask="always")
async def refund(order: str) -> str:
    """Refund."""
    return f"refunded {order}"


async def test_the_code_of_the_page_runs_as_it_stands(
    bench: Bench, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Whoever types it gets what the page says: a run, its events, an approval, a result."""
    call = uses(("refund", {"order": "A-17"}))
    bench.api.scripts["default"] = bench.script(call, says("Order A-17 is refunded."))
    names = dict[str, object]()
    reader = Reader(PAGE, tmp_path)
    async with bench.worker(App(Agent("support", model=MODEL, tools=[refund]))):
        for containing in ("client.start", "run.events", "run.status", "UsageError"):
            text = reader.code(containing)
            code = compile(text, PAGE, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if (running := eval(code, names)) is not None:  # noqa: S307
                await running
    printed = capsys.readouterr().out
    assert printed.startswith("started\n")
    assert "Order A-17 is refunded.completed\n" in printed
    assert "has ended (completed)" in printed
    assert reader.untyped() == set()


def test_what_code_may_use_does_not_change_by_accident() -> None:
    """Every public name of the client is there, and documented."""
    found = {name: getattr(onward.client, name) for name in onward.client.__all__}
    assert sorted(found) == [
        *("Client", "ConnectError", "Decision", "Event", "LimitOverrides", "Limits", "NoSuchRun"),
        *("OnwardError", "RedisFull", "Report", "Run", "RunHandle", "RunResult", "RunStatus"),
        *("Sent", "Spend", "Spent", "StartedRun", "UsageError", "Waiting"),
        *("connect", "happenings"),
    ]
    assert all(each.__doc__ for each in found.values())


def test_the_page_names_every_method() -> None:
    """Nobody has to read the code to know what a run can be asked or told."""
    methods = {name for name in vars(onward.client.RunHandle) if not name.startswith("_")}
    page = (ROOT / PAGE).read_text()
    assert {name for name in methods if f"`{name}(" not in page} == set()
