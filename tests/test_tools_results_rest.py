"""More than Claude is shown: what is left out of a result can be read on from where it begins."""

import json
import re
from typing import Any

import pytest
from tool_contents import IMAGE

from onward.tools import error_content, show, to_content
from onward.tools.results import MAX_BLOCKS, MAX_TEXT_BYTES, MAX_WHOLE_BYTES, renamed


def head_of(content: str, call: str) -> tuple[str, int]:
    """Return what a content shows before its note, and the offset that the note gives."""
    head, found = content.split("\n[", 1)
    way = re.search(
        rf'left out here; read_result\(call="{call}", offset=(\d+)\) shows them\]', found
    )
    assert way, found[:200]
    return head, int(way[1])


@pytest.mark.parametrize("value", ["ä€😀" * 100_000, b"ab" * 100_000, list(range(100_000))])
def test_what_is_left_out_can_be_read_from_where_it_begins(value: object) -> None:
    """The note's offset counts bytes of the whole text, and what is shown before it ends there."""
    shown = show(value, "12.1")
    content = json.loads(shown.content)
    head, offset = head_of(content, "12.1")
    assert shown.whole.encode()[:offset].decode() == head
    assert shown.whole.endswith(content[-1000:])
    assert len(content.encode()) <= MAX_TEXT_BYTES


def test_the_whole_of_a_structure_is_its_json() -> None:
    """Reading on, Claude gets every row, not an excerpt of them."""
    rows = [{"id": number, "name": f"row {number}"} for number in range(50_000)]
    assert json.loads(show(rows, "1.1").whole) == rows


def test_blocks_are_shown_in_order_up_to_where_the_rest_begins() -> None:
    """Images stay beside their text, and the texts of all blocks can be read on as one."""
    texts = [f"{number} " + "é" * 10_000 for number in range(200)]
    blocks: list[Any] = [IMAGE, *({"type": "text", "text": text} for text in texts), IMAGE]
    shown = show(blocks, "1.r1.2")
    made = json.loads(shown.content)
    assert made[:2] == [IMAGE, {"type": "text", "text": texts[0]}]
    _, offset = head_of(f"\n{made[-1]['text']}", "1.r1.2")
    said = "\n".join(block["text"] for block in made[1:-1])
    assert shown.whole.encode()[:offset].decode() == said
    assert shown.whole.startswith("\n".join(texts))


def test_many_short_blocks_are_cut_between_two() -> None:
    """The API takes a bounded number of blocks; what is after them can be read."""
    shown = show([{"type": "text", "text": str(number)} for number in range(5_000)], "1.1")
    made = json.loads(shown.content)
    _, offset = head_of(f"\n{made[-1]['text']}", "1.1")
    assert [block["text"] for block in made[:-1]] == [str(number) for number in range(MAX_BLOCKS)]
    assert shown.whole[offset:].split("\n") == [str(n) for n in range(MAX_BLOCKS, 5_000)]


def test_what_is_shown_whole_is_not_kept_twice() -> None:
    """A result that fits has no rest, and an error or a person's note promises none."""
    assert not show("x" * MAX_TEXT_BYTES, "1.1").whole
    assert not show([{"type": "text", "text": "a"}, IMAGE], "1.1").whole
    assert "read_result" not in to_content("x" * 100_000)
    assert "read_result" not in error_content(ValueError("x" * 100_000))


@pytest.mark.parametrize(
    "value",
    ["x" * 50_000_000, b"x" * 50_000_000, [{"type": "text", "text": "x" * 1_000_000}] * 50],
    ids=["text", "bytes", "blocks"],
)
def test_a_whole_text_is_bounded_too(value: object) -> None:
    """No result fills a worker's memory; where the middle of it is gone, that is said."""
    whole = show(value, "1.1").whole
    assert len(whole.encode()) <= MAX_WHOLE_BYTES
    assert "left out" in whole
    assert "read_result" not in whole


def test_a_copied_result_names_the_call_that_has_its_rest_here() -> None:
    """In another run the first call's id is that of another call, or of none."""
    content = show("x" * 100_000, "3.1").content
    assert renamed(content, "3.1", "1.2") == show("x" * 100_000, "1.2").content
