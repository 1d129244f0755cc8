"""The scripted server's prompt cache: each of its documented rules, and what it refuses."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from onward.testing.messages_api import Fault, Script, ScriptedAPI, Step
from onward.testing.messages_api.prefix_cache import minimum_tokens

MODEL = "claude-sonnet-5-5"
MARK, AN_HOUR = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
LONG = "word " * 1000
"""1,250 tokens: as long as this model needs, and twice as long."""
SAYS = Step(content=[{"type": "text", "text": "Yes."}])


@dataclass
class Clock:
    """Seconds that a test moves."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Cached:
    """A server, its clock, and requests to it."""

    api: ScriptedAPI
    clock: Clock

    async def post(
        self, content: list[dict[str, Any]], *, key: str = "any", **fields: Any
    ) -> httpx2.Response:
        """Ask with one user message."""
        messages = [{"role": "user", "content": content}]
        body = {"model": MODEL, "max_tokens": 10, "messages": messages, **fields}
        headers = {"x-api-key": key, "anthropic-version": "2026-10-21"}
        async with httpx2.AsyncClient() as http:
            return await http.post(f"{self.api.url}/v1/messages", json=body, headers=headers)

    async def tokens(self, *content: dict[str, Any], **fields: Any) -> tuple[int, int, int]:
        """Ask, and return what was read, written and neither."""
        usage = (await self.post([*content], **fields)).json()["usage"]
        names = ("cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens")
        read, written, rest = (usage[name] for name in names)
        assert sum(usage["cache_creation"].values()) == written
        return read, written, rest


@pytest_asyncio.fixture
async def cached() -> AsyncGenerator[Cached]:
    clock = Clock()
    async with ScriptedAPI({"default": Script(default=SAYS)}, clock=clock) as api:
        yield Cached(api, clock)


def text(words: str, mark: dict[str, str] | None = None) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": words}
    return {**block, "cache_control": mark} if mark else block


# ---- what is written and read


async def test_a_marked_prefix_is_written_once_and_read_by_others(cached: Cached) -> None:
    """Only what is after the mark is paid in full, and every token is counted exactly once."""
    read, written, rest = await cached.tokens(text(LONG, MARK), text("One."))
    assert (read, written > 1250, 0 < rest < 20) == (0, True, True)
    assert await cached.tokens(text(LONG, MARK), text("Two.")) == (written, 0, rest)


async def test_nothing_is_cached_without_a_mark(cached: Cached) -> None:
    """A client that forgets its marks pays everything each time."""
    for _ in range(2):
        read, written, rest = await cached.tokens(text(LONG))
        assert (read, written, rest > 1250) == (0, 0, True)


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-opus-5-5", 512),
        ("claude-haiku-5-5", 512),
        ("claude-fable-5-2", 512),
        ("claude-sonnet-5", 1024),
        ("claude-opus-4-8", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-opus-4-6", 4096),
        ("claude-haiku-4-5-20251001", 4096),
    ],
)
async def test_a_short_prefix_is_not_cached(cached: Cached, model: str, tokens: int) -> None:
    """Each model has its documented minimum; a mark below it does nothing, without an error."""
    assert minimum_tokens(model) == tokens
    for length, is_cached in ((tokens - 40, False), (tokens, True)):
        _, written, rest = await cached.tokens(text("x" * 4 * length, MARK), model=model)
        assert (written > 0, rest > 0) == (is_cached, not is_cached)


async def test_a_longer_prefix_is_found_from_where_it_grew(cached: Cached) -> None:
    """An append-only conversation reads all of the request before, and writes only what is new."""
    blocks, before = list[dict[str, Any]](), 0
    for number in range(3):
        new = f"{number} {LONG}"
        read, written, rest = await cached.tokens(*blocks, text(new, MARK))
        assert (read, rest) == (before, 0)
        before, blocks = read + written, [*blocks, text(new)]


@pytest.mark.parametrize(("between", "found"), [(19, True), (20, False)])
async def test_a_mark_looks_back_over_twenty_blocks(
    cached: Cached, between: int, *, found: bool
) -> None:
    """The marked block is the first of them; an entry that is one block further is missed."""
    _, written, _ = await cached.tokens(text(LONG, MARK))
    small = [text(f"Block {n}.") for n in range(between)]
    small[-1] |= {"cache_control": MARK}
    read, _, _ = await cached.tokens(text(LONG), *small)
    assert read == (written if found else 0)


async def test_a_second_mark_finds_what_the_first_is_too_far_from(cached: Cached) -> None:
    """A mark where the last entry was written looks back from there."""
    _, written, _ = await cached.tokens(text(LONG, MARK))
    small = [text(f"Block {n}.") for n in range(40)]
    small[-1] |= {"cache_control": MARK}
    read, _, rest = await cached.tokens(text(LONG, MARK), *small)
    assert (read, rest) == (written, 0)


# ---- what starts over


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "claude-opus-5-5"},
        {"thinking": {"type": "adaptive"}},
        {"output_config": {"effort": "low"}},
        {"speed": "fast"},
        {"system": "Another one."},
        {"tools": [{"name": "look", "input_schema": {"type": "object"}}]},
        {"tool_choice": {"type": "none"}},
        {"key": "another"},
    ],
)
async def test_another_beginning_shares_nothing(cached: Cached, fields: dict[str, Any]) -> None:
    """Entries belong to a key and a model, and are of all that comes before the mark."""
    await cached.tokens(text(LONG, MARK))
    read, written, _ = await cached.tokens(text(LONG, MARK), **fields)
    assert (read, written > 0) == (0, True)


