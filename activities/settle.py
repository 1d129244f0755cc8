"""Settle a call of a run that is over: from then on no late attempt can begin to act on it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from activities.failures import again
from onward import json_text
from onward.forking.copying import NOT_RUN
from onward.forking.cut import StepCall
from onward.ledger import Ledger
from onward.messages import CallResult

_LEASE_MS = 10_000
_WHY = "the run ended while it was under way"


async def settle(ledger: Ledger, asked: StepCall, token: str) -> None:
    """Give a call a definite end in the ledger of its own run, unless it has one.

    It is claimed as an attempt would, which alone can prove that none came before: a look could
    not, because a paused attempt might claim it a moment later, and act. Then it failed; or it is
    in doubt. `token` names who settles, the same in each attempt.

    Raises what Temporal retries while an old attempt holds a lease on it.
    """
    call = asked.call
    same: dict[str, Any] = {"fp": call.fingerprint, "cls": call.effect, "token": token}
    claim = await ledger.claim(
        call.call, **same, lease_ms=_LEASE_MS, witness=asked.witness, lineage=False
    )
    if claim.verdict == "busy":
        until = datetime.now(UTC) + timedelta(milliseconds=claim.wait_ms)
        text = f"call {call.call} of the run to copy is held by an old attempt until {until:%X} UTC"
        raise again("busy", f"{text}; the fork waits for it", delay_s=claim.wait_ms / 1000)
    if claim.verdict != "claimed":
        return
    if claim.may_have_sent:
        await ledger.doubt(call.call, **same, why=_WHY)
        return
    never = CallResult(status="failed", content=json_text.dumps(NOT_RUN), is_error=True)
    await ledger.fail(call.call, **same, fence=claim.fence, error=never.record())
