"""The limits on images in one request: smaller ones where there are many."""

import base64
import binascii
from collections.abc import Iterator

from onward.testing.messages_api.literal_json import Object, is_array, is_object
from onward.testing.messages_api.refusals import Violation
from onward.testing.messages_api.turns import blocks_of, messages_of
from onward.tools.image_size import image_size

_MANY = 20
_PIXELS_OF_MANY = 2_000
_PIXELS = 8_000


def image_violations(body: Object) -> Iterator[Violation]:
    """Yield a violation for each image that is too large for a request with so many."""
    found = list(_images(body))
    many = len(found) > _MANY
    limit = _PIXELS_OF_MANY if many else _PIXELS
    for at, source in found:
        if max(_size(source)) > limit:
            which = " for many-image requests" if many else ""
            yield Violation(
                "image_pixels",
                f"{at}.image.source.base64.data: At least one of the image dimensions exceed max "
                f"allowed size{which}: {limit} pixels",
            )


def _images(body: Object) -> Iterator[tuple[str, Object]]:
    for number, message in enumerate(messages_of(body)):
        for index, block in enumerate(blocks_of(message)):
            yield from _of_block(f"messages.{number}.content.{index}", block)


def _of_block(at: str, block: Object) -> Iterator[tuple[str, Object]]:
    source: object = block.get("source")
    if block.get("type") == "image" and is_object(source) and source.get("type") == "base64":
        yield at, source
    inner: object = block.get("content")
    for index, each in enumerate(inner if is_array(inner) else ()):
        if is_object(each):
            yield from _of_block(f"{at}.content.{index}", each)


def _size(source: Object) -> tuple[int, int]:
    try:
        return image_size(base64.b64decode(str(source.get("data")))) or (0, 0)
    except binascii.Error:
        return 0, 0
