"""Whatever a tool returns, Claude gets a well-formed, bounded, stable result."""

import dataclasses
import datetime as dt
import enum
import json
import subprocess
import sys
import uuid
from collections import OrderedDict, deque
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_contents import inner, text, well_formed

from onward.tools import to_content
from onward.tools.results import MAX_TEXT_BYTES, bound


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


@pytest.mark.field("A07")
@pytest.mark.parametrize("value", [None, "", [], b"", "  \n", [{"type": "text", "text": ""}]])
def test_nothing_becomes_a_placeholder(value: object) -> None:
    """The API refuses an empty result, after the effect has happened."""
    assert text(value).startswith("(The tool returned ")


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
