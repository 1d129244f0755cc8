"""References to values that history names and does not hold: what they are, and how they are read.

A *reference* is a short text. The client's own data converter makes it, so what it names went
through the same codec and lies in the same payload store as every large payload; where the value is
small the reference is the value itself. What history names is kept as long as the history.
"""

import base64
import binascii
import dataclasses

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter

from onward.errors import PayloadError

INLINE_BYTES = 8 * 1024
"""Shorter values stand in the reference itself; each continue-as-new carries them along."""


async def keep(converter: DataConverter, value: bytes) -> str:
    """Keep a value for as long as histories name it; returns its reference.

    Raises `PayloadError` where the payload store cannot take it.
    """
    payload = (await _by_reference(converter).encode([value]))[0]
    return base64.b85encode(payload.SerializeToString(deterministic=True)).decode()


async def fetch(converter: DataConverter, reference: str) -> bytes:
    """Return the value that a reference names.

    Raises `PayloadError` where it is gone, damaged, or the reference is none.
    """
    try:
        payload = Payload.FromString(base64.b85decode(reference))
    except (ValueError, binascii.Error, DecodeError) as error:
        raise PayloadError(
            f"found {reference[:60]!r} as a reference to a payload, expected one that Onward made. "
            "Its history was changed, or another version wrote it"
        ) from error
    value: bytes = (await converter.decode([payload], [bytes]))[0]
    return value


def _by_reference(converter: DataConverter) -> DataConverter:
    storage = converter.external_storage
    if storage is None:
        return converter
    small = dataclasses.replace(storage, payload_size_threshold=INLINE_BYTES)
    return dataclasses.replace(converter, external_storage=small)
