"""An image's size is read from its first bytes, and what is too large is told, not sent."""

import base64
import json
import struct

import pytest

from onward.tools.image_size import image_size
from onward.tools.results import to_content

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR" + struct.pack(">II", 1920, 1080)
GIF = b"GIF89a" + struct.pack("<HH", 320, 200)
EXIF = b"\xff\xe1\x00\x06abcd"
JPEG = b"\xff\xd8" + EXIF + b"\xff\xff\xc2\x00\x11\x08" + struct.pack(">HH", 600, 800)
LOSSY = b"RIFF\x00\x00\x00\x00WEBPVP8 " + bytes(10) + struct.pack("<HH", 0x4000 | 640, 480)
LOSSLESS = b"RIFF\x00\x00\x00\x00WEBPVP8L" + bytes(5) + struct.pack("<I", 99 | 49 << 14)
EXTENDED = b"RIFF\x00\x00\x00\x00WEBPVP8X" + bytes(8) + b"\xff\x0f\x00\xcf\x07\x00"


@pytest.mark.parametrize(
    ("data", "size"),
    [
        pytest.param(PNG, (1920, 1080), id="png"),
        pytest.param(GIF, (320, 200), id="gif"),
        pytest.param(JPEG, (800, 600), id="jpeg behind exif and padding"),
        pytest.param(LOSSY, (640, 480), id="webp"),
        pytest.param(LOSSLESS, (100, 50), id="lossless webp"),
        pytest.param(EXTENDED, (4096, 2000), id="extended webp"),
        pytest.param(PNG[:20], None, id="cut png"),
        pytest.param(JPEG[:12], None, id="cut jpeg"),
        pytest.param(b"", None, id="nothing"),
        pytest.param(b"BM and so on", None, id="another format"),
    ],
)
def test_a_size_is_read_or_not_known(data: bytes, size: tuple[int, int] | None) -> None:
    """Every format that the API takes is understood; a broken one is unknown, and never raises."""
    assert image_size(data) == size


@pytest.mark.field("A20")
@pytest.mark.parametrize(("width", "shown"), [(2000, "image"), (2001, "text")])
def test_an_image_that_would_wedge_a_run_is_never_sent(width: int, shown: str) -> None:
    """Among more than twenty images, one of 2,001 pixels makes every later request refused."""
    data = base64.b64encode(PNG[:16] + struct.pack(">II", 30, width)).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    block = json.loads(to_content([{"type": "image", "source": source}]))[0]
    assert block["type"] == shown
    assert shown == "image" or "30 x 2001 pixels left out; 2000 a side" in block["text"]
