"""A run's history grows with what is said, and with nothing else (docs/architecture.md)."""

import asyncio
import base64
import hashlib
import json
import re
import struct
import uuid
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agent_runs import MODEL, Bench, Run, app_of, says, uses
from temporalio.api.history.v1 import HistoryEvent

from onward import ToolContext, tool
from onward.ledger import Ledger, Snapshot
from onward.messages import EffectClass
from onward.own_history import read_history
from onward.testing import wait_until


@tool(effect="read")
async def look(n: int) -> str:
    """Look at a page."""
    return f"page {n}: " + "words " * 40


@tool(effect="keyed")
async def book(n: int) -> str:
    """Book a page."""
    return f"booked {n}: " + "words " * 40


@pytest.mark.field("C02")
@pytest.mark.parametrize(
    ("name", "steps", "most"), [("look", 60, 2_600), ("book", 30, 4_100)], ids=["read", "keyed"]
)
async def test_a_step_adds_what_it_says_and_little_more(
    bench: Bench, name: str, steps: int, most: int
) -> None:
    """No activity's input grows with the steps before it; nor does what a step adds beside words.

    A read is part of its step; an effect has an activity of its own.
    """
    async with bench.worker(app_of(look, book), max_cached_workflows=10):
        run = await bench.start(*[uses((name, {"n": n})) for n in range(steps)], says())
        await run.ended()
    events = [*(await run.history()).events]
    for sizes in _input_sizes(events).values():
        # They differ by the digits of their numbers alone.
        assert max(sizes[1:], default=0) - min(sizes[1:], default=0) < 40, sizes
    beside = (sum(event.ByteSize() for event in events) - await _said(bench, run)) / steps
    assert beside < most, f"{beside:.0f} bytes a step"


async def test_what_is_said_stands_in_history_once(bench: Bench) -> None:
    """The prompt, Claude's words and tool results: each enters history once, as what it is."""
    pieces = [f"said-{number}-{uuid.uuid4().hex}" for number in range(4)]
    prompt, words, read, effect = pieces

    @tool(effect="read")
    async def recall() -> str:
        """Say a piece."""
        return read

    @tool(effect="keyed")
    async def act() -> str:
        """Say another piece."""
        return effect

    speaks = {"type": "text", "text": words}
    step = uses(("recall", {}))
    step = step.model_copy(update={"content": [speaks, *step.content]})
    run = await bench.run(app_of(recall, act), step, uses(("act", {})), says(), prompt=prompt)
    raw = b"".join(event.SerializeToString() for event in (await run.history()).events)
    assert [raw.count(piece.encode()) for piece in pieces] == [1, 1, 1, 1]
    last = run.requests[-1].body
    assert all(piece in last for piece in pieces)


