"""Width and height of an image, read from its first bytes without decoding it."""

import struct

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""Markers of a JPEG that its size follows; the three are tables and an extension."""


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height in pixels of a PNG, JPEG, GIF or WebP; None: not to be told."""
    try:
        return _size(data)
    except (struct.error, IndexError):
        return None


def _size(data: bytes) -> tuple[int, int] | None:
    if data.startswith(_PNG):
        width, height = struct.unpack_from(">II", data, 16)
        return width, height
    if data.startswith((b"GIF87a", b"GIF89a")):
        width, height = struct.unpack_from("<HH", data, 6)
        return width, height
    if data.startswith(_JPEG):
        return _jpeg(data)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _webp(data)
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    at = len(_JPEG)
    while data[at] == 0xFF:  # noqa: PLR2004  (each segment begins so)
        marker = data[at + 1]
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        fill = marker == 0xFF  # noqa: PLR2004  (any number of these may pad a segment)
        at += 1 if fill else 2 + int(struct.unpack_from(">H", data, at + 2)[0])
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = struct.unpack_from("<I", data, 21)[0]
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            width, height = (int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
            return width + 1, height + 1
        case _:
            return None
