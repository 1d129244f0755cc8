"""Two sources, one story: however they meet, what is told of a reply is the reply (E04)."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import ABSENT, FILES, recordings

from onward import json_text
from onward.live.fragments import Fragment, fragment_of, fragments_of
from onward.live.happenings import Asked, Happening, Replied, Restarted, Wrote
from onward.live.stream import Entry, LiveAttempt
from onward.live.telling import Telling
from onward.messages import ClaudeReply, Head, Spend, Witness

pytestmark = pytest.mark.field("E04")

ASKED = Asked("run", "1")
WORDS = ("thinking", "It is 42, ", "or so")
"""Of the reply: a thought, and two blocks of text."""
PIECES = [
    Fragment(0, "thinking", "think"),
    Fragment(0, "thinking", "ing"),
    Fragment(1, "text", "It is "),
    Fragment(1, "text", "42, "),
    Fragment(2, "text", "or so"),
]
OTHERS = [Fragment(0, "text", "It was the "), Fragment(0, "text", "nightingale")]


def replied() -> Replied:
    thought, *texts = WORDS
    blocks: list[dict[str, str]] = [{"type": "thinking", "thinking": thought, "signature": "s"}]
    blocks += [{"type": "text", "text": text} for text in texts]
    reply = ClaudeReply(
        message=json.dumps({"content": blocks}),
        stop_reason="end_turn",
        head=Head(step="1", digest="d"),
        prev="0",
        witness=Witness(nonce="n", inc="i", run_id="r"),
    )
    return Replied("1", reply, Spend())


def entries(token: str, pieces: Sequence[Fragment]) -> list[Entry]:
    """What an attempt writes, each piece at once."""
    begins = LiveAttempt("run", "1", token)
    return [
        Entry(f"{number}", token, (each,), None if number else begins)
        for number, each in enumerate(pieces)
    ]


def stands(told: Sequence[Happening]) -> list[str]:
    """What stands there of the reply in the end, block by block."""
    blocks: dict[int, str] = {}
    for each in told:
        if isinstance(each, Restarted):
            blocks.clear()
        elif isinstance(each, Wrote):
            index = each.fragment.block
            blocks[index] = blocks.get(index, "") + each.fragment.text
    return list(blocks.values())


@given(
    dead=st.integers(0, len(OTHERS)),
    written=st.integers(0, len(PIECES)),
    asked_at=st.integers(0, 10),
    replied_at=st.integers(0, 10),
    echo=st.booleans(),
)
def test_what_is_told_of_a_reply_is_the_reply(
    dead: int, written: int, asked_at: int, replied_at: int, *, echo: bool
) -> None:
    """Whenever history speaks, whatever attempts died before and write on: once, to the letter."""
    live = [*entries("dead", OTHERS[:dead]), *entries("living", PIECES[:written])]
    if echo and dead:
        live.append(Entry("late", "dead", (Fragment(0, "text", "boo"),)))
    asked_at = min(asked_at, len(live))
    telling, told = Telling(), list[Happening]()
    for number, entry in enumerate([*live, None]):
        if number == asked_at:
            told += telling.durable(ASKED)
        if number == max(asked_at, min(replied_at, len(live))):
            told += telling.durable(replied())
        if entry:
            told += telling.live(entry)
    assert stands(told) == list(WORDS)
    assert [type(each) for each in told if isinstance(each, Asked | Replied)] == [Asked, Replied]
    assert sum(isinstance(each, Restarted) for each in told) <= 1


@pytest.mark.cassettes
@pytest.mark.skipif(not FILES, reason=ABSENT)
def test_what_is_seen_of_recorded_streams_is_what_was_said() -> None:
    """Words and thoughts of every recorded stream, as they are shown, are those of its message."""
    for recording in recordings():
        if "sse" not in recording.response:
            continue
        lines = recording.response["sse"].splitlines()
        events = [json_text.load_object(line[5:]) for line in lines if line.startswith("data:")]
        seen = [piece for event in events if (piece := fragment_of(event))]
        whole = [each for each in fragments_of(recording.truth["content"]) if each.text]
        for what in ("text", "thinking"):
            assert _said(seen, what) == _said(whole, what), recording.name


def _said(pieces: Sequence[Fragment], what: str) -> str:
    return "".join(each.text for each in pieces if each.what == what)
