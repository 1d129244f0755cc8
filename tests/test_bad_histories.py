"""A history that does not tell the whole conversation: the run waits, says so, and can go on."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_runs import Bench, Run, app_of, connected, says, uses
from temporalio.service import RPCError, RPCStatusCode

from activities import refill
from onward import runs, tool
from onward.ledger import Ledger
from onward.local_services import RedisServer
from onward.own_history import Told, read_history
from onward.testing import wait_until
from onward.transcript import Turn
from workflows.refilling import pause_s

Damage = Callable[[Told], None]


@tool(effect="read")
async def look(seed: int) -> str:
    """Look at something that no compression shortens."""
    return random.Random(seed).randbytes(20_000).hex()  # noqa: S311  (no secret)


def forgets(told: Told) -> None:
    """Lose a reply."""
    del told.records["1"]


def differs(told: Told) -> None:
    """Tell another user turn than the one that was answered."""
    told.turns["1"] = Turn(content='[{"type":"text","text":"another"}]').model_dump_json()


def is_gone(told: Told) -> None:
    """Answer as Temporal does of what it has forgotten."""
    raise RPCError(f"no history after {len(told.turns)} steps", RPCStatusCode.NOT_FOUND, b"")


class Reader:
    """Reads histories, damaged until it is mended."""

    def __init__(self, damage: Damage) -> None:
        self.damage: Damage | None = damage

    async def read(self, *args: Any, **options: Any) -> Told:
        """Read a history."""
        told = await read_history(*args, **options)
        if self.damage:
            self.damage(told)
        return told


async def wiped(bench: Bench, before: Callable[[], None] = lambda: None) -> Run:
    """Start a run, and wipe Redis while Claude answers for the second time."""
    run = await bench.start(
        uses(("look", {"seed": 1})), uses(("look", {"seed": 2}), delay_s=1.0), says()
    )
    await wait_until(lambda: len(run.requests) > 1, 30, what="the second request")
    before()
    await bench.redis.flushall()  # pyright: ignore[reportUnknownMemberType]
    return run


async def trouble(bench: Bench, run: Run) -> str:
    """Return what `status` shows of the refill that cannot be done yet."""

    async def shown() -> str:
        seen = await runs.look(bench.temporal, run.name)
        return "".join(each.last_failure for each in seen.pending if each.name == "refill")

    return await wait_until(shown, 30, what="a trouble that is shown")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (forgets, r"found no reply of step 1, .*restore both from the same time; or cancel"),
        (differs, r"found transcript digest \w+ at step 1, expected \w+ as history has it"),
        (is_gone, r"cannot read the run's own history: no history after 1 steps"),
    ],
)
async def test_a_run_waits_for_a_history_that_tells_it_whole(
    bench: Bench,
    own_redis: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    damage: Damage,
    said: str,
) -> None:
    """However long it takes: the run stays open, and once history is mended it goes on."""
    reader = Reader(damage)
    monkeypatch.setattr(refill, "read_history", reader.read)
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(look)):
            run = await wiped(bench)
            assert re.search(said, await trouble(bench, run))
            reader.damage = None
            result = await run.ended()
    assert (result.outcome, result.steps) == ("completed", 3)


async def test_a_run_that_waits_for_its_history_can_be_cancelled(
    bench: Bench, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be mended is ended by a person, cleanly and with its spend."""
    monkeypatch.setattr(refill, "read_history", Reader(forgets).read)
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(look)):
            run = await wiped(bench)
            await trouble(bench, run)
            await run.handle.signal("cancel")
            result = await run.ended()
    assert (result.outcome, result.spend.requests) == ("cancelled", 2)


async def test_a_segment_that_is_gone_delays_the_run(
    bench: Bench, own_redis: RedisServer, tmp_path: Path
) -> None:
    """The run that continued as new says which file it misses; once restored it goes on."""
    bench.history_events, moved = 8, dict[Path, Path]()

    def move() -> None:
        for file in [path for path in (tmp_path / "payloads").rglob("*") if path.is_file()]:
            moved[file] = file.rename(file.with_suffix(".moved"))

    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(look)):
            run = await wiped(bench, move)
            said = await trouble(bench, run)
            assert re.search(r"cannot read payload .* restore the file from a backup", said)
            for file, away in moved.items():
                away.rename(file)
            result = await run.ended()
    assert (result.outcome, result.steps) == ("completed", 3)


def test_refills_without_end_leave_room_in_history() -> None:
    """A Redis that keeps nothing ends no run for months: history has room for 51,200 events."""
    pauses = [pause_s(times) for times in range(1, 51_200 // 20)]
    assert sum(pauses) > 90 * 24 * 3600
    # Mended soon, a run goes on soon: it waits at most about as long as the trouble took.
    assert all(pause <= sum(pauses[:n]) + 2 for n, pause in enumerate(pauses))


async def test_a_ledger_that_loses_what_it_is_given_keeps_the_run(
    bench: Bench, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More refills than five in one step end no run: they only come more slowly."""
    restored, restore = list[int](), Ledger.restore

    async def lost(ledger: Ledger, *told: Any) -> None:
        restored.append(len(told[0]))
        if len(restored) > 6:
            await restore(ledger, *told)

    monkeypatch.setattr(Ledger, "restore", lost)
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(look)):
            run = await wiped(bench)
            result = await run.ended()
    assert (result.outcome, result.steps, len(restored)) == ("completed", 3, 7)
