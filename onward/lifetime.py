"""How long records are kept: of a run that has ended, and of what all runs recognise."""

import logging
from datetime import timedelta

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

BUSINESS_KEY_KEPT_MS = 90 * 24 * 3600 * 1000
"""How long a business key of every run is remembered after it was last asked for."""
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
