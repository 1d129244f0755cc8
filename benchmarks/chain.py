"""What a workflow's histories hold, over every run that continue-as-new chained."""

from dataclasses import dataclass

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

CARRY = "carry"
"""The activity that makes what a continued run begins with."""


@dataclass
class ChainBytes:
    """Sizes as Temporal counts them: bytes of serialized events."""

    history_bytes: int = 0
    """All events of all runs, without `carried_bytes`."""
    carried_bytes: int = 0
    """What continue-as-new hands on: its input, where it is sent and where it starts the next run,
    and the results of the activity `carry`."""
    events: int = 0
    continued_as_new: int = 0
    """How often."""

    @property
    def all_bytes(self) -> int:
        """Every byte of every run."""
        return self.history_bytes + self.carried_bytes


async def chain_bytes(client: Client, workflow_id: str, first_run_id: str) -> ChainBytes:
    """Read all runs of a chain, from the first on, and add up their sizes."""
    sizes, run_id = ChainBytes(), first_run_id
    while run_id:
        run_id = await _add_run(client, sizes, workflow_id, run_id)
    return sizes


async def _add_run(client: Client, sizes: ChainBytes, workflow_id: str, run_id: str) -> str:
    """Add one run; returns the run that follows it, or an empty text."""
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    carries, next_run = set[int](), ""
    async for event in handle.fetch_history_events():
        carried = _carried(event, carries)
        sizes.events += 1
        sizes.carried_bytes += carried
        sizes.history_bytes += event.ByteSize() - carried
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
            sizes.continued_as_new += 1
            continued = event.workflow_execution_continued_as_new_event_attributes
            next_run = continued.new_execution_run_id
    return next_run


def _carried(event: HistoryEvent, carries: set[int]) -> int:
    """Bytes in an event that only hand on what earlier events hold; notes where `carry` runs."""
    match event.event_type:
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            started = event.workflow_execution_started_event_attributes
            return started.input.ByteSize() if started.continued_execution_run_id else 0
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
            return event.workflow_execution_continued_as_new_event_attributes.input.ByteSize()
        case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            if event.activity_task_scheduled_event_attributes.activity_type.name == CARRY:
                carries.add(event.event_id)
        case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            completed = event.activity_task_completed_event_attributes
            if completed.scheduled_event_id in carries:
                return completed.result.ByteSize()
        case _:
            pass
    return 0
