"""A result of any size: the call is done, and Claude sees a part and can read the rest."""

import functools
import hashlib
import json
import re
import uuid
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from agent_runs import Bench, Run, app_of, connected, says, uses
from ledger_story import STEP, Story, new_story
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from activities import tools
from activities.reading import by_reference, recorded_result
from onward import segments, tool
from onward.errors import PayloadError
from onward.local_services import RedisServer
from onward.messages import CallResult
from onward.payload_store import PayloadStore, data_converter
from onward.testing import wait_until
from onward.tools.read_result import PAGE_BYTES, page
from onward.tools.results import MAX_TEXT_BYTES, MAX_WHOLE_BYTES, show

KIB, MIB = 1024, 1024 * 1024


@functools.cache
def lines(size: int) -> str:
    """Make a text of `size` bytes in which every line is another one."""
    return "".join(f"{number:015}\n" for number in range(size // 16))


class Exporter:
    """A tool with long results that counts how often it ran."""

    def __init__(self, text: Callable[[int], str] = lines, **options: Any) -> None:
        self.ran = 0

        @tool(effect="keyed", **options)
        def export(size: int) -> str:
            """Export a table."""
            self.ran += 1
            return text(size)

        self.tool = export


def offset_in(content: str, call: str) -> int:
    """Return where the note in a content says to read on."""
    found = re.search(rf'read_result\(call="{re.escape(call)}", offset=(\d+)\)', content)
    assert found, content[-500:]
    return int(found[1])


def pages(call: str, size: int) -> list[tuple[str, dict[str, Any]]]:
    """List the reads that show the rest of a result of `lines(size)`, to its end."""
    first = offset_in(json.loads(show(lines(size), call).content), call)
    return [
        ("read_result", {"call": call, "offset": start}) for start in range(first, size, PAGE_BYTES)
    ]


def told(run: Run, request: int) -> list[Any]:
    """Return the results in a request's last turn."""
    turn = json.loads(run.requests[request].body)["messages"][-1]
    return [block["content"] for block in turn["content"]]


def read(results: list[str]) -> str:
    """Join what reads showed, without the line above each."""
    return "".join(result.split("\n", 1)[1] for result in results)


async def event_bytes(run: Run, activity: str) -> list[int]:
    """Sizes of the events in which activities of this name ended."""
    events = (await run.history()).events
    scheduled = {
        event.event_id: event.activity_task_scheduled_event_attributes.activity_type.name
        for event in events
    }
    return [
        event.ByteSize()
        for event in events
        if event.HasField("activity_task_completed_event_attributes")
        and scheduled[event.activity_task_completed_event_attributes.scheduled_event_id] == activity
    ]


# ---- whole runs


@pytest.mark.replay
async def test_the_rest_is_read_to_its_end_after_a_wipe_by_another_worker(
    bench: Bench, own_redis: RedisServer
) -> None:
    """Claude gets every byte of a long result, though Redis and worker are lost in between."""
    size, exporter = 300 * KIB, Exporter()
    async with connected(own_redis.url) as redis:
        bench.redis = redis
        async with bench.worker(app_of(exporter.tool)):
            run = await bench.start(
                uses(("export", {"size": size})),
                uses(*pages("1.1", size), delay_s=0.5),
                says(),
            )
            await wait_until(lambda: len(run.requests) > 1, 30, what="the second request")
        await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
        async with bench.worker(app_of(exporter.tool)):
            await run.ended()
    shown = told(run, 1)[0]
    assert len(shown.encode()) <= MAX_TEXT_BYTES
    start = offset_in(shown, "1.1")
    assert shown[:start] + read(told(run, -1)) == lines(size)
    assert told(run, -1)[-1].startswith("[bytes ")
    assert "; its end]" in told(run, -1)[-1].split("\n", 1)[0]
    assert exporter.ran == 1
    assert await event_bytes(run, "export") < [2 * KIB]
    await run.replay()


async def test_three_mebibytes_leave_history_and_records_small(bench: Bench) -> None:
    """What is long lies beside history and beside the records, and expires with its run."""
    size, exporter = 3 * MIB, Exporter()
    ahead = pages("1.1", size)
    run = await bench.run(
        app_of(exporter.tool),
        uses(("export", {"size": size})),
        uses(ahead[0], ahead[len(ahead) // 2], ahead[-1]),
        says(),
    )
    starts = [call[1]["offset"] for call in (ahead[0], ahead[len(ahead) // 2], ahead[-1])]
    expected = [lines(size)[start : start + PAGE_BYTES] for start in starts]
    assert [read([result]) for result in told(run, -1)] == expected
    assert await event_bytes(run, "export") < [2 * KIB]
    redis: Any = bench.redis
    assert len(await redis.hget(bench.ledger(run).key, "s:1.1")) < KIB
    snapshot = await bench.ledger(run).snapshot()
    assert len(snapshot.records["1.1"].result) < 2 * MAX_TEXT_BYTES
    await bench.ledger(run).end(60_000)
    kept = [key async for key in redis.scan_iter(f"{bench.ledger(run).key}*")]
    assert sum([await redis.memory_usage(key) for key in kept]) < MIB


async def test_a_text_that_is_gone_delays_the_run_and_says_what_to_do(
    bench: Bench, tmp_path: Path
) -> None:
    """The run stays open until the file is restored, and Claude is told nothing untrue."""
    size, exporter = 300 * KIB, Exporter()
    async with bench.worker(app_of(exporter.tool)):
        run = await bench.start(
            uses(("export", {"size": size})), uses(pages("1.1", size)[0], delay_s=0.5), says()
        )
        await wait_until(lambda: len(run.requests) > 1, 30, what="the second request")
        file = max(files(tmp_path / "payloads"), key=lambda file: file.stat().st_size)
        moved = file.rename(tmp_path / "backup")
        said = await wait_until(run.failing_activity, 30, what="a failure that is shown")
        assert re.search(r"cannot read payload .* restore the file from a backup", said)
        moved.rename(file)
        await run.ended()
    start = pages("1.1", size)[0][1]["offset"]
    assert read(told(run, -1)) == lines(size)[start : start + PAGE_BYTES]
    assert exporter.ran == 1


async def test_a_text_that_an_older_worker_left_in_redis_is_read_from_history(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of before 0.3 goes on: a refill makes a reference of the text in its history."""
    size, exporter = 300 * KIB, Exporter()
    monkeypatch.setattr(tools, "by_reference", as_before)
    async with bench.worker(app_of(exporter.tool)):
        run = await bench.start(
            uses(("export", {"size": size})), uses(pages("1.1", size)[0], delay_s=0.5), says()
        )
        await wait_until(lambda: len(run.requests) > 1, 30, what="the second request")
        redis, key = cast("Any", bench.redis), bench.ledger(run).key
        record = json.loads(await redis.hget(key, "s:1.1"))
        ended = json.loads(await redis.get(f"{key}:b:{record.pop('ref')}"))
        record["res"] = json.dumps(ended | {"whole": ""})
        await redis.hset(key, "s:1.1", json.dumps(record))
        await run.ended()
    start = pages("1.1", size)[0][1]["offset"]
    assert read(told(run, -1)) == lines(size)[start : start + PAGE_BYTES]
    assert (await run.activities()).count("refill") == 1
    assert exporter.ran == 1


async def as_before(_converter: DataConverter, result: CallResult) -> CallResult:
    """Leave the whole text in history, as workers of before 0.3 did."""
    sha = hashlib.sha256(result.whole.encode()).hexdigest()
    return result.model_copy(update={"whole_sha": sha})


async def test_fifty_megabytes_are_done_and_bounded(bench: Bench) -> None:
    """No size makes a call fail after its effect; of what is beyond 16 MiB the middle is gone."""
    exporter = Exporter(lambda size: "x" * size)
    run = await bench.run(
        app_of(exporter.tool),
        uses(("export", {"size": 50_000_000})),
        uses(("read_result", {"call": "1.1", "offset": 100 * MIB})),
        says(),
    )
    assert exporter.ran == 1
    (beyond,) = told(run, -1)
    size = MAX_WHOLE_BYTES
    assert beyond == f"[bytes {size} to {size} of {size} of the result of 1.1; its end]\n"
    assert await event_bytes(run, "export") < [2 * KIB]


async def test_what_there_is_nothing_to_read_of_is_told(bench: Bench) -> None:
    """Claude learns what it may ask for; a wrong id is no gap that a refill could fill."""
    exporter = Exporter()
    run = await bench.run(
        app_of(exporter.tool),
        uses(("export", {"size": 32})),
        uses(*[("read_result", {"call": call}) for call in ("1.1", "7.7", "0", "all")]),
        says(),
    )
    short, absent, malformed, worse = told(run, -1)
    assert "nothing to read of call '1.1'" in short
    assert "nothing to read of call '7.7'" in absent
    assert "'0' does not match" in malformed
    assert "'all' does not match" in worse
    assert "refill" not in await run.activities()


async def test_a_result_of_another_run_can_be_read_on_in_this_one(bench: Bench) -> None:
    """Under a business key of every run the first result comes whole, by this run's own call id."""
    size, key = 300 * KIB, uuid.uuid4().hex

    def same(_: dict[str, Any]) -> str:
        return key

    exporter = Exporter(key_from=same, key_scope="everywhere")
    export = ("export", {"size": size})
    app = app_of(exporter.tool)
    await bench.run(app, uses(export), says())
    run = await bench.run(
        app, uses(("read_result", {"call": "9.9"}), export), uses(pages("1.2", size)[-1]), says()
    )
    assert exporter.ran == 1
    shown = "".join(block["text"] for block in told(run, 1)[1])
    start = offset_in(shown, "1.2")
    assert 'call="1.1"' not in shown
    assert lines(size).endswith(read(told(run, -1)))
    assert start > 0


async def test_a_payload_folder_that_cannot_be_written_delays_and_loses_nothing(
    bench: Bench, tmp_path: Path
) -> None:
    """A full disk holds a finished call up, and the effect happens once all the same."""
    exporter, folder = Exporter(), tmp_path / "payloads"
    folder.write_text("in the way")
    async with bench.worker(app_of(exporter.tool)):
        run = await bench.start(uses(("export", {"size": 300 * KIB})), says())

        said = await wait_until(run.failing_activity, 30, what="a failure that is shown")
        assert "cannot keep a payload of" in said
        assert str(folder) in said
        folder.unlink()
        await run.ended()
    assert exporter.ran == 1


# ---- the ledger


@pytest_asyncio.fixture(loop_scope="session")
async def story(redis_url: str) -> AsyncGenerator[Story]:
    """Begin a run of its own."""
    async with new_story(redis_url) as new:
        yield new


async def test_a_later_attempt_gets_the_whole_text_again(story: Story, tmp_path: Path) -> None:
    """What an attempt recorded before it died keeps its text, also where the disk was full."""
    converter = data_converter(tmp_path / "payloads")
    made = CallResult(status="done", content='"l…"', whole="long " * MIB)
    (tmp_path / "payloads").write_text("in the way")
    assert await by_reference(converter, made) == made
    await story.claim("a")
    await story.complete("a", result=made.record())
    (tmp_path / "payloads").unlink()
    found = await recorded_result(converter, (await story.claim("b")).result)
    assert (found.whole, found.content) == ("", made.content)
    assert (await segments.fetch(converter, found.whole_at)).decode() == made.whole


async def test_a_text_that_only_an_older_worker_had_leaves_a_call_done(tmp_path: Path) -> None:
    """It lay in Redis, in a form of before 0.3: its rest is lost, and nothing waits for it."""
    found = CallResult(status="done", content='"l…"', whole_sha="a" * 64)
    again = await recorded_result(data_converter(tmp_path), found.record())
    assert again == found.model_copy(update={"whole_sha": ""})


async def test_looking_a_run_up_fetches_no_whole_text(story: Story) -> None:
    """The conversation is read at every step: what an older worker kept must not come along."""
    sha = hashlib.sha256(b"long").hexdigest()
    await story.redis.set(f"{story.key}:b:{sha}", "x" * MIB)
    await story.redis.hset(story.key, f"b:{sha}", "whole")
    await story.complete("a", result="y" * 100_000)
    before = (await story.redis.info("stats"))["total_net_output_bytes"]
    seen = await story.ledger.snapshot()
    after = (await story.redis.info("stats"))["total_net_output_bytes"]
    assert seen.records[STEP].result == "y" * 100_000
    assert after - before < MIB


# ---- pages


@pytest.mark.parametrize("text", [lines(3 * MIB), "€" * 100_000, "a" + "😀" * 50_000, ""])
def test_pages_join_to_the_whole(text: str) -> None:
    """Reading on from where each page ends shows every byte once, and no half character."""
    offset, seen = 0, ""
    while offset < len(text.encode()) or not text:
        heading, shown = page(text, "1.1", offset).split("\n", 1)
        assert len(shown.encode()) <= PAGE_BYTES
        seen += shown
        if heading.endswith("its end]"):
            break
        offset = offset_in(heading, "1.1")
    assert seen == text


def test_an_offset_inside_a_character_begins_with_it() -> None:
    """Whatever offset Claude makes up, it is answered with whole characters."""
    assert page("a€b", "1.1", 2).endswith("\n€b")
    assert page("a€b", "1.1", 99).endswith("; its end]\n")


# ---- the payload store

STORE, RETRIEVE = StorageDriverStoreContext(), StorageDriverRetrieveContext()


async def stored(store: PayloadStore, data: bytes = b"data") -> StorageDriverClaim:
    """Store a payload."""
    (claim,) = await store.store(STORE, [Payload(metadata={"a": b"1", "b": b"2"}, data=data)])
    return claim


def files(folder: Path) -> list[Path]:
    """List what is in a payload folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_payload_comes_back_as_it_was(tmp_path: Path) -> None:
    """The same content is one file, whoever stores it, and nothing else is left in the folder."""
    claims = [await stored(PayloadStore(tmp_path)) for _ in "ab"]
    (found,) = await PayloadStore(tmp_path).retrieve(RETRIEVE, [claims[0]])
    assert (found.data, dict(found.metadata)) == (b"data", {"a": b"1", "b": b"2"})
    assert claims[0] == claims[1]
    assert [path.name for path in files(tmp_path)] == [claims[0].claim_data["sha256"]]


async def test_a_command_puts_nothing_where_no_worker_may_look(tmp_path: Path) -> None:
    """A long prompt that is sent from another machine reaches the worker inline."""
    (sent,) = await data_converter(tmp_path / "a", stores=False).encode(["x" * MIB])
    assert sent.ByteSize() > MIB
    (kept,) = await data_converter(tmp_path / "a").encode(["x" * MIB])
    assert kept.ByteSize() < KIB
    assert await data_converter(tmp_path / "a", stores=False).decode([kept]) == ["x" * MIB]


async def test_a_missing_payload_names_the_folder_and_the_remedy(tmp_path: Path) -> None:
    """A worker that does not share the folder says so, instead of inventing a result."""
    claim = await stored(PayloadStore(tmp_path / "one"))
    with pytest.raises(PayloadError, match=r"two'.*must share one folder.*ONWARD_PAYLOAD_DIR"):
        await PayloadStore(tmp_path / "two").retrieve(RETRIEVE, [claim])
    with pytest.raises(PayloadError, match=r"expected a SHA-256"):
        await PayloadStore(tmp_path).retrieve(RETRIEVE, [StorageDriverClaim({"sha256": "../x"})])


async def test_a_damaged_payload_is_never_used(tmp_path: Path) -> None:
    """A torn or changed file is told; storing the same payload once more mends it."""
    store = PayloadStore(tmp_path)
    claim = await stored(store)
    files(tmp_path)[0].write_bytes(b"torn")
    with pytest.raises(PayloadError, match=r"is damaged"):
        await store.retrieve(RETRIEVE, [claim])
    assert await stored(store) == claim
    assert (await store.retrieve(RETRIEVE, [claim]))[0].data == b"data"
