"""A tool says in its own words what a call would do: people read that before they approve it."""

from collections.abc import Callable
from typing import Any

import pytest
from calls_prepared import prepared

from examples.keyed_refund import refund
from onward import tool
from onward.errors import AppError

WORDS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "in words": (lambda call: f"order {call['order']}", "order A-7"),
    "lines": (lambda _: "  a\nb\u202e ", "a\\nb\\u202e"),
    "long": (lambda _: "x" * 500, f"{'x' * 159}…"),
    "a field too few": (lambda call: call["nothing"], "order=A-7"),
    "no text": (lambda _: 5, "order=A-7"),
    "blank": (lambda _: "  ", "order=A-7"),
}


@pytest.mark.parametrize(("words", "shown"), WORDS.values(), ids=list(WORDS))
def test_words_are_shown_in_one_line_or_else_the_arguments(words: Any, shown: str) -> None:
    """Nothing that an author's function does loses a paid reply, or forges a second line."""

    @tool(summary=words)
    async def act(order: str) -> None:
        """Act."""

    assert prepared(act, '{"order": "A-7"}').summary == shown


def test_what_does_not_fit_is_described_by_its_arguments() -> None:
    """Words are made for valid input; of any other, people see what Claude sent."""
    call = prepared(refund, '{"order_id": "A-7", "amount_cents": "much"}')
    assert (call.summary, bool(call.refusal)) == ("order_id=A-7 amount_cents=much", True)


def test_the_example_names_order_and_dollars() -> None:
    """Whoever approves a refund knows at a glance what it is about."""
    call = prepared(refund, '{"order_id": "1042", "amount_cents": 123456}')
    assert (call.summary, call.refusal) == ("order 1042 · $1,234.56", None)


@pytest.mark.parametrize("words", ["order", lambda: "order"])
def test_words_that_nothing_can_make_are_refused(words: Any) -> None:
    """A slip is found when the app is loaded, and not beside the first refund."""
    with pytest.raises(AppError, match="summary"):

        @tool(summary=words)
        async def act() -> None:
            """Act."""
