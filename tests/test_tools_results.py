"""Whatever a tool returns or raises, Claude gets a well-formed, bounded, stable result."""

import base64
import dataclasses
import datetime as dt
import enum
import json
import re
import subprocess
import sys
import uuid
from collections import OrderedDict, deque
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward import NotSent, Rejected
from onward.tools import error_content, show, to_content
from onward.tools.results import (
    MAX_BLOCKS,
    MAX_ERROR_BYTES,
    MAX_IMAGES_BYTES,
    MAX_TEXT_BYTES,
    MAX_WHOLE_BYTES,
    bound,
    renamed,
)

PNG = base64.b64encode(b"\x89PNG" + bytes(20)).decode()
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


class Money(pydantic.BaseModel):
    amount: Decimal
    at: dt.datetime


@dataclasses.dataclass
class Point:
    x: float
    tags: set[str]


class Color(enum.Enum):
    RED = "red"


class Plain:
    pass


class Hostile:
    """Everything one can ask it fails, and not even with an Exception."""

    def __repr__(self) -> str:
        raise SystemExit(1)

    def __getattr__(self, name: str) -> object:
        raise KeyboardInterrupt

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError


class Pair(NamedTuple):
    left: int
    right: Color


def text(value: object) -> str:
    """Return the content's text, where it must be text."""
    content = json.loads(to_content(value))
    assert isinstance(content, str)
    return content


def inner(value: object) -> Any:
    """Return the JSON value in the content's text."""
    return json.loads(text(value))


def well_formed(content: str) -> None:
    """Assert what the API and every encoder on the way ask of a tool result's content."""
    value = json.loads(content, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    content.encode()
    assert "\\u0000" not in content
    assert "\\ud8" not in content
    if isinstance(value, str):
        assert value.strip()
        return
    assert value
    for block in value:
        assert block["type"] in {"text", "image"}
        assert block["type"] == "image" or block["text"].strip()


@pytest.mark.field("A07")
@pytest.mark.parametrize("value", [None, "", [], b"", "  \n", [{"type": "text", "text": ""}]])
def test_nothing_becomes_a_placeholder(value: object) -> None:
    """The API refuses an empty result, after the effect has happened."""
    assert text(value).startswith("(The tool returned ")


@pytest.mark.field("A07")
@pytest.mark.parametrize("error", [ValueError(), ValueError(""), ValueError("  "), KeyError()])
def test_error_without_a_message_is_told_by_its_type(error: Exception) -> None:
    """An error result is never empty."""
    assert json.loads(error_content(error)) == f"{type(error).__name__} (no message)"


@pytest.mark.parametrize("value", ["plain", "ünïcode 🎉", '{"a": 1}', "line\nline\t\x1b[0m", " x "])
def test_string_stays_as_it_is(value: str) -> None:
    """Text is not re-encoded, quoted or trimmed."""
    assert text(value) == value


@pytest.mark.field("A21")
def test_lone_surrogates_and_nul_are_replaced() -> None:
    """No encoder on the way to Claude, to Redis or into history can break on them."""
    assert text("ok \ud83d") == "ok \ufffd"
    assert text(b"caf\xe9".decode("utf-8", "surrogateescape")) == "caf\ufffd"
    assert text("a\x00b") == "a\ufffdb"
    assert text("\ud83d\ude00") == "😀"
    assert inner({"k\ud800": ["\udfff\x00", {"\x00": 1}]}) == {
        "k\ufffd": ["\ufffd\ufffd", {"\ufffd": 1}]
    }


@pytest.mark.field("D14")
def test_values_that_no_json_holds_are_told_in_a_safe_form() -> None:
    """A set, bytes and NaN after an effect do not make the effect happen twice."""
    assert inner({"ids": {2, 1}, "raw": b"\xff", "x": float("nan")}) == {
        "ids": [1, 2],
        "raw": "[binary data, 1 bytes, sha256 a8100ae6aa1940d0…]",
        "x": "NaN",
    }


@pytest.mark.field("C23")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("0.10"), "0.10"),
        (2**60, 2**60),
        (float("-inf"), "-Infinity"),
        (1.5, 1.5),
        (True, True),
        (bytearray(b"a"), "a"),
        (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), "2026-01-02T00:00:00Z"),
        (dt.timedelta(minutes=2), "PT2M"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("a/b"), "a/b"),
        (Color.RED, "red"),
        (Point(1.0, {"b", "a"}), {"x": 1.0, "tags": ["a", "b"]}),
        (Pair(1, Color.RED), {"left": 1, "right": "red"}),
        (
            Money(amount=Decimal("0.10"), at=dt.datetime(2026, 1, 2, tzinfo=dt.UTC)),
            {"amount": "0.10", "at": "2026-01-02T00:00:00Z"},
        ),
        (OrderedDict({"b": 1, "a": 2}), {"b": 1, "a": 2}),
        ({1: "int", "1": "str", None: 0, (1, 2): 3}, None),
        (deque([1, (2, frozenset({3}))]), [1, [2, [3]]]),
        (range(3), [0, 1, 2]),
        ({"a": 1}.keys(), ["a"]),
        (pydantic.SecretStr("hidden"), "**********"),
        (ValueError("why"), "ValueError: why"),
        (Color, "Color"),
        (len, "len"),
        (json, "json"),
    ],
)
def test_typed_values_have_one_plain_form(value: object, expected: object) -> None:
    """What Claude reads of a typed value is the same at every attempt."""
    if expected is not None:
        assert inner([value]) == [expected]
    well_formed(to_content(value))


