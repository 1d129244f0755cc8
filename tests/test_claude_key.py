"""A key that cannot be one is told at the start, and not by a run that fails for it."""

import pytest

from onward.claude_key import key_trouble


@pytest.mark.parametrize("key", ["sk-ant-api03-aB_9-x", "sk.ant:/+=~!x"])
def test_what_may_be_a_key_is_left_to_the_api(key: str) -> None:
    """Only Claude's API knows which keys there are."""
    assert key_trouble(key) == ""


@pytest.mark.parametrize(
    "key", ['"sk-SECRET"', "'sk-SECRET'", "sk-SECRET\n", "sk SECRET", "sk-SECRETé"]
)
def test_what_no_key_has_is_told_without_the_key(key: str) -> None:
    """A line break of a secret's file and quotes of an env file look like nothing in a shell."""
    told = key_trouble(key)
    assert "quotes, a space, a line break" in told
    assert "SECRET" not in told


def test_no_key_is_told() -> None:
    """A worker without one begins all the same, and says so."""
    assert key_trouble("") == "no key for Claude's API"
