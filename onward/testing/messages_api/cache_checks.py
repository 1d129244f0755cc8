"""What the API refuses of `cache_control`: too many marks, wrong order, wrong places."""

from collections.abc import Iterator

from onward.testing.messages_api.literal_json import Object, is_array, is_object
from onward.testing.messages_api.prefix_cache import LIFETIMES_S
from onward.testing.messages_api.prompt import head_blocks
from onward.testing.messages_api.refusals import Violation
from onward.testing.messages_api.shapes import MAX_BREAKPOINTS
from onward.testing.messages_api.turns import blocks_of, messages_of


def mark_violations(body: Object) -> Iterator[Violation]:
    """Yield what is wrong with the marks of a request."""
    marked = [block for block in _markable(body) if block.get("cache_control")]
    if len(marked) > MAX_BREAKPOINTS:
        yield Violation(
            "breakpoints",
            f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. "
            f"Found {len(marked)}.",
        )
    for block in marked:
        yield from _mark(block, block["cache_control"])
    lifetimes = [_lifetime(block) for block in marked]
    if "5m" in lifetimes and "1h" in lifetimes[lifetimes.index("5m") :]:
        yield Violation(
            "breakpoint_order",
            "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
            "cache_control block. Note that blocks are processed in the following order: `tools`, "
            "`system`, `messages`.",
        )


def _markable(body: Object) -> Iterator[Object]:
    """Yield all that may hold a mark, in the order in which they count; the body is the end."""
    yield from (block for _, block in head_blocks(body))
    for message in messages_of(body):
        for block in blocks_of(message):
            content: object = block.get("content")
            yield from (each for each in content if is_object(each)) if is_array(content) else ()
            yield block
    yield body


def _mark(block: Object, mark: object) -> Iterator[Violation]:
    if not is_object(mark) or mark.get("type") != "ephemeral":
        yield Violation("breakpoint", "cache_control.type: Input should be 'ephemeral'")
    elif _lifetime(block) not in LIFETIMES_S:
        yield Violation("breakpoint", "cache_control.ttl: Input should be '5m' or '1h'")
    if block.get("defer_loading"):
        yield Violation(
            "breakpoint",
            f"Tool {block.get('name')!r} cannot have both defer_loading=true and cache_control "
            "set. Tools with defer_loading cannot use prompt caching.",
        )


def _lifetime(block: Object) -> object:
    mark = block["cache_control"]
    return (mark.get("ttl") or "5m") if is_object(mark) else mark
