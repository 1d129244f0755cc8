"""In a list each run stands as it does, by what Temporal says of it and what its index knows."""

from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.api.enums.v1 import WorkflowExecutionStatus as Status
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.converter import encode_typed_search_attribute_value

from onward.names import AGENT, COST, STATUS, TAGS, WAITING
from onward.runs import Run, run_of

_KEYS: dict[str, SearchAttributeKey[Any]] = {
    STATUS: SearchAttributeKey.for_keyword(STATUS),
    WAITING: SearchAttributeKey.for_keyword(WAITING),
    COST: SearchAttributeKey.for_float(COST),
    AGENT: SearchAttributeKey.for_keyword(AGENT),
    TAGS: SearchAttributeKey.for_keyword_list(TAGS),
    "OnwardOutcome": SearchAttributeKey.for_keyword("OnwardOutcome"),
}


async def described(client: Client, status: str, **told: Any) -> Run:
    """Describe a run as a list does, of which the index was told that."""
    info = WorkflowExecutionInfo(status=Status.Value(f"WORKFLOW_EXECUTION_STATUS_{status}"))
    info.start_time.FromDatetime(datetime.now(UTC))
    if status != "RUNNING":
        info.close_time.FromDatetime(datetime.now(UTC))
    for name, value in told.items():
        payload = encode_typed_search_attribute_value(_KEYS[name], value)
        info.search_attributes.indexed_fields[name].CopyFrom(payload)
    return await run_of(client, info)


@pytest.mark.parametrize(
    ("status", "told", "state"),
    [
        ("RUNNING", {}, "running"),
        ("RUNNING", {STATUS: "paused", WAITING: "approval"}, "paused"),
        ("RUNNING", {STATUS: "waiting", WAITING: "doubt"}, "waiting"),
        ("RUNNING", {WAITING: "limit"}, "waiting"),  # of a worker of before 0.5
        ("COMPLETED", {STATUS: "limit_cost"}, "limit_cost"),
        ("COMPLETED", {"OnwardOutcome": "refused"}, "refused"),
        ("COMPLETED", {STATUS: "cancelled", WAITING: "approval"}, "cancelled"),
        ("COMPLETED", {}, "completed"),
        ("CANCELED", {}, "cancelled"),
        ("FAILED", {STATUS: "running"}, "failed"),
        ("TERMINATED", {STATUS: "waiting", WAITING: "approval"}, "terminated"),
        ("TIMED_OUT", {STATUS: "running"}, "timed_out"),
    ],
)
async def test_the_word_for_how_a_run_stands(
    client: Client, status: str, told: dict[str, Any], state: str
) -> None:
    """What a run was when it was cut off, and what an older release told, mislead nobody."""
    run = await described(client, status, **told)
    assert (run.state, bool(run.waits_for)) == (state, status == "RUNNING" and WAITING in told)


async def test_a_name_that_is_somebody_elses_tells_nothing(client: Client) -> None:
    """Where `OnwardStatus` is a number of another program's, the run is not thought to be that."""
    info = WorkflowExecutionInfo(status=Status.WORKFLOW_EXECUTION_STATUS_RUNNING)
    number = encode_typed_search_attribute_value(SearchAttributeKey.for_int(STATUS), 7)
    info.search_attributes.indexed_fields[STATUS].CopyFrom(number)
    run = await run_of(client, info)
    assert (run.state, run.indexed.cost_usd, run.tags) == ("running", None, {})


async def test_a_run_that_no_command_started_has_agent_and_tags(client: Client) -> None:
    """One that the Temporal UI started has no memo; its workflow has told the index."""
    told = {AGENT: "support", TAGS: ["order=1042", "query=a=b"]}
    run = await described(client, "RUNNING", **told)
    assert (run.agent, run.tags) == ("support", {"order": "1042", "query": "a=b"})
