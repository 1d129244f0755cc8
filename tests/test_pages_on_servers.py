"""The pages for operators are true: their commands do to real servers what they say."""

import re
from pathlib import Path

import pytest
from agent_double import Cli
from agent_runs import Bench, app_of, connected, uses
from pages import Reader, blocks
from people import waiting

from onward import tool
from onward.local_services import RedisServer
from onward.settings import Settings


@tool(effect="keyed", ask="always")
async def act() -> str:
    """Act."""
    return "acted"


async def test_operating(
    bench: Bench, own_redis: RedisServer, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Doctor looks at what the page says, and knows whose records no run owns."""
    monkeypatch.setenv("ONWARD_REDIS_URL", own_redis.url)
    reader = Reader("docs/operating.md", tmp_path, {}, cli)
    (doctor,) = reader.commands("onward doctor\n")
    (orphans,) = reader.commands("--orphans")
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(act), search_attributes=True):
            await waiting(await bench.start(uses(("act", {}))))
            healthy = await reader.types(doctor)
            assert healthy.status == 0, healthy.output
            assert looked_at(healthy.output) == looked_at(blocks("docs/operating.md")[1].text)
            assert (await reader.types(orphans)).status == 0
    assert reader.untyped() == set()


def looked_at(told: str) -> list[str]:
    """What `doctor` has looked at, line by line."""
    return re.findall(r"^(?:ok|note) +(\S+(?: \S+)*)", told, re.MULTILINE)


async def test_rate_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are exported as the page says are those that workers keep."""
    reader = Reader("docs/rate-limits.md", tmp_path)
    (export,) = reader.commands("ONWARD_RATE_LIMITS")
    await reader.types(export)
    monkeypatch.setenv("ONWARD_RATE_LIMITS", reader.env["ONWARD_RATE_LIMITS"])
    assert {*Settings().rate_limits} == {"claude-sonnet-5-5", "claude-haiku-5-5"}
    assert reader.untyped() == set()
