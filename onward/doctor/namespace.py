"""The Temporal namespace: whether it answers, how long it remembers, what can be searched by."""

import math
from collections.abc import AsyncIterator
from datetime import timedelta

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError

from onward.checks import Check
from onward.doctor.site import Absent, Site
from onward.figures import duration
from onward.history import RPC_TIMEOUT
from onward.search_attributes import is_cloud, troubles, where
from onward.search_attributes import look as look_at_attributes

_DAY = timedelta(days=1)
_ALREADY_SET = (
    "Runs that began when that was not so stop at their next step until it is mended, and then go "
    "on by themselves"
)


async def look(site: Site) -> AsyncIterator[Check]:
    """Look at the server and the namespace."""
    client = site.temporal
    server = await client.workflow_service.get_system_info(
        GetSystemInfoRequest(), timeout=RPC_TIMEOUT
    )
    target, version = site.target, server.server_version
    found = f"{target.address}, namespace {target.namespace!r}, server {version}"
    yield Check("Temporal", "ok", found, figures={"version": version})
    yield await _retention(site)
    async for check in _search_attributes(client):
        yield check


async def _retention(site: Site) -> Check:
    try:
        described = await site.temporal.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=site.target.namespace), timeout=RPC_TIMEOUT
        )
    except RPCError as error:  # a key may be for runs alone
        return Check("retention", "note", f"cannot be read: {error.message}")
    kept = described.config.workflow_execution_retention_ttl.ToTimedelta()
    longest = _longest_run(site)
    figures = {"retention_s": kept.total_seconds(), "longest_run_s": longest.total_seconds()}
    found = f"closed runs are kept for {_span(kept)}, and a run may take {_span(longest)}"
    if kept >= longest:
        return Check("retention", "ok", found, figures=figures)
    todo = (
        "Of a longer run Temporal forgets the beginning while it goes on: audit and transcript "
        f"cannot tell all of it. Keep runs for longer:\n  {_keep(site.temporal, longest)}"
    )
    return Check("retention", "note", found, todo, figures)


def _longest_run(site: Site) -> timedelta:
    try:
        agents = site.app.agents.values()
    except Absent:
        return timedelta()
    return timedelta(seconds=max(agent.limits.max_wall_time for agent in agents))


def _keep(client: Client, longest: timedelta) -> str:
    days = math.ceil(longest / _DAY) + 1
    if is_cloud(client):
        return f"tcld namespace retention set {where(client)} --retention-days {days}"
    return f"temporal operator namespace update {where(client)} --retention {days}d"


def _span(length: timedelta) -> str:
    if length < _DAY:
        return duration(length.total_seconds())
    days = f"{length / _DAY:.3g}"
    return f"{days} day{'s' * (days != '1')}"


async def _search_attributes(client: Client) -> AsyncIterator[Check]:
    name = "search attributes"
    try:
        seen = await look_at_attributes(client)
    except RPCError as error:  # not every account may look
        yield Check(name, "note", f"cannot be read, so runs set none: {error.message}")
        return
    figures = {"missing": seen.missing, "clashes": {n: seen.types[n] for n in seen.clashes}}
    wrong = [*troubles(client, seen)]
    if not wrong:
        yield Check(name, "ok", "registered", figures=figures)
    for number, trouble in enumerate(wrong, 1):
        each = f"{name} {number}" if len(wrong) > 1 else name
        yield Check(each, "note", f"{trouble.found}. {_ALREADY_SET}", trouble.todo, figures)
