"""Onward's search attributes on a Temporal namespace: what `list` and the UI filter by."""

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError

NAMES = ("OnwardAgent", "OnwardOutcome", "OnwardWaiting")
_KEYWORD = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD


async def register(client: Client) -> bool:
    """Make sure the namespace knows the attributes; False where that is not permitted.

    A workflow that sets an unknown one fails its task for ever, so it is told what this returns.
    """
    service, namespace = client.operator_service, client.namespace
    try:
        if not await registered(client):
            wanted: dict[str, IndexedValueType.ValueType] = dict.fromkeys(NAMES, _KEYWORD)
            await service.add_search_attributes(
                AddSearchAttributesRequest(namespace=namespace, search_attributes=wanted)
            )
        return await registered(client)
    except RPCError:
        return False


async def registered(client: Client) -> bool:
    """Say whether the namespace has them all, as keywords. Raises `RPCError`."""
    found = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    return all(found.custom_attributes.get(name) == _KEYWORD for name in NAMES)
