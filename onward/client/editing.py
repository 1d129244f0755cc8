"""The input that a person gives a call instead of Claude's, checked before it is sent."""

from collections.abc import Mapping
from typing import Any

from onward import json_text, run_input
from onward.errors import UsageError


def edited_input(edit: str | Mapping[str, Any]) -> str:
    """Return the input as JSON text, to the letter as it was given.

    Whether it fits the tool is for the run to say, which knows the tool's schema.

    Raises UsageError for anything but a JSON object of 100,000 bytes at most.
    """
    try:
        text = edit if isinstance(edit, str) else json_text.dumps(edit)
        json_text.load_object(run_input.checked_text(text, run_input.EDIT))
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"the edited input is not what a tool takes: {error}. Give the call's whole input as "
            'a JSON object, as {"order": 1042}'
        ) from error
    return text
