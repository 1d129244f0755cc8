"""A step's share of its model's rate limits: waited for, heard of, settled.

Where Redis is away a step goes on without: the API's own 429 is what it falls back to.
"""

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from redis.exceptions import RedisError
from temporalio import activity

from activities.failures import again
from onward.claude_errors import Posture
from onward.claude_request import Request
from onward.context_window import turn_tokens
from onward.identity import run_key
from onward.messages import Attempt, CachePolicy, ContextUse, RunRef
from onward.rate_limits import RateLimits, Turn
from onward.rates import Rates, Told, counted, told_by

_IN_PLACE_S = 1.0
"""A longer wait gives back claim and slot: whoever waits must hold up nobody else."""
_BYTES_PER_TOKEN = 4
_WORDS = {"requests": "requests", "input": "input tokens", "output": "output tokens"}


class Share:
    """The share of one request of one step."""

    def __init__(self, limits: RateLimits, model: str, who: str) -> None:
        self._limits, self._model, self._who = limits, model, who
        self._reserved = False
        self._learning: asyncio.Task[None] | None = None

    async def wait(self, input_tokens: int) -> None:
        """Return when the request may be sent. Raises the error that tries again at its time."""
        turn = await self._turn(input_tokens)
        while turn.wait_s:
            if turn.wait_s > _IN_PLACE_S:
                raise again("rate_limited", self._words(turn), delay_s=turn.wait_s)
            await asyncio.sleep(turn.wait_s)
            turn = await self._turn(input_tokens)
        self._reserved = turn.reserved

    def heard(self, headers: Mapping[str, str]) -> None:
        """Learn from the headers of a response, whose reply may take minutes yet."""
        told = told_by(headers)
        if told.limits:
            self._learning = asyncio.create_task(self._learn(told))

    async def settle(self, attempt: Attempt, failure: Posture | None = None) -> None:
        """Correct what was charged by what the request counted, now that it is over."""
        if self._learning:
            await self._learning
        with _going_on():
            if failure and failure.rate_limited:
                seconds, guessed = failure.delay_s or 0, not failure.hinted
                await self._limits.slow(self._model, seconds, guessed=guessed)
            if self._reserved:
                await self._limits.settle(self._who, _counted(attempt))

    async def _turn(self, input_tokens: int) -> Turn:
        with _going_on():
            return await self._limits.take(self._model, self._who, input_tokens)
        return Turn(reserved=False)

    async def _learn(self, told: Told) -> None:
        with _going_on():
            await self._limits.learn(self._model, told)

    def _words(self, turn: Turn) -> str:
        at = f"{datetime.now(UTC) + timedelta(seconds=turn.wait_s):%H:%M:%S} UTC"
        if turn.why == "refused":
            return f"waits until {at}: Claude's API has answered 429 to a request for {self._model}"
        per_minute = f"{turn.limit:,} {_WORDS[turn.why or 'requests']} per minute"
        return f"waits until {at} for its share of {self._model}'s {per_minute}"


def uncached_tokens(
    request: Request, turn: str, last: ContextUse | None, cache: CachePolicy
) -> int:
    """Estimate the input tokens of a request that count: those that the cache does not hold.

    `turn`: JSON text of the user turn that it ends with; `last`: how long the one before was.
    """
    if last is not None and cache == "off":
        return last.tokens + turn_tokens(turn)
    held_bytes = 0 if last is None else last.body_bytes
    other_bytes = len(request.body) - held_bytes - len(turn.encode())
    return max(other_bytes, 0) // _BYTES_PER_TOKEN + turn_tokens(turn)


def step_name(run: RunRef, step: str) -> str:
    """Name a step to the rate limits: every attempt at it finds its reservation by that."""
    return f"{run_key(run.workflow_id, run.first_run_id)}:{step}"


async def give_back(limits: RateLimits, who: str) -> None:
    """Give up a reservation that nobody will come back for."""
    with _going_on():
        await limits.drop(who)


def _counted(attempt: Attempt) -> Rates:
    if attempt.refused or not attempt.sent:
        return Rates(0, 0, 0)
    return counted(attempt.usage)


@contextmanager
def _going_on() -> Generator[None]:
    try:
        yield
    except RedisError as error:
        activity.logger.warning("cannot share the rate limits with other workers: %s", error)
