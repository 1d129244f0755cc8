"""However a reply is cut into events, what is folded from them is the reply, and all of it."""

import json
import time
from collections.abc import Iterable
from typing import Any

import pytest
from awkward_streams import Event, delta, started, stopped, streams
from hypothesis import given, settings

from onward import json_text
from onward.stream import MessageFold, StreamBroken, UnknownDelta
from onward.testing.messages_api.literal_json import canonical, parse

START: Event = {
    "id": "msg_1",
    "model": "claude-test",
    "content": [],
    "stop_reason": None,
    "usage": {},
}
BEGUN: Event = {"type": "message_start", "message": START}
TEXT: Event = {"type": "text", "text": ""}
USE: Event = {"type": "tool_use", "id": "toolu_1", "name": "act", "input": {}}
FOR_TOOLS: Event = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
END: list[Event] = [
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]


def folded(stream: Iterable[Event | str]) -> MessageFold:
    """Fold a stream as it comes over the wire; events may be given as JSON text."""
    fold = MessageFold()
    for event in stream:
        fold.add(json_text.load_object(event if isinstance(event, str) else json.dumps(event)))
    return fold


def one_block(*told: Event | str) -> Any:
    """Fold a message of one block; returns that block, as JSON."""
    (block,) = folded([BEGUN, *told, stopped(), *END]).message["content"]
    return parse(json_text.dumps(block))


# ---- any message, cut in any way


@settings(max_examples=80, deadline=None)
@given(streams())
def test_any_stream_tells_its_message(drawn: tuple[Event, list[Event]]) -> None:
    """Every field, known or not, comes out as it is, wherever a server begins, cuts and ends it."""
    message, stream = drawn
    fold = folded(stream)
    assert canonical(parse(json_text.dumps(fold.message))) == canonical(message)
    assert fold.usage == message["usage"]


# ---- what a plain message does not hold


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a":1e400}',
        '{"a":-0,"b":1.50}',
        '{"z":1,"a":[1E5]}',
        f'{{"a":1{"0" * 5000}}}',
        '{"\\ud83d":1}',
    ],
)
def test_arguments_stay_as_claude_spelt_them(arguments: str) -> None:
    """Number literals, key order and escapes that Python would write otherwise."""
    pieces = (delta("input_json_delta", partial_json=letter) for letter in arguments)
    assert canonical(one_block(started(USE), *pieces)["input"], ordered=True) == canonical(
        parse(arguments), ordered=True
    )


def test_a_number_in_a_block_that_python_cannot_hold_is_kept() -> None:
    """Whatever a server's tool found goes back as it came."""
    block_text = '{"type":"hologram","cells":[1e400,1.50,-0]}'
    told = f'{{"type":"content_block_start","index":0,"content_block":{block_text}}}'
    assert canonical(one_block(told)) == canonical(parse(block_text))


@pytest.mark.parametrize("arguments", ['{"a": ', "[NaN]", "nonsense"])
def test_arguments_that_are_no_json_go_back_in_the_documented_wrapper(arguments: str) -> None:
    """The API takes them so, and Claude is told; the reply is not lost for it."""
    told = delta("input_json_delta", partial_json=arguments)
    assert one_block(started(USE), told)["input"] == {"INVALID_JSON": arguments}


def test_nothing_of_a_hint_for_people_gets_into_a_block() -> None:
    """A delta's other fields are about how far Claude is: the API would refuse them back."""
    thinking = {"type": "thinking", "thinking": "", "signature": "s"}
    hint = delta("thinking_delta", thinking="hm", estimated_tokens=50)
    assert one_block(started(thinking), hint) == {**thinking, "thinking": "hm"}


def test_a_null_in_a_delta_adds_nothing() -> None:
    """It takes nothing back either."""
    told = [delta("text_delta", text=text) for text in ("a", None, "b")]
    assert one_block(started({"type": "text", "text": None}), *told)["text"] == "ab"


