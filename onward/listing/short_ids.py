"""The id of a run from its beginning, as a person types it."""

import re

from temporalio.client import Client

from onward.listing.finding import pages
from onward.listing.which import Which
from onward.runs import rpc_errors

MIN_CHARS = 3
"""Fewer would be a slip of the fingers more often than an id."""
MAX_SHOWN = 8


async def ids_that_begin(client: Client, beginning: str) -> list[str]:
    """List the ids of runs that begin so, at most nine of them.

    Of less than three characters none is looked for. Raises ConnectError.
    """
    if len(_askable(beginning)) < MIN_CHARS:
        return []
    query = f"{Which().query(known=())} AND WorkflowId STARTS_WITH '{_askable(beginning)}'"
    found = dict[str, None]()
    async with rpc_errors():
        async for page in pages(client, query):
            ids = (each.execution.workflow_id for each in page)
            # Some of the databases behind the index take A for a.
            found.update(dict.fromkeys(each for each in ids if each.startswith(beginning)))
            if len(found) > MAX_SHOWN:
                break
    return list(found)[: MAX_SHOWN + 1]


def _askable(beginning: str) -> str:
    # Temporal's queries have no way to write some of these, so what follows is compared here.
    return re.split(r"[\'\"\\]", beginning, maxsplit=1)[0]
