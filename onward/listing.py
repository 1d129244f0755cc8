"""Lists of runs: the newest ones, and those that wait for a person."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest
from temporalio.client import Client

from onward import history
from onward.names import WORKFLOW
from onward.runs import WAITING_ATTRIBUTE, Report, Run, report, rpc_errors, run_of
from onward.search_attributes import registered


async def list_runs(client: Client, limit: int) -> list[Run]:
    """List the newest runs of the namespace, newest first; one that was reset is marked.

    Raises ConnectError.
    """
    found = await _find(client, limit, "ExecutionStatus != 'ContinuedAsNew'")
    runs = [await run_of(client, info) for info in found]
    return _newest_first(_marked(found, runs))


async def list_since(client: Client, since: datetime) -> list[Run]:
    """List all runs that began since then, newest first; one that was reset is marked.

    Raises ConnectError.
    """
    which = f"ExecutionStatus != 'ContinuedAsNew' AND StartTime >= '{since.isoformat()}'"
    found = await _find(client, sys.maxsize, which)
    runs = [await run_of(client, info) for info in found]
    # A run of before may have continued as new since then.
    return [run for run in _newest_first(_marked(found, runs)) if run.started >= since]


async def list_waiting(client: Client, limit: int) -> list[Report]:
    """Report on the newest runs that wait for a person, or whose worker does not say.

    Raises ConnectError.
    """
    which = "ExecutionStatus = 'Running'"
    async with rpc_errors():
        if await registered(client):
            which += f" AND {WAITING_ATTRIBUTE} IS NOT NULL"
    found = [await run_of(client, info) for info in await _find(client, limit, which)]
    reports = [await report(client, run) for run in _newest_first(found)]
    return [seen for seen in reports if seen.status.waiting or not seen.live]


async def list_open(client: Client, agent: str) -> list[Run]:
    """List all open runs of an agent, newest first. Raises ConnectError."""
    found = await _find(client, sys.maxsize, "ExecutionStatus = 'Running'")
    runs = [await run_of(client, info) for info in found]
    return [run for run in _newest_first(runs) if run.agent == agent]


async def _find(client: Client, limit: int, which: str) -> list[WorkflowExecutionInfo]:
    found = list[WorkflowExecutionInfo]()
    request = ListWorkflowExecutionsRequest(
        namespace=client.namespace,
        page_size=min(limit, 1000),
        query=f"WorkflowType = '{WORKFLOW}' AND {which}",
    )
    async with rpc_errors():
        while len(found) < limit:
            page = await client.workflow_service.list_workflow_executions(
                request, timeout=history.RPC_TIMEOUT
            )
            found += page.executions
            request.next_page_token = page.next_page_token
            if not page.next_page_token:
                break
    return found[:limit]


def _marked(found: Sequence[WorkflowExecutionInfo], runs: Sequence[Run]) -> Iterator[Run]:
    """Mark those that a reset left behind: each run it made has their id and their beginning."""
    goes_on = dict[tuple[str, datetime], str]()
    by_start = sorted(zip(found, runs, strict=True), key=lambda each: _start_ns(each[0]))
    for _, run in by_start:
        goes_on[run.id, run.started] = run.run_id
    return (replace(run, reset=goes_on[run.id, run.started] != run.run_id) for run in runs)


def _start_ns(info: WorkflowExecutionInfo) -> int:
    return info.start_time.ToNanoseconds()


def _newest_first(runs: Iterable[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: run.started, reverse=True)
