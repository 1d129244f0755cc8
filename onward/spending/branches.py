"""What requests cost of which a run's own history does not tell.

A reset run begins again from a copy of the history up to some point: what was asked after that
point cost money, and only the ledger knows of it. So does a run that was cut off in mid-step.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError
from temporalio.client import Client

from onward import history
from onward.audit.held import Held, held_of
from onward.errors import ConnectError, PayloadError
from onward.messages import ClaudeReply, Spend
from onward.pricing import spend_of
from onward.runs import Run, rpc_errors
from onward.session import Session
from onward.spending.steps import Steps, steps_of


@dataclass(frozen=True)
class Beyond:
    """What the ledger knows of requests beyond those in a run's history."""

    steps: Mapping[str, Spend] = field(default_factory=dict[str, Spend])
    """What those cost, by step."""
    missing: str = ""
    """Why there may be more; empty: that is all."""

    @property
    def spend(self) -> Spend:
        """What they cost together."""
        return sum(self.steps.values(), Spend())


async def was_reset(client: Client, run: Run) -> bool:
    """Say whether the run stems from a reset. Raises NoSuchRun, ConnectError."""
    async with rpc_errors(run.id):
        started = await history.start_of(client, run.key)
    if started is None:
        return False
    if started.original_execution_run_id not in {"", run.run_id}:
        return True
    request = await history.request_in(client, started)
    return bool(request and request.carried and request.carried.reset_lineage)


async def beyond(session: Session, run: Run) -> Beyond:
    """Find what requests cost that are in no history of the run's. Raises NoSuchRun."""
    try:
        held = await held_of(session, run)
        if held.empty:
            return Beyond(missing="Redis has no records of the run")
        steps = await steps_of(session.client, run)
    except (ConnectError, PayloadError) as error:
        return Beyond(missing=str(error))
    # Records that were made anew after a loss lack what came before it.
    missing = "" if held.nonce == steps.nonce else "Redis has lost records of the run"
    under_way = steps.asking if run.open else ""
    untold = {step: spend for step, spend in _untold(steps, held) if step != under_way}
    return Beyond(untold, missing)


def _untold(steps: Steps, held: Held) -> Iterator[tuple[str, Spend]]:
    for step in held.attempts:
        told, found = steps.spends.get(step, Spend()), _in_ledger(held, step)
        if found.requests > told.requests:
            yield step, found - told


def _in_ledger(held: Held, step: str) -> Spend:
    record = held.records.get(step)
    if record and record.st == "done":
        try:
            return ClaudeReply.model_validate_json(record.result).spend
        except ValidationError:
            pass  # its attempts are noted, too
    return spend_of(held.attempts[step])
