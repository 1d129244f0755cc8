"""The data converter of a team's own client, made fit for agents."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticPayloadConverter, pydantic_data_converter
from temporalio.converter import (
    DataConverter,
    DefaultPayloadConverter,
    ExternalStorage,
    StorageDriver,
    StorageDriverSelectContext,
    StorageDriverWorkflowInfo,
)

from onward.errors import UsageError
from onward.names import WORKFLOW
from onward.payload_store import LARGE_BYTES, PayloadStore

_REFUSED_BYTES = 2_000_000
"""Temporal refuses a payload of 2 MiB, and its run would try to hand it in for ever."""

_Select = Callable[[StorageDriverSelectContext, Payload], StorageDriver | None]


def fit(given: DataConverter, folder: Path, *, stores: bool) -> DataConverter:
    """Add to a converter what agents need: pydantic's types, and the folder of large payloads.

    Its codec, its failure converter and its own storage stay, and go on for all that is no agent's.
    With `stores` false the folder is only read from: a client's process may not share it.

    Raises `UsageError` for a payload converter that is not pydantic's.
    """
    ours = PayloadStore(folder)
    storage = _both(given.external_storage, ours, stores=stores)
    return dataclasses.replace(_of_pydantic(given), external_storage=storage)


def _of_pydantic(given: DataConverter) -> DataConverter:
    kind = given.payload_converter_class
    if issubclass(kind, PydanticPayloadConverter):
        return given
    if kind is not DefaultPayloadConverter:
        raise UsageError(
            f"the client's payload converter is {kind.__qualname__!r}. Expected that of "
            "temporalio.contrib.pydantic, or one derived from PydanticPayloadConverter: an agent's "
            "conversation must come back with its keys in their order"
        )
    wanted = pydantic_data_converter.payload_converter_class
    return dataclasses.replace(given, payload_converter_class=wanted)


def _both(theirs: ExternalStorage | None, ours: PayloadStore, *, stores: bool) -> ExternalStorage:
    own = [driver for driver in theirs.drivers if driver.name() != ours.name()] if theirs else []
    least = theirs.payload_size_threshold if theirs and own else None
    others = _selection(theirs) if theirs and own else None

    def select(context: StorageDriverSelectContext, payload: Payload) -> StorageDriver | None:
        target = context.target
        if stores and target is None:
            # Nobody's: what `onward.segments` keeps, which says from which size on.
            return ours
        if isinstance(target, StorageDriverWorkflowInfo) and target.type == WORKFLOW:
            return ours if stores and payload.ByteSize() >= LARGE_BYTES else None
        if others is not None and least is not None and payload.ByteSize() >= least:
            return others(context, payload)
        # A child's result: of its parent's type nothing is told. So large it would never arrive.
        result = isinstance(target, StorageDriverWorkflowInfo) and target.type is None
        return ours if stores and result and payload.ByteSize() >= _REFUSED_BYTES else None

    return ExternalStorage(
        drivers=[ours, *own],
        driver_selector=select,
        payload_size_threshold=LARGE_BYTES if least is None else min(least, LARGE_BYTES),
    )


def _selection(theirs: ExternalStorage) -> _Select:
    """Say which driver theirs would choose: without a selector there is only one."""
    return theirs.driver_selector or (lambda _context, _payload: theirs.drivers[0])
