"""The Lua script and a model of it, side by side: same operations, same answers, same records.

On the embedded Valkey, and on a Redis 7 of the machine. A failure prints its seed and the
operations that led to it; `LEDGER_SEED` runs one seed alone.
"""

import os
from collections import Counter
from collections.abc import AsyncGenerator, Iterable

import pytest
import pytest_asyncio
from ledger_pair import OPS_IN_A_SEQUENCE, Diverged, Pair
from ledger_story import Story, connected
from redis_kinds import KINDS, binary_of

import onward.ledger
from onward.local_services import RedisServer
from onward.local_services.data_dir import held_folder

SEQUENCES = 500
ONE_SEED = os.environ.get("LEDGER_SEED")


class QuickServer(RedisServer):
    """Leaves its writes with the kernel, where a kill does not reach them."""

    def _command(self) -> list[str]:
        return [*super()._command(), "--appendfsync", "no"]


@pytest_asyncio.fixture(params=KINDS, scope="module", loop_scope="session")
async def server(request: pytest.FixtureRequest) -> AsyncGenerator[RedisServer]:
    """Run a server of each kind that a user may have."""
    with held_folder(None, "redis") as folder:
        server = QuickServer(folder, binary_of(request.param))
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


async def _sequences(server: RedisServer, seeds: Iterable[int]) -> Counter[str]:
    seen: Counter[str] = Counter()
    async with connected(server.url) as redis:
        for seed in seeds:
            story = Story(redis)
            await story.begin()
            pair = Pair(story, server, seed)
            await pair.run()
            seen += pair.seen
            await story.wipe()
    return seen


@pytest.mark.timeout(180)
async def test_the_script_does_what_the_table_says(server: RedisServer) -> None:
    """20,000 random operations, faults among them: same answers and records as the model."""
    assert SEQUENCES * OPS_IN_A_SEQUENCE >= 20_000
    seen = await _sequences(server, [int(ONE_SEED)] if ONE_SEED else range(SEQUENCES))
    if not ONE_SEED:
        # The walk must not miss a corner: all of these together are the table.
        assert len(seen) > 250, sorted(seen)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_the_script_does_what_the_table_says_for_long(server: RedisServer) -> None:
    """The same, 150,000 operations."""
    await _sequences(server, range(SEQUENCES, SEQUENCES + 150_000 // OPS_IN_A_SEQUENCE))


MUTANTS = {
    "absent is taken for never sent": ("if not lost and trusted(ds)", "if not lost"),
    "trust without the nonce": ("ds == given.nonce\n", "ds ~= ''\n"),
    "trust without the incarnation": ("given.strict == '1' or ", "true or "),
    "at_most_once is taken over": ("return doubt(rec, 'owner_lost')", "return take(rec, 1)"),
    "a living claim is taken over": ("if rec.exp > now then", "if false then"),
    "a takeover forgets the earlier request": ("return take(rec, 1)", "return take(rec, 0)"),
    "a claim forgets an open step's request": ("take(rec, rec.ms)", "take(rec, 0)"),
    "no owner check in complete": ("if busy and rec.own ~= given.token", "if false"),
    "no owner check in renew": (
        "rec.st == 'claimed' and rec.own == given.token) then",
        "true) then",
    ),
    "no owner check in release": ("if not rec or rec.own ~= given.token", "if not rec"),
    "no owner check in fail": ("own = rec and rec.own == given.token and", "own = rec and"),
    "no fence check in fail": (" and rec.fence == tonumber(given.fence)", ""),
    "the last result wins": ("function ops.complete(rec)", "function ops.complete(rec) rec = nil"),
    "refused is failed although an earlier request may land": (
        "if not late and rec.ms == 1",
        "if false",
    ),
    "a repeated fail takes a doubt back": ("and rec.ms == 0 and not", "and not"),
    "no late truth": ("(rec.st == 'claimed' or rec.st == 'open')\n", "rec.st ~= 'done'\n"),
    "release forgets maybe": ("if given.maybe == '1' then", "if false then"),
    "release always counts": ("if given.count == '0'", "if false"),
    "a second release counts again": (
        "if rec.st == 'open' then return answer('open', rec) end   --",
        "--",
    ),
    "no fingerprint check": (
        "if rec and op ~= 'restore' and op ~= 'resolve' and rec.fp ~= given.fp",
        "if false",
    ),
    "restore hides a late truth": ("if given.st == 'doubt' and settled(same)", "if false"),
    "a doubt yields to another request's done": (
        "settled(same) then return { 'verdict', same.st }",
        "settled(rec) then return { 'verdict', rec.st }",
    ),
    "a missing nonce is no gap": ("if given.needs_ds == '1' and not ds", "if false"),
    "begin under lineage makes a nonce": ("if given.lineage == '1' then", "if false then"),
    "begin makes a second nonce": ("if not ds then ds =", "if true then ds ="),
    "a reply leaves its turn out": (
        "save(new, turn_field())\n  return answer('done'",
        "save(new)\n  return answer('done'",
    ),
    "a later claim freezes another turn": (
        "redis.call('HEXISTS', hash, 'turn:' .. given.step) == 1",
        "false",
    ),
    "timed guesses on a lossy server": ("given.cls == 'timed' and given.strict ~= '1'", "false"),
    "timed never goes on after a loss": ("given.cls == 'timed' and given.strict ~= '1'", "true"),
    "sealed may not send again": (", sealed = true, timed", ", timed"),
    "transactional may not send again": ("transactional = true, ", ""),
    "a refusal behind a seal proves nothing": ("{ read = true, sealed = true }", "{ read = true }"),
    "a refusal of a keyed request is proof": ("{ read = true, sealed", "{ keyed = true, sealed"),
    "an unknown class may send again": ("return classes[given.cls] and", "return true and"),
    "the record's class does not count": ("(not rec or classes[rec.cls])", "true"),
    "resolve of another doubt": ("if rec.at ~= tonumber(given.at) then", "if false then"),
    "no quarantine": ("if given.to ~= 'done' and wait_ms > 0 then", "if false then"),
    "quarantine of what happened": ("if given.to ~= 'done' and wait_ms", "if wait_ms"),
    "resolve of another request": ("rec.fp ~= given.fp or rec.st == 'claimed'", "false"),
    "resolve of a claim": ("or rec.st == 'claimed' or result_lost", "or result_lost"),
    "resolve of what has ended": (
        "if rec.st ~= 'doubt' then return answer(rec.st, rec) end\n  if",
        "if rec.st == 'open' then return answer(rec.st, rec) end\n  if",
    ),
    "a retry forgets the earlier request": ("new.n, new.ms = 0, 1", "new.n, new.ms = 0, 0"),
    "a retry is not counted anew": ("new.n, new.ms = 0, 1", "new.ms = 1"),
    "history renames its doubt": ("new.at = tonumber(given.at) or new.at", ""),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("server", ["valkey"], indirect=True)
@pytest.mark.parametrize("name", MUTANTS)
async def test_a_broken_script_is_caught(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The comparison can see: each broken rule shows within the walks of the test above."""
    before, after = MUTANTS[name]
    script: str = vars(onward.ledger)["_SCRIPT"]
    assert before in script, "the mutant no longer fits the script"
    monkeypatch.setattr("onward.ledger._SCRIPT", script.replace(before, after))
    with pytest.raises(Diverged):
        await _sequences(server, range(SEQUENCES))
