"""The id of a run from its beginning, as a person types it."""

import re

from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest
from temporalio.client import Client

from onward import history
from onward.names import WORKFLOW
from onward.runs import rpc_errors

MIN_CHARS = 3
"""Fewer would be a slip of the fingers more often than an id."""
MAX_SHOWN = 8
_PAGE = 200


async def ids_that_begin(client: Client, beginning: str) -> list[str]:
    """List the ids of runs that begin so, at most nine of them.

    Of less than three characters none is looked for. Raises ConnectError.
    """
    if len(_askable(beginning)) < MIN_CHARS:
        return []
    request = ListWorkflowExecutionsRequest(
        namespace=client.namespace,
        page_size=_PAGE,
        query=(
            f"WorkflowType = '{WORKFLOW}' AND ExecutionStatus != 'ContinuedAsNew' "
            f"AND WorkflowId STARTS_WITH '{_askable(beginning)}'"
        ),
    )
    found = dict[str, None]()
    async with rpc_errors():
        while len(found) <= MAX_SHOWN:
            page = await client.workflow_service.list_workflow_executions(
                request, timeout=history.RPC_TIMEOUT
            )
            ids = (each.execution.workflow_id for each in page.executions)
            # Some of the databases behind the index take A for a.
            found.update(dict.fromkeys(each for each in ids if each.startswith(beginning)))
            request.next_page_token = page.next_page_token
            if not page.next_page_token:
                break
    return list(found)[: MAX_SHOWN + 1]


def _askable(beginning: str) -> str:
    # Temporal's queries have no way to write some of these, so what follows is compared here.
    return re.split(r"[\'\"\\]", beginning, maxsplit=1)[0]
