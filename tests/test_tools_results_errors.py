"""Whatever a tool raises, Claude gets a well-formed, bounded account of it."""

import json
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_contents import IMAGE, well_formed

from onward import NotSent, Rejected
from onward.tools import error_content
from onward.tools.results import MAX_ERROR_BYTES


@pytest.mark.field("A07")
@pytest.mark.parametrize("error", [ValueError(), ValueError(""), ValueError("  "), KeyError()])
def test_error_without_a_message_is_told_by_its_type(error: Exception) -> None:
    """An error result is never empty."""
    assert json.loads(error_content(error)) == f"{type(error).__name__} (no message)"


@given(st.text(st.characters(exclude_categories=[])))
def test_every_message_gives_a_well_formed_error(message: str) -> None:
    """Error text of any kind reaches Claude."""
    for error in (ValueError(message), Rejected(message), NotSent(message)):
        well_formed(error_content(error))


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
