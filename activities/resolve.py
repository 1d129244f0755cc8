"""Settle a call in doubt, as a person found out that it ended."""

import time
from typing import Literal

from temporalio import activity

from onward.errors import LedgerGap
from onward.ledger import Resolved
from onward.messages import CallResult, Resolution, ResolveInput
from onward.names import RESOLVE
from onward.tools import to_content

from .business import BusinessRecord
from .failures import stop, translated
from .pulse import Pulse
from .reading import recorded_result
from .services import Services

_WORDS = {
    "done": "A person looked into it: this call was done.",
    "failed": "A person looked into it: this call was not done, and will not be tried again.",
}


class ResolveActivity:
    """The activity `resolve`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=RESOLVE)
    async def resolve(self, given: ResolveInput) -> Resolution:
        """Record what the person says, or return what the call turned out to be meanwhile."""
        async with Pulse(given.takeover_s):
            with translated():
                return await self._resolve(given)

    async def _resolve(self, given: ResolveInput) -> Resolution:
        said = _said(given)
        ledger = self._services.ledger(given.run)
        told = await ledger.resolve(
            given.call,
            fp=given.fingerprint,
            cls=given.effect,
            at_ms=given.at_ms,
            to=given.outcome,
            result="" if given.outcome == "retry" else said.record(),
            quarantine_ms=given.quarantine_ms + _under_way_ms(given),
            by=given.by,
        )
        verdict = _settled_to(given, told)
        result = None if verdict == "open" else await self._recorded(told.result)
        if given.business is not None:
            business = BusinessRecord(self._services, given, given.business)
            await business.settled("retry" if verdict == "open" else verdict, result or said)
        return Resolution(verdict=verdict, result=result)

    async def _recorded(self, record: str) -> CallResult:
        return await recorded_result(self._services.temporal.data_converter, record)


def _under_way_ms(given: ResolveInput) -> int:
    # Redis may have been away meanwhile. What landed since the person looked, they have not seen.
    return max(0, int(time.time() * 1000) - given.said_ms)


def _settled_to(given: ResolveInput, told: Resolved) -> Literal["done", "failed", "open"]:
    """Return how the call stands now; raises where the person's word was not taken."""
    match told.verdict:
        # Stale: records were lost, and a late attempt doubts anew. Nobody is shown that doubt, so
        # history's is brought back; its quarantine begins again then.
        case "gap" | "stale":
            raise LedgerGap(f"found no doubt about call {given.call}, which history says there is")
        case "early":
            raise stop(
                "not_settled",
                f"a request of call {given.call} may still land for {told.wait_ms / 1000:.0f} s. "
                f"Say {given.outcome!r} after that; `done` can be said at any time",
            )
        case verdict:
            return verdict


def _said(given: ResolveInput) -> CallResult:
    words = _WORDS.get(given.outcome, "")
    return CallResult(
        status="done" if given.outcome == "done" else "failed",
        content=to_content(f"{words} {given.note}".strip()),
        is_error=given.outcome != "done",
    )
