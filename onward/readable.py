"""Payloads that a codec encoded which this process has not: said, instead of an error of the SDK's.

A team's worker may encrypt. Its own client, with its codec, reads that; Onward's commands cannot.
"""

from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import PayloadCodec

from onward.errors import PayloadError


class Readable(PayloadCodec):
    """Changes nothing, and refuses to read what nobody here can."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Leave them as they are."""
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Leave them as they are. Raises `PayloadError`."""
        for payload in payloads:
            encoding = payload.metadata.get("encoding", b"")
            if encoding not in _KNOWN:
                raise PayloadError(
                    f"found a payload encoded as {encoding.decode(errors='replace')!r}, by a codec "
                    "that this process does not have. Use a program that has it: `onward.client."
                    "connect(client)` with the client of your own that has codec and OnwardPlugin"
                )
        return list(payloads)


_KNOWN = frozenset(PydanticPayloadConverter().converters)
