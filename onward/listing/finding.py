"""Find runs in Temporal's index, in the order that people want."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal, TypeVar

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest
from temporalio.client import Client

from onward import history
from onward.errors import NoSuchRun, PayloadError
from onward.listing.which import Which
from onward.runs import Run, ended, rpc_errors, run_of
from onward.search_attributes import usable

Sort = Literal["started", "cost", "tokens", "step"]
_PAGE = 1000
_AT_ONCE = 16
"""Runs asked about at the same time."""
_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


async def find(
    client: Client, which: Which, *, sort: Sort = "started", limit: int = sys.maxsize
) -> list[Run]:
    """Find the newest runs, or those with most of `sort`, first. One that was reset is marked.

    Custom search attributes cannot be sorted by on the server. So all runs that may be meant are
    read, but for the newest ones: then only as far as a newer one may come.
    Raises ConnectError, UsageError.
    """
    enough = limit if sort == "started" and not which.state else sys.maxsize
    query = which.query(await usable(client))
    runs = await runs_of(client, query, enough=lambda found: _no_newer(found, which, enough))
    if which.state:
        runs = await with_outcomes(client, runs)
    meant = sorted(filter(which.means, runs), key=_keys(sort), reverse=True)[:limit]
    return meant if which.state else await with_outcomes(client, meant)


async def runs_of(
    client: Client, query: str, *, enough: Callable[[Sequence[Run]], bool] = lambda _: False
) -> list[Run]:
    """Read the runs of a query of Temporal's, page by page, until they are `enough`.

    Those that a reset left behind are marked. Raises ConnectError, UsageError.
    """
    infos, runs = list[WorkflowExecutionInfo](), list[Run]()
    async with rpc_errors():
        async for page in pages(client, query):
            infos += page
            runs += [await _listed(client, info) for info in page]
            if enough(runs):
                break
    return _marked(infos, runs)


async def _listed(client: Client, info: WorkflowExecutionInfo) -> Run:
    """Describe a run; of one whose memo a team's codec encrypted, what Temporal's index says."""
    try:
        return await run_of(client, info)
    except PayloadError:
        bare = WorkflowExecutionInfo()
        bare.CopyFrom(info)
        bare.ClearField("memo")
        return await run_of(client, bare)


async def with_outcomes(client: Client, runs: Iterable[Run]) -> list[Run]:
    """Ask history for the outcomes that Temporal's index does not know. Raises ConnectError."""
    return await at_once(lambda run: _with_outcome(client, run), runs)


async def at_once(
    ask: Callable[[_Asked], Awaitable[_Answer]], about: Iterable[_Asked]
) -> list[_Answer]:
    """Ask about many runs at the same time, but about no more than the servers bear."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def asked(one: _Asked) -> _Answer:
        async with slots:
            return await ask(one)

    return await asyncio.gather(*map(asked, about))


async def _with_outcome(client: Client, run: Run) -> Run:
    # To Temporal a run that met a limit, and one that Claude refused, have completed.
    if run.outcome or run.status != "Completed":
        return run
    try:
        done = await ended(client, run)
    except (NoSuchRun, PayloadError):  # forgotten just now; or its result's file is gone
        return run
    return replace(run, outcome=done.result.outcome if done else "")


async def pages(client: Client, query: str) -> AsyncIterator[Sequence[WorkflowExecutionInfo]]:
    """Read what Temporal's index has for a query, in its order. Raises `RPCError`."""
    request = ListWorkflowExecutionsRequest(
        namespace=client.namespace, page_size=_PAGE, query=query
    )
    while True:
        page = await client.workflow_service.list_workflow_executions(
            request, timeout=history.RPC_TIMEOUT
        )
        yield page.executions
        if not page.next_page_token:
            return
        request.next_page_token = page.next_page_token


def _no_newer(found: Sequence[Run], which: Which, limit: int) -> bool:
    """Say whether no run that is still to come can be newer than those that will be shown.

    Temporal tells open runs first, then closed ones by their end, and none begins after that.
    """
    last = found[-1].closed if len(found) >= limit else None
    if last is None:
        return False
    newest = sorted((run.started for run in found if which.means(run)), reverse=True)
    return len(newest) >= limit and newest[limit - 1] >= last


def _marked(infos: Sequence[WorkflowExecutionInfo], runs: Sequence[Run]) -> list[Run]:
    """Mark those that a reset left behind: each run it made has their id and their beginning."""
    goes_on = dict[tuple[str, datetime], str]()
    by_start = sorted(zip(infos, runs, strict=True), key=lambda each: _start_ns(each[0]))
    for _, run in by_start:
        goes_on[run.id, run.started] = run.run_id
    return [replace(run, reset=goes_on[run.id, run.started] != run.run_id) for run in runs]


def _start_ns(info: WorkflowExecutionInfo) -> int:
    return info.start_time.ToNanoseconds()


def amount(run: Run, sort: Sort) -> float | None:
    """What runs are sorted by; None: it is not known of this one."""
    told = {
        "started": run.started.timestamp(),
        "cost": run.indexed.cost_usd,
        "tokens": run.indexed.tokens,
        "step": run.indexed.step,
    }
    return told[sort]


def _keys(sort: Sort) -> Callable[[Run], tuple[bool, float, datetime]]:
    def key(run: Run) -> tuple[bool, float, datetime]:
        found = amount(run, sort)
        return found is not None, found or 0.0, run.started

    return key
