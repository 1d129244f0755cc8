"""A worker keeps the conversations that it sent last, and never more than it may."""

import pytest
from agent_runs import Bench, app_of, says, uses

from activities.transcripts import Transcripts
from onward import tool
from onward.messages import Head
from onward.transcript import Conversation, Turn, beginning

START = beginning("{}")


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


def conversation(size: int) -> Conversation:
    """Make a conversation of about `size` bytes."""
    turn = Turn(content=f'[{{"type":"text","text":"{"x" * size}"}}]')
    return Conversation(START, START).after("1", turn, '{"content":[]}')


def test_a_conversation_is_found_by_its_run_and_head_alone() -> None:
    """Another branch of the run, or a step that this worker did not see, finds nothing."""
    kept, cache = conversation(10), Transcripts()
    cache.keep("run", kept)
    assert cache.find("run", kept.head) is kept
    assert cache.find("run", Head(step="1", digest="another")) is None
    assert cache.find("another", kept.head) is None


def test_what_was_not_used_longest_makes_room() -> None:
    """However many runs a worker has, it keeps no more than its bound."""
    kept = conversation(100)
    cache = Transcripts(max_bytes=3 * kept.size_bytes)
    for run in "abc":
        cache.keep(run, kept)
    cache.find("a", kept.head)
    cache.keep("d", kept)
    assert [run for run in "abcd" if cache.find(run, kept.head)] == ["a", "c", "d"]
    assert cache.size_bytes == 3 * kept.size_bytes


def test_a_run_has_one_place_that_moves_on() -> None:
    """A step's longer conversation takes the place of the one before, and is counted once."""
    cache = Transcripts()
    cache.keep("run", conversation(10))
    longer = conversation(1000)
    cache.keep("run", longer)
    assert cache.size_bytes == longer.size_bytes


def test_an_ended_run_makes_room_at_once() -> None:
    """What no step will ask for again must not fill the memory until its turn comes."""
    kept, cache = conversation(10), Transcripts()
    cache.keep("run", kept)
    cache.drop("run")
    cache.drop("run")  # `end` may run twice
    assert (cache.find("run", kept.head), cache.size_bytes) == (None, 0)


async def test_a_worker_keeps_nothing_of_a_run_that_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that a run took is there for the next: a worker lives longer than its runs."""
    kept = list[tuple[Transcripts, int]]()
    keep = Transcripts.keep

    def noted(self: Transcripts, run: str, conversation: Conversation) -> None:
        keep(self, run, conversation)
        kept.append((self, self.size_bytes))

    monkeypatch.setattr(Transcripts, "keep", noted)
    await bench.run(app_of(look), uses(("look", {})), says())
    cache, most = kept[-1]
    assert (most > 0, cache.size_bytes) == (True, 0)


def test_what_is_larger_than_the_bound_is_not_kept() -> None:
    """One endless conversation does not fill the memory, nor keep the cache empty for ever."""
    cache = Transcripts(max_bytes=500)
    cache.keep("long", conversation(1000))
    short = conversation(10)
    cache.keep("short", short)
    assert cache.find("short", short.head) is short
    assert cache.size_bytes == short.size_bytes
