"""Ask the other side whether an effect happened, for the classes that can: `sealed` and `timed`."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onward.errors import OnwardError
from onward.ledger import Claim
from onward.tools import Tool, ToolContext

from .lease import Lease


class NotVerified(OnwardError):
    """The other side did not say whether the effect happened; this attempt has sent nothing."""


@dataclass(frozen=True)
class Happened:
    """The effect happened, and this was its result."""

    result: object


@dataclass(frozen=True)
class Verifier:
    """Asks for one attempt at one call."""

    tool: Tool[..., Any]
    strict: bool
    takeover_s: float
    lease: Lease

    async def happened(
        self, claim: Claim, fields: Mapping[str, Any], context: ToolContext
    ) -> Happened | None:
        """Say whether an earlier request took effect; None: it did not, and never will.

        Raises `NotVerified`.
        """
        if self.tool.effect == "sealed":
            # A lossy server may have two primaries, each with a "first" claim.
            asked = claim.may_have_sent or not self.strict
            return await self._ask(fields, context) if asked else None
        if self.tool.effect == "timed" and claim.may_have_sent:
            return await self._ask_once_settled(fields, context)
        return None

    async def _ask_once_settled(
        self, fields: Mapping[str, Any], context: ToolContext
    ) -> Happened | None:
        # An attempt sends only while its lease lasts; what it sent last settles after that.
        await asyncio.sleep(self.takeover_s + (self.tool.options.settle_s or 0))
        return await self._ask(fields, context)

    def refuse_late(self) -> None:
        """Raise `NotVerified` where a `timed` tool would start after its lease.

        Its successor counts on that nothing is sent any more.
        """
        if self.tool.effect == "timed" and not self.lease.fresh:
            raise NotVerified("the lease ran out before the tool started")

    async def _ask(self, fields: Mapping[str, Any], context: ToolContext) -> Happened | None:
        try:
            result = await self.tool.ask_downstream(fields, context)
        except Exception as error:
            raise NotVerified(f"{type(error).__name__}: {error}") from error
        return None if result is None else Happened(result)