async def test_a_changed_block_keeps_what_is_before_it(cached: Cached) -> None:
    """Tools and system prompt are read again where only the messages differ."""
    fields = {
        "system": [text(LONG, MARK)],
        "tools": [{"name": "look", "input_schema": {"type": "object"}}],
    }
    _, written, _ = await cached.tokens(text("One."), **fields)
    read, _, _ = await cached.tokens(text("Two."), **fields, tool_choice={"type": "any"})
    assert read == written > 0


async def test_a_system_prompt_as_text_is_the_same_prefix_as_its_block(cached: Cached) -> None:
    """So a mark can be put on a prompt that was given as a string."""
    _, written, _ = await cached.tokens(text("One.", MARK), system=LONG)
    read, _, _ = await cached.tokens(text("One.", MARK), system=[text(LONG)])
    assert read == written > 0


# ---- lifetimes


@pytest.mark.parametrize(("mark", "lives_s"), [(MARK, 300), (AN_HOUR, 3600)])
async def test_an_entry_lives_on_with_each_use(
    cached: Cached, mark: dict[str, str], lives_s: int
) -> None:
    """Five minutes or an hour after it was last read, not after it was written."""
    _, written, _ = await cached.tokens(text(LONG, mark))
    for _ in range(3):
        cached.clock.now_s += lives_s - 1
        assert await cached.tokens(text(LONG, mark)) == (written, 0, 0)
    cached.clock.now_s += lives_s + 1
    assert await cached.tokens(text(LONG, mark)) == (0, written, 0)


async def test_another_lifetime_finds_what_is_there_and_writes_the_rest(cached: Cached) -> None:
    """A run that turns to longer waits loses nothing, and pays for an hour from then on."""
    _, written, _ = await cached.tokens(text(LONG, MARK))
    reply = await cached.post([text(LONG, AN_HOUR), text(LONG, AN_HOUR)])
    usage = reply.json()["usage"]
    assert usage["cache_read_input_tokens"] == written
    assert usage["cache_creation"]["ephemeral_1h_input_tokens"] > 1000
    assert usage["cache_creation"]["ephemeral_5m_input_tokens"] == 0


async def test_both_lifetimes_are_counted_apart(cached: Cached) -> None:
    """An hour up to the last mark for an hour, five minutes from there."""
    content = [text(LONG, AN_HOUR), text(LONG + LONG, MARK), text("End.")]
    written = (await cached.post(content)).json()["usage"]["cache_creation"]
    assert 1200 < written["ephemeral_1h_input_tokens"] < 1300
    assert 2400 < written["ephemeral_5m_input_tokens"] < 2600


async def test_a_refused_request_writes_nothing(cached: Cached) -> None:
    """The cache is written when a reply begins: neither an overload nor a 429 fills it."""
    step = SAYS.model_copy(update={"faults": [Fault(status=529), Fault(cut=True)]})
    cached.api.scripts["default"] = Script(default=step)
    assert (await cached.post([text(LONG, MARK)])).status_code == 529
    with pytest.raises(httpx2.TransportError):
        await cached.post([text(LONG, MARK)])
    read, written, _ = await cached.tokens(text(LONG, MARK))
    assert (read > 1200, written) == (True, 0)


async def test_a_repeat_says_the_same_for_another_price(cached: Cached) -> None:
    """Only `usage` tells a repeated request from the first one."""
    first, second = [(await cached.post([text(LONG, MARK)])).json() for _ in range(2)]
    assert first.pop("usage") != second.pop("usage")
    assert first == second


# ---- what is refused


@pytest.mark.parametrize(
    ("content", "fields", "said"),
    [
        ([text("a", MARK)] * 5, {}, "A maximum of 4 blocks with cache_control may be provided"),
        ([text("a", MARK)] * 4, {"cache_control": MARK}, "Found 5"),
        ([text("a", MARK), text("b", AN_HOUR)], {}, "must not come after a ttl='5m'"),
        ([text("a", AN_HOUR)], {"system": [text("s", MARK)]}, "must not come after"),
        ([text("a", {"type": "ephemeral", "ttl": "2h"})], {}, "should be '5m' or '1h'"),
        ([text("a", {"type": "lasting"})], {}, "should be 'ephemeral'"),
        (
            [text("a")],
            {
                "tools": [
                    {"name": "look", "input_schema": {"type": "object"}},
                    {
                        "name": "seldom",
                        "input_schema": {"type": "object"},
                        "defer_loading": True,
                        "cache_control": MARK,
                    },
                ]
            },
            "cannot have both defer_loading=true and cache_control",
        ),
    ],
)
async def test_marks_that_the_api_refuses(
    cached: Cached, content: list[dict[str, Any]], fields: dict[str, Any], said: str
) -> None:
    """A fifth mark, an hour after five minutes, or a mark where none may be: a 400."""
    reply = await cached.post(content, **fields)
    assert (reply.status_code, said in reply.json()["error"]["message"]) == (400, True)