async def test_what_was_sent_is_sent_again_to_the_byte(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request begins with the bytes of the one before it, whichever worker sends it."""
    read_whole: list[str] = []
    snapshot = Ledger.snapshot

    async def counted(self: Ledger) -> Snapshot:
        read_whole.append(self.key)
        return await snapshot(self)

    monkeypatch.setattr(Ledger, "snapshot", counted)
    steps = [uses(("look", {"n": n}), delay_s=0.1) for n in range(8)]
    async with bench.worker(app_of(look, book)):
        run = await bench.start(*steps, says())
        await wait_until(lambda: len(run.requests) > 3, 30, what="the fourth request")
    async with bench.worker(app_of(look, book)):
        await run.ended()
    # What the API is to keep moves on with every step, and is in no comparison.
    bodies = [re.sub(r',"cache_control":\{[^}]*\}', "", entry.body) for entry in run.requests]
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier.removesuffix("]}"))
    # Each worker had read the run once; what it was asked next was at hand.
    assert len(read_whole) == 2


@pytest.mark.parametrize("lost", ["the hash", "the nonce", "the beginning"])
async def test_a_conversation_at_hand_hides_no_loss(bench: Bench, lost: str) -> None:
    """What Redis lost is rebuilt although this step needs none of it: the next effect would."""
    acted: list[str] = []
    loop = asyncio.get_running_loop()

    @tool
    async def act(ctx: ToolContext) -> str:
        """Act."""
        acted.append(ctx.call)
        return "acted"

    async def lose() -> None:
        redis: Any = bench.redis
        key = bench.ledger(run).key
        match lost:
            case "the hash":
                await redis.delete(key)
            case "the nonce":
                await redis.hdel(key, "_ds")
            case _:
                of_another = (await redis.hget(key, "s:0")).replace(MODEL.encode(), b"another")
                await redis.hset(key, "s:0", of_another)

    @tool(effect="read")
    async def wipe() -> str:
        """Lose the run's records, what proves that they are all there, or how the run began."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(lose(), loop))
        return "lost"

    step = uses(("act", {}))
    async with bench.worker(app_of(act, wipe)):
        run = await bench.start(step, uses(("wipe", {})), step, step, says())
        result = await run.ended()
    assert (result.outcome, result.in_doubt) == ("completed", ())
    assert acted == ["1.1", "3.1", "4.1"]
    assert (await run.activities()).count("refill") == 1
    assert all(f'"{MODEL}"' in entry.body for entry in run.requests)


@pytest.mark.parametrize("effect", ["read", "keyed"])
async def test_twelve_large_results_at_once(bench: Bench, effect: EffectClass) -> None:
    """Six megabytes in one step: more than Temporal takes at once, and nothing fails or repeats."""
    seen: list[int] = []

    @tool(effect=effect)
    async def photograph(n: int) -> list[dict[str, Any]]:
        """Take a photograph of half a megabyte."""
        seen.append(n)
        source = {"type": "base64", "media_type": "image/png", "data": _png(n)}
        return [{"type": "image", "source": source}]

    calls = [("photograph", {"n": n}) for n in range(12)]
    run = await bench.run(app_of(photograph), uses(*calls), says())
    assert run.result is not None
    assert (run.result.outcome, sorted(seen)) == ("completed", [*range(12)])
    assert all(_png(n) in run.requests[-1].body for n in range(12))
    assert sum(event.ByteSize() for event in (await run.history()).events) < 100_000


@pytest.mark.field("C01")
@pytest.mark.parametrize("value", ["x" * 3_000_000, b"\xff" * 1_600_000], ids=["text", "bytes"])
@pytest.mark.parametrize("effect", ["read", "at_most_once"])
async def test_a_result_of_megabytes_is_returned_once(
    bench: Bench, tmp_path: Path, value: str | bytes, effect: EffectClass
) -> None:
    """A result that Temporal would refuse does not make the tool run again."""
    file = tmp_path / "lines"

    @tool(effect=effect)
    def append() -> Any:
        """Append a line to a file."""
        with file.open("a", encoding="utf-8") as out:
            out.write("line\n")
        return value

    run = await bench.run(app_of(append), uses(("append", {})), says())
    assert run.result is not None
    assert (run.result.outcome, file.read_text()) == ("completed", "line\n")


async def _said(bench: Bench, run: Run) -> int:
    """Count the bytes of Claude's replies, as received, and of all results."""
    told = await read_history(bench.temporal, run.name, run.handle.first_execution_run_id or "")
    records = [json.loads(record.result or "{}") for record in told.records.values()]
    return sum(len(said.get("message", said.get("content", ""))) for said in records)


def _input_sizes(events: list[HistoryEvent]) -> dict[str, list[int]]:
    sizes: dict[str, list[int]] = {}
    for event in events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            scheduled = event.activity_task_scheduled_event_attributes
            sizes.setdefault(scheduled.activity_type.name, []).append(scheduled.input.ByteSize())
    return sizes


def _png(n: int) -> str:
    """Make a picture that does not compress, as base64."""
    side = 350
    noise = hashlib.shake_256(bytes([n])).digest(3 * side * side)
    rows = b"".join(b"\0" + noise[at : at + 3 * side] for at in range(0, len(noise), 3 * side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b""))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(_chunks(parts))).decode()


def _chunks(parts: tuple[tuple[bytes, bytes], ...]) -> Iterator[bytes]:
    for kind, data in parts:
        yield struct.pack(">I", len(data)) + kind + data
        yield struct.pack(">I", zlib.crc32(kind + data))
