"""Audits in tests: the command, the tool whose calls it tells, and what it says of each."""

from pathlib import Path
from typing import Any

import pytest
from agent_double import Cli
from agent_runs import Bench

from onward import Rejected, tool
from onward.local_services import TemporalServer


@tool(effect="keyed", ask=lambda call: call["cents"] > 50)
async def refund(cents: int) -> str:
    """Refund."""
    if cents == 13:
        raise Rejected("no such order")
    return f"refunded {cents}"


@pytest.fixture
def cli(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    servers: None,  # noqa: ARG001  (sets where they are)
    tmp_path: Path,
) -> Cli:
    """Run commands in an empty folder, on the test's servers."""
    monkeypatch.chdir(tmp_path)
    return Cli(capsys)


@pytest.fixture
def servers(
    monkeypatch: pytest.MonkeyPatch,
    temporal: TemporalServer,
    redis_url: str,
    bench: Bench,
    tmp_path: Path,
) -> None:
    """Tell commands where the test's servers are, and its large payloads."""
    monkeypatch.setenv("ONWARD_PAYLOAD_DIR", str(tmp_path / "payloads"))
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.address)
    monkeypatch.setenv("ONWARD_REDIS_URL", redis_url)
    monkeypatch.setenv("ONWARD_TASK_QUEUE", bench.queue)


def by_call(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["call"]: row for row in document["effects"]}
