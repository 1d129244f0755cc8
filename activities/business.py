"""The record that calls share which ask for the same thing, as their tool's `key_from` says.

A call first claims its own place in the ledger, which keeps its attempts apart, and then this
record, which keeps it apart from other calls. Here the token names the call and not the attempt.
"""

import json
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError
from temporalio import activity
from temporalio.exceptions import ApplicationError

from onward import json_text
from onward.identity import shared_hash
from onward.ledger import Claim, Ledger
from onward.lifetime import BUSINESS_KEY_KEPT_MS
from onward.messages import (
    BusinessKey,
    CallResult,
    EffectClass,
    ResolveInput,
    Settlement,
    ToolInput,
    Witness,
)
from onward.tools.results import renamed

from .position import Position
from .reading import recorded_result
from .services import Services, reset_lineage


class BusinessRecord:
    """The shared record, as one attempt at one call sees and tells it."""

    def __init__(
        self, services: Services, given: ToolInput | ResolveInput, key: BusinessKey
    ) -> None:
        self._given, self._key = given, key
        hash_key = shared_hash(given.run.deployment, key.position) if key.everywhere else None
        self._ledger = Ledger(services.redis, given.run, strict=services.strict, key=hash_key)
        self._converter = services.temporal.data_converter
        self._effect: EffectClass = given.effect
        self._position: Position | None = None

    async def claim(self) -> Claim:
        """Ask for the right to act on this key. `claimed` gives it; done is the first's result."""
        self._position = await self._place()
        return await self._position.claim()

    @property
    def call(self) -> str:
        """Which call this is, for whoever asks for the same later."""
        return f"{self._given.run.workflow_id} {self._given.call}"

    async def renew(self) -> bool:
        """Push the lease. Never a reason to stop: the call's own claim decides that."""
        if self._position is not None:
            await self._position.renew()
        return True

    async def done(self, result: CallResult) -> None:
        """Keep the result for whoever asks for the same."""
        if self._position is not None:
            named = result.model_copy(update={"first_call": self.call})
            await self._tell(self._position.complete(named.record()))

    async def mine(self) -> CallResult | None:
        """Return what this very call did, where an attempt that told it here went no further."""
        place = await self._held()
        record = (await self._ledger.records(place.step)).records.get(place.step)
        if record is None or record.st != "done" or record.own != place.token:
            return None
        await self._forget_later()
        result = await recorded_result(self._converter, record.result)
        return result.model_copy(update={"first_call": ""})

    async def repeated(self, record: str) -> CallResult:
        """Make the result of a call that asked for what an earlier one, of this record, did."""
        first = await recorded_result(self._converter, record)
        await self._forget_later()
        return _repeated(first, self._given.call)

    async def doubt(self, why: str) -> None:
        """Keep that the outcome is unknown."""
        await self._tell((await self._held()).doubt(why))

    async def free(self) -> None:
        """Let the next call act: this one certainly did nothing."""
        await self._tell((await self._held()).release(maybe=False))

    async def settled(self, outcome: Settlement, result: CallResult) -> None:
        """Take what a person found out about the call."""
        self._position = await self._place()
        place = self._key.position
        record = (await self._ledger.records(place)).records.get(place)
        if record and record.st == "doubt":
            await self._ledger.resolve(
                place,
                fp=place,
                cls=self._effect,
                at_ms=record.at_ms,
                to="retry" if outcome == "failed" else outcome,
                result=result.model_copy(update={"first_call": self.call}).record(),
                quarantine_ms=0,
                by="",
            )
        elif outcome == "done":
            await self.done(result)
        elif outcome == "failed":
            await self.free()

    async def _held(self) -> Position:
        # An attempt that gives the call up has not claimed it: those before it have.
        self._position = self._position or await self._place()
        return self._position

    async def _place(self) -> Position:
        return Position(
            self._ledger,
            step=self._key.position,
            fp=self._key.position,
            effect=self._effect,
            witness=await self._witness(),
            lineage=reset_lineage(self._given.run) and not self._key.everywhere,
            takeover_s=self._given.takeover_s,
            # Not the run's name alone: a later run may have it, and as the same owner would fire
            # what may be under way.
            token=f"{self._given.run.first_run_id} {self.call}",
        )

    async def _witness(self) -> Witness:
        if not self._key.everywhere:
            return self._given.witness
        # No run's history proves that a record of all runs was never lost: it is trusted, and
        # after a loss of Redis only the other side's own deduplication protects.
        return await self._ledger.begin(None, reset_lineage=False)

    async def _tell(self, telling: Awaitable[object]) -> None:
        # The call's own record and history are what counts; after an effect nothing fails here.
        with suppress(ApplicationError):
            await telling
        await self._forget_later()

    async def _forget_later(self) -> None:
        if self._key.everywhere:
            try:
                await self._ledger.end(BUSINESS_KEY_KEPT_MS)
            except RedisError as error:
                activity.logger.warning("a business key has no expiry: %s", error)


def _repeated(first: CallResult, call: str) -> CallResult:
    note = (
        f"Not done again: call {first.first_call} asked for the same and was done. Its result was:"
    )
    # In another run the first call's id is that of another call, or of none.
    text = renamed(first.content, first.first_call.rpartition(" ")[2], call)
    content: Any = json.loads(text)
    blocks: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    noted = json_text.dumps([{"type": "text", "text": note}, *blocks])
    return first.model_copy(update={"content": noted, "took_s": 0.0, "recorded": True})