def test_what_follows_the_end_of_a_message_is_no_part_of_it() -> None:
    """One reply per request: what a gateway adds after it changes nothing."""
    first = [BEGUN, started({"type": "text", "text": "one"}), stopped(), *END]
    fold = folded([*first, BEGUN, started({"type": "text", "text": "two"}), stopped(), *END])
    assert [each["text"] for each in fold.message["content"]] == ["one"]
    assert fold.whole


def test_a_message_that_begins_twice_is_the_second() -> None:
    """Before any block of it nothing is lost: a gateway that asked another server tells it so."""
    second: Event = {"type": "message_start", "message": {**START, "content": [TEXT]}}
    fold = folded([second, second, started(TEXT, 1), stopped(1), *END])
    assert fold.message["content"] == [TEXT, TEXT]


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        pytest.param([], "no message_start", id="nothing"),
        pytest.param([BEGUN, started(TEXT), BEGUN, *END], "second message", id="begun twice"),
        pytest.param([started(TEXT), *END], "before message_start", id="a block first"),
        pytest.param([BEGUN, started(TEXT, 1), *END], "expected 0", id="a block lost"),
        pytest.param([BEGUN, started(TEXT), started(TEXT), *END], "expected 1", id="a block twice"),
        pytest.param([BEGUN, delta("text_delta", text="x"), *END], "not open", id="no block"),
        pytest.param([END[0], *END], "before message_start", id="an end first"),
        pytest.param([BEGUN, END[0]], "before message_stop", id="cut"),
        pytest.param([BEGUN, END[1]], "no stop_reason", id="no reason"),
        pytest.param([BEGUN, started(USE), FOR_TOOLS, END[1]], "never closed", id="a call cut"),
    ],
)
def test_a_stream_that_is_not_whole_is_no_reply(stream: list[Event], said: str) -> None:
    """Nothing is guessed: what was lost on the way is asked for again."""
    with pytest.raises(StreamBroken, match=said):
        assert folded(stream).message


def test_a_byte_order_mark_makes_arguments_no_json() -> None:
    """Our parser skips it, whoever reads the reply does not: it was paid for ten times."""
    arguments = '\ufeff{"x":1}'
    told = delta("input_json_delta", partial_json=arguments)
    assert one_block(started(USE), told)["input"] == {"INVALID_JSON": arguments}


@pytest.mark.parametrize(
    "told",
    [
        [started(TEXT), delta("aurora_delta", light="x")],
        [started({**USE, "id": None})],
        [started({**USE, "name": None})],
        [started({"type": "hologram", "cells": json.loads("[" * 250 + "]" * 250)})],
        [started({**USE, "name": "half an emoji \ud83d"})],
        [started({**USE, "caller": "direct"})],
        [started({**TEXT, "text": 5})],
        [{**BEGUN, "message": {**START, "usage": [1]}}],
        [{**BEGUN, "message": {**START, "model": 5}}],
    ],
    ids=[
        *("unknown delta", "no id", "no name", "250 deep"),
        *("name", "caller", "text", "usage", "model"),
    ],
)
def test_what_cannot_be_kept_or_answered_is_refused(told: list[Event]) -> None:
    """At once, while the stream still runs: no more of the reply is paid for than that."""
    with pytest.raises(UnknownDelta):
        folded([BEGUN, *told])


def test_a_call_told_at_the_start_needs_an_id_of_its_own_too() -> None:
    """Two calls of one id could not be answered, wherever they stand."""
    begun = {"type": "message_start", "message": {**START, "content": [USE, USE]}}
    with pytest.raises(UnknownDelta, match="an id of its own"):
        folded([begun])


def test_a_long_reply_costs_no_more_per_piece_than_a_short_one() -> None:
    """128,000 tokens come in tens of thousands of pieces; each copy of the rest would be felt."""
    piece = delta("text_delta", text="x" * 20)

    def seconds(pieces: int) -> float:
        fold = folded([BEGUN, started(TEXT)])
        began = time.process_time()
        for _ in range(pieces):
            fold.add(piece)
            assert fold.usage == {}
        fold.add(stopped())
        return time.process_time() - began

    short = min(seconds(4000) for _ in range(3))
    assert seconds(40_000) < 30 * short
