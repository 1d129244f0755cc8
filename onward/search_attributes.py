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
        await _wait_until_known(client, (await look(client)).usable)
        return replace(await look(client), refusal=refusal)
    except RPCError as error:
        return Attributes(refusal=error.message)


def troubles(client: Client, found: Attributes) -> Iterator[str]:
    """Say what lacks, why, and what to do: a sentence each, with commands to copy."""
    if found.missing:
        because = f" ({found.refusal})" if found.refusal else ""
        yield (
            f"the namespace lacks the search attributes {', '.join(found.missing)}{because}, so "
            "runs that begin now are not found by them. Whoever may register them types:\n"
            f"  {create_command(client, found.missing)}"
        )
    for name in found.clashes:
        yield (
            f"the search attribute {name} is of type {found.types[name]}, expected was "
            f"{ATTRIBUTES[name]}: runs that begin now do not set it. If nothing else uses it, "
            f"remove it, and start a worker, which registers it anew:\n  {_remove(client, name)}"
        )


def create_command(client: Client, missing: Iterable[str]) -> str:
    """Write the shell command with which somebody who may do so registers them."""
    address, namespace = client.service_client.config.target_host, client.namespace
    if address.partition(":")[0].endswith(_CLOUD):
        each = " ".join(f"--search-attribute {name}={ATTRIBUTES[name]}" for name in missing)
        where = shlex.quote(namespace)
        return f"tcld namespace search-attributes add --namespace {where} {each}"
    each = " ".join(f"--name {name} --type {ATTRIBUTES[name]}" for name in missing)
    return f"temporal operator search-attribute create {_where(client)} {each}"


def _remove(client: Client, name: str) -> str:
    return f"temporal operator search-attribute remove {_where(client)} --name {name}"


def _where(client: Client) -> str:
    address = client.service_client.config.target_host
    return f"--address {shlex.quote(address)} --namespace {shlex.quote(client.namespace)}"


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
