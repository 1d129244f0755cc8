"""The requests sent to Claude for one step, over all attempts: their number bounds the retries.

What a stream reports of its usage goes to the ledger at once, and into the next heartbeat as a
second source; so a killed attempt's tokens are counted by the one that follows it.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from anthropic import AsyncAnthropic
from redis.exceptions import RedisError
from temporalio import activity

from onward import claude
from onward.claude_errors import Posture
from onward.claude_request import Request
from onward.ledger import Ledger
from onward.messages import Attempt, ClaudeInput, Spend
from onward.pricing import spend_of, unbilled
from onward.stream import MessageFold

from .failures import again, stop
from .pulse import Pulse
from .rates import seconds_to

MOST_LOST = 12
"""Replies of one step that may be lost on their way: each may have cost as much as a whole one."""
_MOST_MISCONFIGURED = 3
"""Requests that may lead elsewhere before anything ever came from Claude."""
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 60.0
_BELIEVED = 10
"""Tries after which a wait that the server names is waited at least as long as its backoff."""

Hear = Callable[[Mapping[str, Any]], None]
"""Takes the next event of a reply's stream."""


class StepRequests:
    """Requests of one step; this attempt's own is under `token`.

    `first`: Claude has not said anything yet in this conversation.
    """

    def __init__(
        self, ledger: Ledger, step: str, token: str, pulse: Pulse, *, first: bool = False
    ) -> None:
        self._ledger, self._step, self._token, self._pulse = ledger, step, token, pulse
        self._first = first
        self._request: Request | None = None
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
    def lost(self) -> int:
        """Requests whose reply may have been paid for, and never arrived."""
        return sum(each.sent and not each.refused for each in self._attempts.values())

    @property
    def people_s(self) -> float:
        """Seconds that the step waited until somebody paid, or raised a limit at the API."""
        return sum(each.people_s for each in self._attempts.values())

    @property
    def current(self) -> Attempt:
        """This attempt's own request, once it was noted."""
        return self._attempts[self._token]

    @property
    def sent_now(self) -> bool:
        """This attempt sent its request."""
        mine = self._attempts.get(self._token)
        return mine is not None and mine.sent

    def prolonged(self, given: ClaudeInput) -> ClaudeInput:
        """Return the step's input with a deadline that leaves out the waiting for people."""
        rest = given.rest
        if rest is None or rest.until_ms is None or not self.people_s:
            return given
        until_ms = rest.until_ms + int(self.people_s * 1000)
        return given.model_copy(update={"rest": rest.model_copy(update={"until_ms": until_ms})})

    def heeding(self, request: Request) -> Request:
        """Return the request as the API's answers to earlier ones demand it."""
        allowed = [each.max_tokens for each in self._attempts.values() if each.max_tokens]
        if allowed and min(allowed) < request.max_tokens:
            request = request.but(max_tokens=min(allowed))
        in_one_piece = any(each.unstreamable for each in self._attempts.values())
        return request.but(stream=False) if in_one_piece else request

    async def send(
        self, anthropic: AsyncAnthropic, request: Request, hear: Hear, heard: claude.Heard
    ) -> dict[str, Any]:
        """Send this attempt's request and return Claude's whole message.

        `heard` takes the headers of the answer, `hear` the events of its stream.

        Noted before it is sent: a request whose attempt dies must not look as if it cost nothing.
        """
        self._request = request
        self._attempts[self._token] = Attempt(model=request.model)
        self._tell()
        await self._write()
        message = await claude.ask(anthropic, request, partial(self._progress, hear), heard)
        self._update(whole=True, unbilled=unbilled(message))
        # What it used is written; that it is whole, the reply's own record says.
        if self._noting:
            await self._noting
        return message

    async def failed(self, posture: Posture, limit: int, until_ms: int | None) -> Exception:
        """Say how the attempt ends after its request failed: tried again, or stopped for good.

        `until_ms`: when the run's own time is up. Nothing is sent after it, whatever the API says.
        """
        delay_s = wait_s(len(self._attempts), posture.delay_s)
        if not posture.for_people:  # time that is waited for people is not the run's own
            delay_s = min(delay_s, seconds_to(until_ms))
        self._update(
            sent=posture.sent,
            refused=posture.refused,
            misconfigured=posture.misconfigured,
            max_tokens=posture.max_tokens,
            unstreamable=posture.then == "unstreamed",
            people_s=delay_s if posture.for_people else 0.0,
        )
        self._pulse.beat()
        if self._noting:
            await self._noting
        await self._write()
        heeded = self._was_heeded(posture)
        if posture.then == "context_exceeded" or (heeded and posture.then == "lower"):
            return stop("context_exceeded", posture.message, self.spend)
        if posture.then == "stop" or heeded:
            return stop("claude", posture.message, self.spend)
        return self.exhausted(limit, posture.message) or again("claude", posture.message, delay_s)

    def exhausted(self, limit: int, last: str = "") -> Exception | None:
        """Say that the step has used up its requests; None if it has not."""
        tries, lost, wrong = len(self._attempts), self.lost, self._misconfigured
        if tries >= limit:
            text = f"{tries} requests were sent for step {self._step} and none was answered whole"
        elif lost >= MOST_LOST:
            text = f"{lost} replies to step {self._step} were lost on their way, and may be billed"
        elif self._first and wrong >= _MOST_MISCONFIGURED:
            text = f"{wrong} requests did not lead to Claude's API"
        else:
            return None
        return stop("claude", f"{text}. {last}".strip(), self.spend)

    @property
    def _misconfigured(self) -> int:
        return sum(each.misconfigured for each in self._attempts.values())

    def _was_heeded(self, posture: Posture) -> bool:
        """Say whether this very request already was what the API's answer demands."""
        request = self._request
        if request is None:
            return False
        short = posture.then == "lower" and request.max_tokens <= posture.max_tokens
        return short or (posture.then == "unstreamed" and not request.stream)

    def _progress(self, hear: Hear, fold: MessageFold, event: Mapping[str, Any]) -> None:
        hear(event)
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


def wait_s(tries: int, named_s: float | None) -> float:
    """Return the seconds to wait after so many tries; `named_s`: what the last answer says."""
    if named_s is None:
        return _backoff_s(tries)
    # A server that is away may name the same moment for ever.
    return max(named_s, _backoff_s(tries - _BELIEVED))


def _backoff_s(tries: int) -> float:
    return min(_FIRST_WAIT_S * 2 ** (tries - 1), _LONGEST_WAIT_S) if tries > 0 else 0.0
