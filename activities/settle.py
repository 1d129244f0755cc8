"""Settle a call of a run that is over: from then on no late attempt can begin to act on it."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from onward import json_text
from onward.errors import LedgerUnreadable
from onward.forking.copying import NOT_RUN
from onward.forking.cut import StepCall
from onward.ledger import Claim, Ledger, Verdict
from onward.messages import CallResult, Doubt, PreparedCall, Witness

from .failures import again

_LEASE_MS = 10_000
_WHY = "the run ended while it was under way"


async def settle(ledger: Ledger, asked: StepCall, token: str) -> None:
    """Give a call a definite end in the ledger of its own run, unless it has one.

    `token` names who settles, the same in each attempt. Raises what Temporal retries while an old
    attempt holds a lease on it.
    """
    name, end = asked.call.call, await _closed(ledger, asked.call, asked.witness, token)
    if end.verdict == "busy":
        until = datetime.now(UTC) + timedelta(milliseconds=end.wait_ms)
        text = f"call {name} of the run to copy is held by an old attempt until {until:%X} UTC"
        raise again("busy", f"{text}; the fork waits for it", delay_s=end.wait_ms / 1000)


async def is_definite(ledger: Ledger, doubt: Doubt, token: str, patience_s: float) -> bool:
    """Settle a call that a cancel cut off, and say whether it has an end that is no doubt.

    An attempt that holds a lease is waited for, `patience_s` seconds at most.
    """
    ends = time.monotonic() + patience_s
    try:
        while (end := await _closed(ledger, doubt.call, doubt.witness, token)).verdict == "busy":
            if time.monotonic() > ends:
                return False
            await asyncio.sleep(end.wait_ms / 1000)
    except LedgerUnreadable:  # a newer release's record: whether it is settled, only that can tell
        return False
    return end.verdict in {"done", "failed"}


async def _closed(
    ledger: Ledger, call: PreparedCall, witness: Witness, token: str
) -> Claim | Verdict:
    """Claim a call as an attempt would, and close it; returns what the ledger says of it then.

    The claim alone can prove that no attempt came before: a look could not, because a paused one
    might claim it a moment later, and act. Then it failed; or it is in doubt.
    """
    same: dict[str, Any] = {"fp": call.fingerprint, "cls": call.effect, "token": token}
    claim = await ledger.claim(
        call.call, **same, lease_ms=_LEASE_MS, witness=witness, lineage=False
    )
    if claim.verdict != "claimed":
        return claim
    if claim.may_have_sent:
        return await ledger.doubt(call.call, **same, why=_WHY)
    never = CallResult(status="failed", content=json_text.dumps(NOT_RUN), is_error=True)
    return await ledger.fail(call.call, **same, fence=claim.fence, error=never.record())
