"""Contents of tool results in tests: how they are read, and what the API asks of them."""

import base64
import json
from typing import Any

import pytest

from onward.tools import to_content

PNG = base64.b64encode(b"\x89PNG" + bytes(20)).decode()
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


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
