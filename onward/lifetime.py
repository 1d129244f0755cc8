"""How long the records of a run that has ended are kept."""

import logging
from datetime import timedelta

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

_MARGIN = timedelta(hours=24)
_UNKNOWN_RETENTION = timedelta(days=90)

_log = logging.getLogger(__name__)


async def records_ttl_ms(client: Client) -> int:
    """Milliseconds for which an ended run's records must outlive its end.

    As long as the namespace keeps closed runs, a reset may need them; a day more is the margin.
    """
    try:
        described = await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace)
        )
    except RPCError as error:
        _log.warning("cannot read the namespace's retention: %s", error)
        retention = _UNKNOWN_RETENTION
    else:
        retention = described.config.workflow_execution_retention_ttl.ToTimedelta()
    return int((retention + _MARGIN).total_seconds() * 1000)
