"""A step's share of its model's rate limits: waited for, heard of, settled.

Where Redis is away a step goes on without: the API's own 429 is what it falls back to.
"""

import asyncio
import math
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from redis.exceptions import RedisError
from temporalio import activity

from onward.claude_errors import Posture
from onward.claude_request import Request
from onward.context_window import turn_tokens
from onward.identity import run_key
from onward.messages import Attempt, CachePolicy, ContextUse, RunRef
from onward.rate_limits import Permit, RateLimits
from onward.rates import Rates, Told, counted, pool, told_by
from onward.transcript import Turn

from .failures import again

_IN_PLACE_S = 1.0
"""A longer wait gives back claim and slot: whoever waits must hold up nobody else."""
_BYTES_PER_TOKEN = 4
_LEAST_CACHED_BYTES = 512 * _BYTES_PER_TOKEN
"""Shorter prompts are not cached, and count again with the next request. (Older models have a
higher minimum; settling makes up for it.)"""
_WORDS = {"requests": "requests", "input": "input tokens", "output": "output tokens"}


class Share:
    """The share of one request of one step."""

    def __init__(self, limits: RateLimits, request: Request, who: str) -> None:
        self._limits, self._who = limits, who
        self._fast = b'"speed":"fast"' in request.body[: request.messages_at]
        self._pool = pool(request.model, fast=self._fast)
        self._reserved = False
        self._learning: asyncio.Task[None] | None = None

    async def wait(self, input_tokens: int, until_ms: int | None = None) -> None:
        """Return when the request may be sent. Raises the error that tries again at its time.

        `input_tokens`: an estimate; `until_ms`: when the run's own time is up.
        """
        permit = await self._take(input_tokens)
        while permit.wait_s:
            if permit.wait_s > _IN_PLACE_S:
                delay_s = min(permit.wait_s, seconds_to(until_ms))
                raise again("rate_limited", self._words(permit), delay_s, expected=True)
            await asyncio.sleep(permit.wait_s)
            permit = await self._take(input_tokens)
        self._reserved = permit.reserved

    def heard(self, headers: Mapping[str, str]) -> None:
        """Learn from the headers of a response, whose reply may take minutes yet."""
        told = told_by(headers, fast=self._fast)
        if told.limits:
            self._learning = asyncio.create_task(self._learn(told))

    async def settle(self, attempt: Attempt, failure: Posture | None = None) -> None:
        """Correct what was charged by what the request counted, now that it is over."""
        if self._learning:
            await self._learning
        with _going_on():
            if failure and failure.rate_limited:
                seconds, guessed = failure.delay_s or 0, not failure.hinted
                await self._limits.slow(self._pool, seconds, guessed=guessed)
            if self._reserved:
                await self._limits.settle(self._who, _counted(attempt))

    async def _take(self, input_tokens: int) -> Permit:
        with _going_on():
            return await self._limits.take(self._pool, self._who, input_tokens)
        return Permit(reserved=False)

    async def _learn(self, told: Told) -> None:
        with _going_on():
            await self._limits.learn(self._pool, told)

    def _words(self, permit: Permit) -> str:
        at = f"{datetime.now(UTC) + timedelta(seconds=permit.wait_s):%H:%M:%S} UTC"
        if permit.why is None:
            return f"waits until {at}: Claude's API takes no request for {self._pool} before (429)"
        per_minute = f"{permit.limit:,} {_WORDS[permit.why]} per minute"
        return f"waits until {at} for its share of {self._pool}'s {per_minute}"


def seconds_to(until_ms: int | None) -> float:
    """Seconds until a moment, Unix ms; None: it never comes."""
    return math.inf if until_ms is None else max(until_ms / 1000 - time.time(), 0)


def uncached_tokens(
    request: Request, turn: Turn, last: ContextUse | None, cache: CachePolicy
) -> int:
    """Estimate the input tokens of a request that count: those that the cache does not hold.

    `turn` is what it ends with; `last` says how long the one before was.
    """
    new = turn_tokens(turn.content)
    if last is not None and cache == "off":
        return last.tokens + new
    held_bytes = last.body_bytes if last and last.body_bytes > _LEAST_CACHED_BYTES else 0
    other_bytes = len(request.body) - held_bytes - len(turn.content.encode())
    return max(other_bytes, 0) // _BYTES_PER_TOKEN + new


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
