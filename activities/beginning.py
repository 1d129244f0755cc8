"""What `begin` and `fork` share: the run's witness, and the record of its beginning."""

from collections.abc import Awaitable, Callable
from typing import Any

from temporalio import activity
from temporalio.service import RPCError

from onward.agents import Agent
from onward.errors import AppError
from onward.ledger import Ledger
from onward.messages import Limits, Opening, RunRef, Witness
from onward.models.table import Capacity
from onward.names import RULES
from onward.own_history import read_history
from onward.pricing import price_known
from onward.transcript import BEGINNING

from .position import Position
from .services import Services, reset_lineage


async def witness_of(
    services: Services, ledger: Ledger, run: RunRef, given: Witness | None
) -> Witness:
    """Take the run's witness; `given` is the one that it already had, if any."""
    lineage = reset_lineage(run)
    known = given or (await _original_witness(services, run) if lineage else None)
    return await ledger.begin(known, reset_lineage=lineage)


async def recorded(
    services: Services,
    ledger: Ledger,
    run: RunRef,
    witness: Witness,
    make: Callable[[], Awaitable[Opening]],
) -> Opening:
    """Record what `make` makes of the beginning; returns the one that was recorded first.

    Raises what Temporal retries while another attempt is at it.
    """
    position = Position(
        ledger,
        step=BEGINNING,
        fp=BEGINNING,
        effect="read",
        witness=witness,
        lineage=reset_lineage(run),
        takeover_s=services.takeover_s,
    )
    claim = await position.claim()
    first = claim.result
    if claim.verdict == "claimed":
        mine = (await make()).model_dump_json()
        told = await position.complete(mine)
        first = told.result if told else mine
    return Opening.model_validate_json(first).model_copy(update={"witness": witness})


async def decided_here(
    services: Services, agent: Agent, model: str, limits: Limits, known: Capacity | None
) -> dict[str, Any]:
    """Return the fields of the opening that this worker decides, whatever Claude was told before.

    `known`: what the model can. Raises `AppError` where a limit in money cannot be kept.
    """
    _refuse_unpriced(model, limits)
    return {
        "limits": limits,
        "takeover_s": services.takeover_s,
        "price_known": price_known(model),
        "attributes": await services.attributes(),
        "model": model,
        "compacts": agent.compacts(model),
        "context_window": known.context_window if known else None,
        "reads_in_step": True,
        "history_events": services.history_events,
        "cache": agent.cached,
        "waits_at_limit": agent.at_limit == "wait",
        "notifies": services.app.on_waiting is not None,
        "rules": RULES,
    }


def _refuse_unpriced(model: str, limits: Limits) -> None:
    """Raise `AppError` where a limit in money cannot be kept: the model's price is not known."""
    if limits.max_cost_usd is None or price_known(model):
        return
    raise AppError(
        f"the price of the model {model!r} is not known, so its run cannot be kept below "
        f"${limits.max_cost_usd}. Start it with `--max-cost-usd none`, or give its agent "
        f"`Limits(max_cost_usd=None)`: then {limits.max_tokens_total:,} tokens bound it, and of "
        f"those {limits.max_output_tokens:,} that Claude writes (`--max-tokens`, "
        "`--max-output-tokens`)"
    )


async def _original_witness(services: Services, run: RunRef) -> Witness | None:
    """Take the witness that a reset to the first task was not given: its original run's."""
    try:
        told = await read_history(services.temporal, run.workflow_id, run.original_run_id)
    except RPCError as error:
        activity.logger.warning("the original run's history is gone: %s", error)
        return None
    return told.first_witness