def test_integer_that_python_refuses_to_print_is_described() -> None:
    """An integer of thousands of digits does not break the result."""
    assert inner([10**5000]) == ["[an integer of 16610 bits]"]


def test_keys_that_json_would_merge_stay_apart() -> None:
    """1 and "1" are two entries of a dict."""
    assert inner({1: "int", "1": "str"}) == {"1": "int", "1 (str)": "str"}


def test_value_that_contains_itself_or_is_nested_without_end_is_cut() -> None:
    """No structure makes the conversion run away."""
    loop: list[Any] = [1]
    loop.append(loop)
    assert inner(loop) == [1, "[contains itself]"]
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    assert "nested deeper" in text(deep)


def test_same_object_twice_is_no_loop() -> None:
    """Only true cycles are cut."""
    part = [1]
    assert inner([part, part]) == [[1], [1]]


def test_repr_of_unknown_objects_has_no_address() -> None:
    """A memory address would make each attempt's result different."""
    assert "Plain object" in text(Plain())
    assert "0x" not in text([Plain(), {"a": object()}, lambda: 1])


def test_generators_and_coroutines_are_named_not_run() -> None:
    """Looking at a result runs none of the tool's code behind the author's back."""
    ran: list[int] = []

    def effects() -> Iterator[int]:
        ran.append(1)
        yield 1

    assert "a generator, which was not run" in text(effects())
    assert ran == []


def test_hostile_object_is_survived() -> None:
    """No object that a tool returns can raise through."""
    for value in (Hostile(), [Hostile()], {"a": Hostile()}):
        well_formed(to_content(value))


def test_part_that_cannot_be_shown_costs_no_other_part() -> None:
    """The rest of a result survives a value in it whose own code fails."""

    class Broken:
        def __repr__(self) -> str:
            raise ValueError

    assert inner({"a": 1, "b": Broken()}) == {"a": 1, "b": "[a Broken that cannot be shown]"}


def test_ten_megabytes_of_text_are_bounded_with_a_marker() -> None:
    """Beginning and end stay, and Claude knows how much is missing."""
    result = text("ä" * 5_000_000 + "THE END")
    assert len(result.encode()) <= MAX_TEXT_BYTES
    assert result.startswith("ää")
    assert result.endswith("THE END")
    assert "of 10000007 bytes left out here]" in result


@pytest.mark.parametrize(
    "value",
    [
        list(range(1_000_000)),
        {str(key): key for key in range(100_000)},
        ["x" * 1000] * 100_000,
        {"a": ["y" * 10_000_000, "z" * 10_000_000]},
        b"\xff" * 10_000_000,
        b"a" * 10_000_000,
        [{"type": "text", "text": "w" * 50_000}] * 200,
    ],
    ids=["list", "dict", "strings", "nested", "binary", "bytes", "blocks"],
)
def test_any_large_value_is_bounded(value: object) -> None:
    """A result of whatever shape fits history, and says what was left out."""
    content = to_content(value)
    assert len(content.encode()) <= 2 * MAX_TEXT_BYTES
    well_formed(content)
    assert "left out" in content or "binary data" in content


def test_blocks_of_the_api_pass_through() -> None:
    """A tool may show Claude images, and text beside them."""
    blocks = [{"type": "text", "text": "look:"}, IMAGE]
    assert json.loads(to_content(blocks)) == blocks
    url = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    assert json.loads(to_content([url])) == [url]


def test_cache_control_of_a_block_is_dropped() -> None:
    """Onward alone sets cache breakpoints: the API allows four in a request."""
    block = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    assert json.loads(to_content([block])) == [{"type": "text", "text": "a"}]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "hologram", "data": "x"},
        {"type": "text", "text": 5},
        {"type": "text", "text": "a", "extra": 1},
        {"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": PNG}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "!"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}},
        {"type": "tool_use", "id": "x", "name": "y", "input": {}},
        {"type": None},
    ],
)
def test_block_that_the_api_would_refuse_becomes_text(block: dict[str, Any]) -> None:
    """One block that Claude's API does not take would fail the request and all after it."""
    assert inner([block]) == [block]
    beside = json.loads(to_content([IMAGE, block]))
    assert beside[0] == IMAGE
    assert beside[1]["type"] == "text"
    assert json.loads(beside[1]["text"]) == block


