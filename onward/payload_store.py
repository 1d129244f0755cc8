"""Where payloads go that are too large for Temporal's history: files in a folder, by content.

Temporal's client does the rest: history holds a reference, and whoever reads it gets the payload.
Workers share one folder; a command needs it too where it reads such a payload. Nothing in it is
ever deleted by Onward: a file may go once Temporal has forgotten every run that names it.
"""

import asyncio
import dataclasses
import hashlib
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import (
    DataConverter,
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverSelectContext,
    StorageDriverStoreContext,
)

from onward.errors import PayloadError
from onward.readable import Readable

LARGE_BYTES = 64 * 1024
"""Payloads from this size on are files. Temporal refuses one of 2 MiB, and a history of 50 MB."""

_NAME = "onward-files"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def data_converter(folder: Path, *, stores: bool = True) -> DataConverter:
    """Make the data converter that all of Onward uses, for large payloads in `folder`.

    With `stores` false it reads them, and what it sends stays inline whatever its size.
    """
    storage = ExternalStorage(
        drivers=[PayloadStore(folder)],
        driver_selector=None if stores else _inline,
        payload_size_threshold=LARGE_BYTES,
    )
    return dataclasses.replace(
        pydantic_data_converter, payload_codec=Readable(), external_storage=storage
    )


def reads(converter: DataConverter) -> bool:
    """Say whether it reads payloads of runs already, as that of a client with the plugin does."""
    storage = converter.external_storage
    return storage is not None and any(each.name() == _NAME for each in storage.drivers)


def _inline(context: StorageDriverSelectContext, payload: Payload) -> None:
    del context, payload


class PayloadStore(StorageDriver):
    """A folder of payloads, each a file named by the SHA-256 of what is in it."""

    def __init__(self, folder: Path) -> None:
        # Absolute: a tool that changes the directory of its process must not move the folder.
        self._folder = folder.absolute()

    def name(self) -> str:
        """Return the name by which histories refer to this store."""
        return _NAME

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        """Write payloads, durably; returns what finds them. Raises `PayloadError`."""
        del context
        return [await asyncio.to_thread(self._write, payload) for payload in payloads]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Read payloads and verify them. Raises `PayloadError` where one is missing or damaged."""
        del context
        digests = [claim.claim_data.get("sha256", "") for claim in claims]
        return [await asyncio.to_thread(self._read, digest) for digest in digests]

    def _write(self, payload: Payload) -> StorageDriverClaim:
        data = payload.SerializeToString(deterministic=True)
        digest = hashlib.sha256(data).hexdigest()
        try:
            if not _holds(self._file(digest), data):
                _put(self._file(digest), data)
        except OSError as error:
            raise PayloadError(
                f"cannot keep a payload of {len(data)} bytes in {str(self._folder)!r}: {error}. "
                "Make the folder writable, or name another one in ONWARD_PAYLOAD_DIR that all "
                "workers share; what waits for it then goes on"
            ) from error
        return StorageDriverClaim({"sha256": digest})

    def _read(self, digest: str) -> Payload:
        # It comes from a history: a name with a path in it must not be opened.
        if not _DIGEST.fullmatch(digest):
            raise PayloadError(f"found {digest!r} as the name of a payload, expected a SHA-256")
        try:
            data = self._file(digest).read_bytes()
        except OSError as error:
            raise PayloadError(
                f"cannot read payload {digest} in {str(self._folder)!r}: {error.strerror}. Workers "
                "and commands must share one folder: set ONWARD_PAYLOAD_DIR to that of the worker "
                "that wrote it, or restore the file from a backup"
            ) from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise PayloadError(
                f"{str(self._file(digest))!r} is damaged: its content is not what its name says. "
                "Restore the file from a backup"
            )
        return Payload.FromString(data)

    def _file(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest


def _holds(file: Path, data: bytes) -> bool:
    """Whether `file` holds `data`; a damaged one is written again."""
    try:
        return file.read_bytes() == data
    except FileNotFoundError:
        return False


def _put(file: Path, data: bytes) -> None:
    """Write a file so that after a crash it is whole or absent, and after a return it stays."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(file.parent)
    _sync_folder(file.parent.parent)


def _sync_folder(folder: Path) -> None:
    # A new name is in the folder above: without this a power cut could take it.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
