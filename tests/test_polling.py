"""The health check of a worker's container."""

import asyncio

import pytest
from agent_runs import Bench, app_of

from onward.testing import wait_until
from onward.workers.polling import main


async def test_a_worker_that_polls_is_well(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only for its own host: the worker of another container proves nothing of this one's."""
    assert await checked() == 1
    assert f"no worker of this machine polls the task queue {bench.queue!r}" in told(capsys)
    async with bench.worker(app_of()):
        await wait_until(healthy, 20, what="its first poll")
        monkeypatch.setattr("socket.gethostname", lambda: "another")
        assert await checked() == 1


async def test_a_check_that_cannot_ask_says_why(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 3 without Temporal, 2 for a setting that cannot be."""
    assert bench.queue
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    assert await checked() == 3
    assert "error: no Temporal server at '127.0.0.1:1'" in told(capsys)
    monkeypatch.setenv("ONWARD_TAKEOVER_S", "soon")
    assert await checked() == 2
    assert "ONWARD_TAKEOVER_S" in told(capsys)


async def checked() -> int:
    """Run the check as a process of its own would: with an event loop of its own."""
    return await asyncio.to_thread(main)


async def healthy() -> bool:
    return await checked() == 0


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err
