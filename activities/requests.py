"""The requests sent to Claude for one step, over all attempts: their number bounds the retries.

What a stream reports of its usage goes to the ledger at once, and into the next heartbeat as a
second source; so a killed attempt's tokens are counted by the one that follows it.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from anthropic import AsyncAnthropic
from redis.exceptions import RedisError
from temporalio import activity

from activities.failures import again, stop
from activities.pulse import Pulse
from onward import claude
from onward.claude import Posture
from onward.claude_request import Request
from onward.ledger import Ledger
from onward.messages import Attempt, Spend
from onward.pricing import spend_of
from onward.stream import MessageFold

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0


class StepRequests:
    """Requests of one step; this attempt's own is under `token`."""

    def __init__(self, ledger: Ledger, step: str, token: str, pulse: Pulse) -> None:
        self._ledger, self._step, self._token, self._pulse = ledger, step, token, pulse
        self._attempts = _from_heartbeat()
        self._noting: asyncio.Task[None] | None = None
        self._noted: Attempt | None = None
        self._tell()

    def load(self, usages: Mapping[str, Any]) -> None:
        """Add what the ledger knows of earlier attempts, by token."""
        for token, usage in usages.items():
            self._attempts[token] = Attempt.model_validate(usage)
        for token, attempt in self._attempts.items():
            # Whole or not, its reply was not recorded: we would not be asking again.
            self._attempts[token] = attempt.model_copy(update={"whole": False})
        self._tell()

    async def keep(self) -> None:
        """Tell the ledger what only the heartbeat knows, so that the step's next activity does."""
        for token in self._attempts:
            await self._write(token)

    @property
    def spend(self) -> Spend:
        """Of all attempts so far, lost ones included."""
        return spend_of(self._attempts.values())

    @property
    def sent(self) -> int:
        """Requests that may have reached the API."""
        return sum(attempt.sent for attempt in self._attempts.values())

    @property
    def sent_now(self) -> bool:
        """This attempt sent its request."""
        mine = self._attempts.get(self._token)
        return mine is not None and mine.sent

    async def send(self, anthropic: AsyncAnthropic, request: Request) -> dict[str, Any]:
        """Send this attempt's request and return Claude's whole message.

        Noted before it is sent: a request whose attempt dies must not look as if it cost nothing.
        """
        self._attempts[self._token] = Attempt(model=request.model)
        self._tell()
        await self._write()
        message = await claude.ask(anthropic, request, self._progress)
        self._update(whole=True)
        # What it used is written; that it is whole, the reply's own record says.
        if self._noting:
            await self._noting
        return message

    async def failed(self, posture: Posture, limit: int) -> Exception:
        """Say how the attempt ends after its request failed: tried again, or stopped for good."""
        self._update(sent=posture.sent, refused=posture.refused)
        self._pulse.beat()
        if self._noting:
            await self._noting
        await self._write()
        if not posture.sent:
            return again("claude", posture.message, posture.delay_s)
        if posture.then == "stop":
            return stop("claude", posture.message, self.spend)
        if posture.then == "context_exceeded":
            return stop("context_exceeded", posture.message, self.spend)
        return self.exhausted(limit, posture.message) or again(
            "claude", posture.message, posture.delay_s or self._backoff_s()
        )

    def exhausted(self, limit: int, last: str = "") -> Exception | None:
        """Say that the step has used up its requests; None if it has not."""
        if self.sent < limit:
            return None
        text = f"{self.sent} requests were sent for step {self._step} and none was answered whole"
        return stop("claude", f"{text}. {last}".strip(), self.spend)

    def _progress(self, fold: MessageFold) -> None:
        usage, model = fold.usage, fold.model
        mine = self._attempts[self._token]
        if usage and usage != mine.usage:
            self._update(usage=usage, model=model or mine.model)
            if self._noting is None or self._noting.done():
                self._noting = asyncio.create_task(self._note())

    async def _note(self) -> None:
        """Write what the stream reports as it comes; what comes in one piece, once."""
        while self._noted != self._attempts[self._token]:
            self._noted = self._attempts[self._token]
            await self._write()

    def _update(self, **changes: Any) -> None:
        mine = self._attempts[self._token]
        self._attempts[self._token] = mine.model_copy(update=changes)
        self._tell()

    def _tell(self) -> None:
        attempts = self._attempts.items()
        self._pulse.details = {token: each.model_dump(mode="json") for token, each in attempts}

    def _backoff_s(self) -> float:
        return float(min(_FIRST_WAIT_S * 2 ** max(self.sent - 1, 0), _LONGEST_WAIT_S))

    async def _write(self, token: str = "") -> None:
        token = token or self._token
        usage = self._attempts[token].model_dump(mode="json")
        try:
            await self._ledger.usage(self._step, token=token, usage=usage)
        except RedisError as error:
            # A number for people must not lose a reply; the heartbeat holds it too.
            activity.logger.warning("cannot note usage in the ledger: %s", error)


def _from_heartbeat() -> dict[str, Attempt]:
    details = activity.info().heartbeat_details
    last: dict[str, Any] = details[0] or {} if details else {}
    return {token: Attempt.model_validate(usage) for token, usage in last.items()}
