"""Any message of Claude's, and a stream that tells it as awkwardly as a server may."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

Event = dict[str, Any]
CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")


def started(block: Event, index: int = 0) -> Event:
    """Make the event that begins a block."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(kind: str, index: int = 0, **fields: Any) -> Event:
    """Make an event that tells more of a block."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stopped(index: int = 0) -> Event:
    """Make the event that ends a block."""
    return {"type": "content_block_stop", "index": index}


# ---- messages


def objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw a JSON object."""
    return st.dictionaries(WORDS, values, max_size=3)


def block(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Event]:
    """Draw a block; some have a field that nobody knows."""
    known = {"type": st.just(kind), **fields}
    return st.fixed_dictionaries(known, optional={"hue": VALUES})


WORDS = st.text(max_size=12)
PLAIN = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | WORDS
VALUES = st.recursive(PLAIN, lambda each: st.lists(each, max_size=3) | objects(each), max_leaves=6)
BLOCKS = st.one_of(
    block("text", text=WORDS),
    block("text", text=WORDS, citations=st.none() | st.lists(objects(VALUES), max_size=3)),
    block("thinking", thinking=WORDS, signature=WORDS),
    block("redacted_thinking", data=WORDS),
    block("compaction", content=st.none() | WORDS, encrypted_content=st.none() | WORDS),
    block("web_search_tool_result", tool_use_id=WORDS, content=st.lists(objects(VALUES))),
    block("hologram", cells=VALUES, text=WORDS, thinking=WORDS, signature=WORDS),
    *(block(kind, name=WORDS, input=objects(VALUES)) for kind in CALLS),
)
USAGE = st.fixed_dictionaries(
    {"input_tokens": st.integers(0), "cache_creation": objects(PLAIN)},
    optional={"iterations": st.lists(objects(PLAIN), max_size=2), "speed": st.none() | WORDS},
)
MESSAGES = st.fixed_dictionaries(
    {"id": WORDS, "content": st.lists(BLOCKS, max_size=4), "usage": USAGE},
    optional={"container": objects(PLAIN), "stop_details": VALUES, "hue": VALUES},
)


# ---- streams


@st.composite
def streams(draw: st.DrawFn) -> tuple[Event, list[Event]]:
    """Draw a message and the events of a stream that tells it."""
    message: Event = {**draw(MESSAGES), "stop_reason": "end_turn"}
    for number, each in enumerate(message["content"]):
        if each["type"] in CALLS:
            each["id"] = f"call_{number}"
    at_once = draw(st.integers(0, len(message["content"])))
    begin, end = _ends(draw, message, at_once)
    blocks = enumerate(message["content"][at_once:], start=at_once)
    told = [_told(draw, each, index) for index, each in blocks]
    events = _with_noise(draw, [*_merged(draw, told), end])
    return message, [begin, *events, {"type": "message_stop"}]


def _ends(draw: st.DrawFn, message: Event, at_once: int) -> tuple[Event, Event]:
    """Make the first and the last event; of some fields only the last one tells the value."""
    late = _some(draw, message.keys() - {"content", "usage"})
    beside, usage = _some(draw, late - {"stop_reason"}), message["usage"]
    begin = {name: None if name in late else value for name, value in message.items()}
    begin["content"] = message["content"][:at_once]
    begin["usage"] = usage | dict.fromkeys(_some(draw, usage.keys()))
    end = {"delta": {name: message[name] for name in late - beside}, "usage": usage}
    told_beside = {name: message[name] for name in beside}
    return (
        {"type": "message_start", "message": begin},
        {"type": "message_delta", **end, **told_beside},
    )


def _some(draw: st.DrawFn, names: Any) -> set[str]:
    return {name for name in sorted(names) if draw(st.booleans())}


def _told(draw: st.DrawFn, whole: Event, index: int) -> list[Event]:
    """Make the events of a block; of each of its fields some part is told at its start."""
    begin = dict(whole)
    deltas = [
        *_words(draw, begin),
        *_signature(draw, begin),
        *_citations(draw, begin),
        *_arguments(draw, begin),
        *_summary(draw, begin),
    ]
    events = [delta(each.pop("type"), index, **each) for each in deltas]
    return [started(begin, index), *events, stopped(index)]


def _words(draw: st.DrawFn, begin: Event) -> Iterator[Event]:
    for field in ("text", "thinking"):
        if field in begin:
            begin[field], *pieces = draw(_pieces(begin[field]))
            yield from ({"type": f"{field}_delta", field: piece} for piece in pieces)


def _signature(draw: st.DrawFn, begin: Event) -> Iterator[Event]:
    if "signature" in begin and draw(st.booleans()):
        yield {"type": "signature_delta", "signature": begin["signature"]}
        begin["signature"] = ""


def _citations(draw: st.DrawFn, begin: Event) -> Iterator[Event]:
    if cited := begin.get("citations"):
        kept = draw(st.integers(0, len(cited) - 1))
        begin["citations"] = cited[:kept]
        yield from ({"type": "citations_delta", "citation": each} for each in cited[kept:])


def _arguments(draw: st.DrawFn, begin: Event) -> Iterator[Event]:
    if "input" not in begin:
        return
    text, pieces = json.dumps(begin["input"], indent=draw(st.none() | st.just(1))), [""]
    if draw(st.booleans()):
        begin["input"], pieces = {}, draw(_pieces(text))
    yield from ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)


def _summary(draw: st.DrawFn, begin: Event) -> Iterator[Event]:
    if begin["type"] == "compaction" and draw(st.booleans()):
        told = {name: begin.pop(name) for name in ("content", "encrypted_content")}
        yield {"type": "compaction_delta", **told}


def _pieces(text: str) -> st.SearchStrategy[list[str]]:
    """Cut a text anywhere; some pieces are empty."""

    def cut(at: list[int]) -> list[str]:
        ends = zip([0, *at], [*at, len(text)], strict=True)
        return [text[begin:end] for begin, end in ends]

    return st.lists(st.integers(0, len(text)), max_size=5).map(sorted).map(cut)


def _merged(draw: st.DrawFn, told: list[list[Event]]) -> Iterator[Event]:
    """Yield the events of all blocks: one may begin before the one before it has ended."""
    waiting, under_way = list(told), list[list[Event]]()
    while waiting or under_way:
        if waiting and (not under_way or draw(st.booleans())):
            under_way.append(waiting.pop(0))
            yield under_way[-1].pop(0)
            continue
        chosen = draw(st.sampled_from(under_way))
        yield chosen.pop(0)
        if not chosen:
            under_way.remove(chosen)


def _with_noise(draw: st.DrawFn, events: list[Event]) -> list[Event]:
    """Put in events that tell nothing."""
    noise: list[Event] = [{"type": "ping"}, {"type": "aurora", "index": 0, "delta": {"text": "x"}}]
    for at in draw(st.lists(st.integers(0, len(events)), max_size=3)):
        events.insert(at, draw(st.sampled_from(noise)))
    return events
