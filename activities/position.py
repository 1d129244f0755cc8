"""One step or call in the ledger, as one attempt at it sees and tells it."""

import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from redis.exceptions import RedisError
from temporalio import activity

from onward.ledger import Claim, Ledger, Verdict
from onward.messages import EffectClass, Witness

from .failures import again


@dataclass(frozen=True)
class Position:
    """A place in the ledger with everything that stays the same over one attempt."""

    ledger: Ledger
    step: str
    """`12`, `12.r1`, or a call: `12.1`."""
    fp: str
    effect: EffectClass
    witness: Witness
    lineage: bool
    takeover_s: float
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Names this attempt; never used by another."""

    @property
    def _lease_ms(self) -> int:
        # Never longer than the heartbeat timeout, else the next attempt starts and finds it busy.
        return int(self.takeover_s * 1000)

    async def claim(self, turn: str | None = None) -> Claim:
        """Ask for the right to send. Raises what Temporal retries while another attempt has it."""
        claim = await self.ledger.claim(
            self.step,
            fp=self.fp,
            cls=self.effect,
            token=self.token,
            lease_ms=self._lease_ms,
            witness=self.witness,
            lineage=self.lineage,
            turn=turn,
        )
        if claim.verdict == "busy":
            text = f"another attempt at {self.step} is at work"
            raise again("busy", text, delay_s=claim.wait_ms / 1000)
        return claim

    async def renew(self) -> bool:
        """Push the lease; False where the claim is another attempt's now."""
        done = await self.ledger.renew(
            self.step, fp=self.fp, token=self.token, lease_ms=self._lease_ms
        )
        # A record that was wiped is nobody's: what this attempt brings restores the truth.
        return done.verdict == "claimed" or done.why == "absent"

    async def complete(self, result: str, turn: str | None = None) -> Verdict | None:
        """Record the result; None where Redis cannot be told, which loses nothing: history is."""
        return await self._tell(
            "complete",
            result=result,
            **({"turn": turn, "witness": self.witness, "lineage": self.lineage} if turn else {}),
        )

    async def fail(self, error: str, fence: int) -> Verdict | None:
        """Record a refusal, under the claim's `fence`, that did nothing; None as in `complete`."""
        return await self._tell("fail", error=error, fence=fence)

    async def doubt(self, why: str) -> Verdict | None:
        """Record that the outcome is unknown; None as in `complete`."""
        return await self._tell("doubt", why=why)

    async def release(self, *, maybe: bool, count: bool = True) -> None:
        """Give the claim back. Where Redis cannot be told, its lease runs out instead."""
        with suppress(RedisError):
            await self.ledger.release(
                self.step, fp=self.fp, token=self.token, maybe=maybe, count=count
            )

    async def _tell(
        self, op: Literal["complete", "fail", "doubt"], **told: object
    ) -> Verdict | None:
        telling = getattr(self.ledger, op)
        try:
            verdict: Verdict = await telling(
                self.step, fp=self.fp, cls=self.effect, token=self.token, **told
            )
        except RedisError as error:
            activity.logger.warning("cannot record %s: %s", self.step, error)
            return None
        if verdict.verdict == "fenced":
            raise again("busy", f"{self.step} was taken over by another attempt")
        return verdict
