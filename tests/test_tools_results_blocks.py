"""Blocks that a tool returns: what the API takes passes through, anything else becomes text."""

import base64
import json
from typing import Any

import pytest
from tool_contents import IMAGE, PNG, inner

from onward.tools import to_content
from onward.tools.results import MAX_IMAGES_BYTES


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
