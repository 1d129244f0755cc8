"""The pages for who writes tools are true: an example is run, a tool is crashed, as they say."""

import ast
import asyncio
import shutil
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from agent_double import Cli
from agent_runs import Bench
from pages import ROOT, Reader

from onward.local_services import TemporalServer
from onward.testing import PaymentsProcess
from onward.testing.crash_test import crash_test
from onward.testing.crash_test.servers import Servers

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

REFUNDS = """
import json, os
from urllib.request import urlopen

from examples.keyed_refund import refund


def count_refunds(call):
    with urlopen(os.environ["PAYMENTS_URL"] + "/audit") as reply:
        made = json.load(reply)["effects"]
    return sum(each["order_id"] == call["order_id"] for each in made)
"""


async def test_testing_your_tools(  # noqa: PLR0917  (fixtures)
    bench: Bench,
    temporal: TemporalServer,
    redis_url: str,
    payments: PaymentsProcess,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The command and the code of the page crash a tool and say that it holds.

    At one point of the twelve, on servers that run already: all of it takes minutes.
    """
    (tmp_path / "refunds.py").write_text(REFUNDS)
    refunds = ModuleType("refunds")
    exec(REFUNDS, vars(refunds))  # noqa: S102  (the lines above)
    monkeypatch.setitem(sys.modules, "refunds", refunds)
    monkeypatch.setenv("PAYMENTS_URL", payments.url)
    servers = Servers(bench.temporal, temporal.address, redis_url, bench.api, tmp_path)
    testing = "onward.testing.crash_test.testing.servers"
    monkeypatch.setattr(testing, lambda: nullcontext(servers))
    monkeypatch.setattr("onward.testing.crash_test.crash_test", partial(crash_test, points=["f1"]))
    reader = Reader("docs/testing-your-tools.md", tmp_path, {}, cli)
    (command,) = reader.commands("crashtest")
    held = await reader.types(command, {"--probe": "--points f1 --probe"})
    assert held.status == 0, held.output
    code = compile(reader.code("crash_test"), "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, vars(refunds))  # noqa: S307  (our own page)
    assert reader.untyped() == set()


@pytest.mark.skipif(shutil.which("curl") is None, reason="PAGE NOT TYPED: apt-get install curl")
async def test_examples(tmp_path: Path) -> None:
    """A keyed refund without a key of Claude's, and a web page that starts and follows a run."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    reader = Reader("examples/README.md", tmp_path)
    ports = {"8400": free_port(), "8500": free_port(), "8600": free_port()}

    def here(command: str) -> dict[str, str]:
        own = ports | {"=…": "=any"}
        return {old: new for old, new in own.items() if old in command}

    @asynccontextmanager
    async def running(command: str, ready: str) -> AsyncGenerator[None]:
        async with reader.running(command, ready, here(command)):
            yield

    (payments,) = reader.commands("onward.testing.payments")
    (claude,) = reader.commands("onward.testing.messages_api")
    (*keyed, worker) = reader.commands("# yours")
    (start,) = reader.commands("--id try-1")
    (*keyless, _, again) = reader.commands("[script:refund]")
    (web, *curls) = reader.commands("curl")
    for export in (*keyed, *keyless):
        await reader.types(export, here(export))
    async with running(payments, '"url"'), running(claude, '"url"'), running(worker, "polling"):
        script = {"A-17.": "A-17. [script:refund]"}
        starts = asyncio.gather(reader.types(start, script), reader.types(again))
        async with running(web, "running on"):
            (begun, events, approved) = [
                await reader.types(curl, here(curl) | (script if "A-17." in curl else {}))
                for curl in curls
            ]
        for each in await starts:
            assert (each.status, "Refunded 5 euros" in each.output) == (0, True), each.output
    assert "web-1" in begun.output
    assert "Refunded 5 euros" in events.output
    assert "error" in approved.output, "the run has ended"
    assert reader.untyped() == set()


def free_port() -> str:
    """Find a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
