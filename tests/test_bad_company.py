"""A real worker that cannot work with those that are there says so, and ends before it polls."""

import uuid
from pathlib import Path

import pytest

from onward.testing.warm import WarmWorker

pytestmark = [pytest.mark.timeout(60), pytest.mark.crash]


async def test_a_folder_that_is_not_shared_is_refused_at_the_start(
    where: dict[str, str], tmp_path: Path
) -> None:
    """Exit 2 and why. Who follows a killed worker in its folder is not taken for bad company."""

    async def worker(folder: str) -> WarmWorker:
        own = where | {"ONWARD_PAYLOAD_DIR": str(tmp_path / folder)}
        return await WarmWorker.start(own, log=tmp_path / f"{uuid.uuid4().hex}.log")

    killed = await worker("shared")
    await killed.ready()
    await killed.kill()
    successor = await worker("shared")
    await successor.ready()
    refused = await worker("own")
    assert await refused.wait(30) == 2
    assert "error: this worker cannot poll a task queue that" in refused.output()
    assert "ONWARD_PAYLOAD_DIR" in refused.output()
    assert "polling" not in refused.output()
    assert await successor.stop() == 0
