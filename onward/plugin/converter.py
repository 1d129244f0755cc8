"""The data converter of a team's own client, made fit for agents."""

import dataclasses
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
    """Make one storage of two: ours for what is an agent's, theirs for all else."""
    others = _without(ours, theirs)
    least = others.payload_size_threshold if others else LARGE_BYTES
    return ExternalStorage(
        drivers=[ours, *(others.drivers if others else ())],
        driver_selector=_Selector(ours if stores else None, others),
        payload_size_threshold=min(least, LARGE_BYTES),
    )


def _without(ours: PayloadStore, theirs: ExternalStorage | None) -> ExternalStorage | None:
    """Leave out a store that is ours already: a worker's client was made fit for reading before."""
    own = [driver for driver in theirs.drivers if driver.name() != ours.name()] if theirs else []
    return dataclasses.replace(theirs, drivers=own) if theirs and own else None


@dataclasses.dataclass(frozen=True)
class _Selector:
    """Says which store a payload goes to; None: it stays in history."""

    ours: PayloadStore | None
    """None: it is only read from."""
    theirs: ExternalStorage | None

    def __call__(
        self, context: StorageDriverSelectContext, payload: Payload
    ) -> StorageDriver | None:
        target, size = context.target, payload.ByteSize()
        if target is None and self.ours:
            # Nobody's: what `onward.segments` keeps, which says from which size on.
            return self.ours
        workflow = target.type if isinstance(target, StorageDriverWorkflowInfo) else ""
        if workflow == WORKFLOW:
            return self.ours if size >= LARGE_BYTES else None
        if self.theirs and size >= self.theirs.payload_size_threshold:
            return _selected(self.theirs, context, payload)
        # A child's result: of its parent's type nothing is told. So large it would never arrive.
        return self.ours if workflow is None and size >= _REFUSED_BYTES else None


def _selected(
    storage: ExternalStorage, context: StorageDriverSelectContext, payload: Payload
) -> StorageDriver | None:
    if storage.driver_selector is None:  # then there is only one
        return storage.drivers[0]
    return storage.driver_selector(context, payload)