def test_too_large_image_becomes_a_note() -> None:
    """An image that history cannot hold is named with its size."""
    data = base64.b64encode(bytes(MAX_IMAGES_BYTES)).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    blocks = json.loads(to_content([{"type": "image", "source": source}, IMAGE]))
    assert blocks[0]["text"].startswith(f"[image/png of {len(data)} bytes in base64 left out")
    assert blocks[1] == IMAGE


_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[]))
    | st.binary()
    | st.decimals()
    | st.datetimes()
    | st.uuids()
)
_hashable = st.integers() | st.text(st.characters(exclude_categories=[])) | st.binary()
_values = st.recursive(
    _scalars,
    lambda inside: (
        st.lists(inside)
        | st.dictionaries(_hashable, inside)
        | st.sets(_hashable)
        | st.tuples(inside, inside)
        | st.fixed_dictionaries({"type": st.sampled_from(["text", "image", "x"]), "text": inside})
    ),
    max_leaves=20,
)


@given(_values)
@settings(max_examples=300, deadline=None)
def test_every_value_gives_well_formed_content(value: object) -> None:
    """Never raises, never empty, always legal JSON and UTF-8, equal for equal values."""
    content = to_content(value)
    well_formed(content)
    assert to_content(value) == content
    assert len(content.encode()) < 8 * MAX_TEXT_BYTES


@given(st.text(st.characters(exclude_categories=[])))
def test_every_message_gives_a_well_formed_error(message: str) -> None:
    """Error text of any kind reaches Claude."""
    for error in (ValueError(message), Rejected(message), NotSent(message)):
        well_formed(error_content(error))


@given(st.text(min_size=1), st.integers(min_value=100, max_value=300))
def test_bound_keeps_its_promise(value: str, limit: int) -> None:
    """The bound counts UTF-8 bytes, and a text within it is left alone."""
    bounded = bound(value * 20, limit)
    assert len(bounded.encode()) <= limit
    if len((value * 20).encode()) <= limit:
        assert bounded == value * 20


def test_sets_have_the_same_text_in_every_process() -> None:
    """Python's own order of a set of strings changes from process to process."""
    code = (
        "from onward.tools import to_content;"
        "print(to_content([{str(n) for n in range(50)}, {'a': frozenset({'x', b'y', 3})}]))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": str(Path(__file__).parents[1])},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(outputs) == 1


def test_rejection_is_told_in_the_author_s_words() -> None:
    """`Rejected("why")` reads as why, with no Python in it."""
    assert json.loads(error_content(Rejected("Order A1 is closed."))) == "Order A1 is closed."
    assert json.loads(error_content(Rejected())) == "Rejected (no reason given)"
    assert json.loads(error_content(ValueError("bad"))) == "ValueError: bad"


def test_error_is_bounded_and_keeps_its_notes() -> None:
    """A novel in an exception does not fill the conversation."""
    error = ValueError("x" * 1_000_000)
    error.add_note("while paying")
    content = error_content(error)
    assert len(content) <= MAX_ERROR_BYTES + 100
    assert "while paying" in content


def test_group_of_errors_names_each() -> None:
    """An ExceptionGroup of a TaskGroup says what failed inside."""
    content = error_content(ExceptionGroup("both", [ValueError("a"), KeyError("b")]))
    assert "ValueError: a" in content
    assert "KeyError: 'b'" in content


def test_http_refusal_says_what_the_server_said() -> None:
    """The reason for a 422 is in the body; Claude needs it to do better."""
    reply = httpx2.Response(
        422, text="amount exceeds what was paid", request=httpx2.Request("POST", "http://x/")
    )
    with pytest.raises(httpx2.HTTPStatusError) as caught:
        reply.raise_for_status()
    assert "amount exceeds what was paid" in error_content(caught.value)


def test_error_whose_message_fails_is_survived() -> None:
    """Even an exception that cannot be printed is told."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise SystemExit

    assert "Mute" in error_content(Mute())


def test_tool_error_of_the_sdk_keeps_its_blocks() -> None:
    """`anthropic`'s ToolError may hold an image."""
    from anthropic.lib.tools import ToolError  # noqa: PLC0415  (costs a second)

    blocks: Any = [{"type": "text", "text": "see"}, IMAGE]
    assert json.loads(error_content(ToolError(blocks))) == blocks
    assert json.loads(error_content(ToolError("why"))) == "why"


# ---- more than Claude is shown


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
