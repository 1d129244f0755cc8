"""Onward's search attributes on a Temporal namespace: what `list` and the UI filter by.

A workflow that sets one which the namespace lacks fails its task until it is there. So a run sets
only those that were there, with the right type, when it began; whatever lacks, runs go on.
"""

import asyncio
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.api.workflowservice.v1 import CountWorkflowExecutionsRequest
from temporalio.client import Client
from temporalio.service import RPCError

from onward.names import ATTRIBUTES

_LOOK_TIMEOUT, _ADD_TIMEOUT = timedelta(seconds=3), timedelta(seconds=30)
"""A server whose index is Elasticsearch changes that before it answers."""
_LOOKS, _LOOK_EVERY_S = 100, 0.1
_CLOUD = (".tmprl.cloud", ".temporal.io")
_ENUM = "INDEXED_VALUE_TYPE_"
_TYPES = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "KeywordList": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
    "Int": IndexedValueType.INDEXED_VALUE_TYPE_INT,
    "Double": IndexedValueType.INDEXED_VALUE_TYPE_DOUBLE,
}


@dataclass(frozen=True)
class Attributes:
    """What a namespace has of Onward's search attributes."""

    types: Mapping[str, str] = field(default_factory=dict[str, str])
    """Type by name, as Temporal names it, of those that it has."""
    refusal: str = ""
    """Why it let us neither look, nor add what is missing; empty: nothing was refused."""

    @property
    def usable(self) -> tuple[str, ...]:
        """Names of those that it has with the type that is expected."""
        return tuple(name for name, kind in ATTRIBUTES.items() if self.types.get(name) == kind)

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of those that it has not."""
        return tuple(name for name in ATTRIBUTES if name not in self.types)

    @property
    def clashes(self) -> tuple[str, ...]:
        """Names of those that it has with another type: they are somebody else's."""
        return tuple(name for name in self.types if name not in self.usable)


@dataclass(frozen=True)
class Trouble:
    """What is not as it should be, and what to do about it."""

    found: str
    todo: str
    """Ends with a command to copy."""

    def __str__(self) -> str:
        return f"{self.found}. {self.todo}"


async def look(client: Client) -> Attributes:
    """Look which ones the namespace has. Raises `RPCError`: not every account may."""
    found = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace), timeout=_LOOK_TIMEOUT
    )
    custom = found.custom_attributes
    return Attributes({name: _type_name(custom[name]) for name in ATTRIBUTES if name in custom})


async def usable(client: Client) -> tuple[str, ...]:
    """Names of those that can be set and asked for; none where the account may not look."""
    try:
        return (await look(client)).usable
    except RPCError:
        return ()


async def register(client: Client) -> Attributes:
    """Add what the namespace lacks, as far as the account may, and wait until it can be used."""
    try:
        found = await look(client)
        refusal = await _add(client, found.missing)
        if refusal is None:
            return found
        found = replace(await look(client), refusal=refusal)
        await _wait_until_known(client, found.usable)
    except RPCError as error:
        return Attributes(refusal=error.message)
    return found


def troubles(client: Client, found: Attributes) -> Iterator[Trouble]:
    """Say what lacks, why, and what to do."""
    if found.missing:
        because = f" ({found.refusal})" if found.refusal else ""
        yield Trouble(
            f"the namespace lacks search attributes: {', '.join(found.missing)}{because}. "
            "Runs that begin now do without",
            f"Whoever may register them types:\n  {create_command(client, found.missing)}",
        )
    for name in found.clashes:
        yield Trouble(
            f"the search attribute {name} is of type {found.types[name]}, expected was "
            f"{ATTRIBUTES[name]}. Runs that begin now do without",
            "If nothing else uses it, free the name, then start a worker, which registers "
            f"it where it may:\n  {_free_command(client, name)}",
        )


def create_command(client: Client, missing: Iterable[str]) -> str:
    """Write the shell command with which somebody who may do so registers them."""
    if is_cloud(client):
        each = " ".join(f"--search-attribute {name}={ATTRIBUTES[name]}" for name in missing)
        return f"tcld namespace search-attributes add {where(client)} {each}"
    each = " ".join(f"--name {name} --type {ATTRIBUTES[name]}" for name in missing)
    return f"temporal operator search-attribute create {where(client)} {each}"


def _free_command(client: Client, name: str) -> str:
    if is_cloud(client):  # there nothing can be removed
        renamed = f"--existing-name {name} --new-name Former{name}"
        return f"tcld namespace search-attributes rename {where(client)} {renamed}"
    return f"temporal operator search-attribute remove {where(client)} --name {name}"


def is_cloud(client: Client) -> bool:
    """Say whether the server is Temporal Cloud, which has commands of its own."""
    return _address(client).partition(":")[0].endswith(_CLOUD)


def where(client: Client) -> str:
    """Write the options that lead these commands to the namespace."""
    address = "" if is_cloud(client) else f"--address {shlex.quote(_address(client))} "
    return f"{address}--namespace {shlex.quote(client.namespace)}"


def _address(client: Client) -> str:
    return client.service_client.config.target_host


async def _add(client: Client, missing: Iterable[str]) -> str | None:
    """Add them; returns why some could not be, or an empty text, and None if there was nothing."""
    wanted = [*missing]
    if not wanted:
        return None
    refusal = await _add_together(client, wanted)
    if not refusal:
        return ""
    # A server that has no room for one type adds nothing of what it was asked for with it.
    each = [await _add_together(client, [name]) for name in wanted]
    return "; ".join(dict.fromkeys(filter(None, each)))


async def _add_together(client: Client, wanted: Iterable[str]) -> str:
    request = AddSearchAttributesRequest(
        namespace=client.namespace,
        search_attributes={name: _TYPES[ATTRIBUTES[name]] for name in wanted},
    )
    try:
        await client.operator_service.add_search_attributes(request, timeout=_ADD_TIMEOUT)
    except RPCError as error:
        return error.message.rstrip(".")
    return ""


async def _wait_until_known(client: Client, names: tuple[str, ...]) -> None:
    """Wait until the servers behind this address have all heard of them, a few seconds at most."""
    for _ in range(_LOOKS):
        if await _known(client, names):
            return
        await asyncio.sleep(_LOOK_EVERY_S)


async def _known(client: Client, names: tuple[str, ...]) -> bool:
    query = " AND ".join(f"{name} IS NULL" for name in names)
    request = CountWorkflowExecutionsRequest(namespace=client.namespace, query=query)
    try:
        await client.workflow_service.count_workflow_executions(request, timeout=_LOOK_TIMEOUT)
    except RPCError:
        return False
    return True


def _type_name(value: IndexedValueType.ValueType) -> str:
    """Name a type as Temporal's commands do: `KeywordList`."""
    words = IndexedValueType.Name(value).removeprefix(_ENUM).split("_")
    return "".join(word.capitalize() for word in words)
