"""`pause` and `resume`, of a run or an agent; of an agent: stop new effects of all its runs."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import PydanticSerializationError
from redis.asyncio import Redis

from onward import run_input
from onward.client.saying import NO_TEXT, claimed_name
from onward.console import Output
from onward.errors import UsageError
from onward.figures import count
from onward.identity import run_key
from onward.invoked import typed
from onward.listing import Which, find
from onward.messages import Paused
from onward.pausing.switch import Switch, in_words
from onward.redis_server.connection import ledger_url, redis_client, redis_errors, shown
from onward.runs import Run, look
from onward.session import Session, open_session
from onward.steering import one_run

_LOOKED_FOR = 5
"""Runs of which one must have records in a Redis that is the right one."""


async def pause(run_id: str | None, agent: str | None, reason: str, out: Output, *, by: str) -> int:
    """Pause a run, or an agent: exactly one is named. Raises as both do."""
    match run_id, agent:
        case str(), None:
            return await one_run.pause(run_id, reason, out, by=by)
        case None, str():
            return await pause_agent(agent, reason, out, by=by)
        case _:
            raise _name_one("pause")


async def resume(
    run_id: str | None, agent: str | None, reason: str, out: Output, *, by: str
) -> int:
    """Lift the pause of a run, or of an agent: exactly one is named. Raises as both do."""
    match run_id, agent:
        case str(), None:
            return await one_run.resume(run_id, reason, out, by=by)
        case None, str():
            return await resume_agent(agent, out)
        case _:
            raise _name_one("resume")


def _name_one(command: str) -> UsageError:
    return UsageError(
        f"name either a run or an agent: `{typed(command)} RUN`, or `{typed(command)} --agent NAME`"
    )


async def pause_agent(agent: str, reason: str, out: Output, *, by: str = "") -> int:
    """Pause an agent, and say which open runs that holds for. Raises UsageError, ConnectError."""
    paused = Paused(since_ms=int(time.time() * 1000), reason=reason, by=by or claimed_name())
    async with _ledger_of(agent, out) as found:
        if (stands := await found.switch.find(agent)) and not reason:
            paused = stands  # who makes sure that it is paused takes no reason away
        try:
            await found.switch.pause(agent, paused)
        except PydanticSerializationError as error:
            raise UsageError(NO_TEXT) from error
        runs = await found.open_runs()
    if out.as_json:
        out.json(_document(agent, paused, runs))
        return 0
    out.say(f"{in_words(agent, paused)}. No run of it begins an effect; those under way end")
    _say_runs(agent, runs, found.session)
    if not runs:
        out.note("the pause holds for new ones; is the agent's name right?")
    out.note(
        f"`{typed('resume', '--agent', agent)}` lifts it, "
        f"`{typed('cancel', '--agent', agent, '--all')}` ends its runs"
    )
    return 0


async def resume_agent(agent: str, out: Output) -> int:
    """Lift the pause of an agent. Raises UsageError, ConnectError."""
    async with _ledger_of(agent, out) as found:
        was = await found.switch.find(agent)
        await found.switch.resume(agent)
        runs = await found.open_runs()
    if out.as_json:
        out.json({**_document(agent, None, runs), "was_paused": was is not None})
    elif was:
        out.say(f"agent {agent!r} may have effects again; calls that wait go on within 10 s")
        _say_runs(agent, runs, found.session)
    else:
        out.say(f"agent {agent!r} was not paused; nothing was changed")
    return 0


@dataclass(frozen=True)
class _Ledger:
    """The ledger's Redis, with the runs of one agent beside it."""

    session: Session
    url: str
    redis: Redis
    switch: Switch
    agent: str

    async def open_runs(self) -> list[Run]:
        """List the agent's open runs; warn where this is not the Redis that they use."""
        runs = await find(self.session.client, Which(agent=self.agent, going=True))
        if runs and not await self._holds_one_of(runs[:_LOOKED_FOR]):
            self.session.out.warn(
                f"the Redis at {shown(self.url)!r} seems to hold no records of the "
                f"{count(len(runs), 'open run')} of agent {self.agent!r}. If their workers use "
                "another one, nothing is paused: set ONWARD_REDIS_URL as they have it, and say it "
                "again"
            )
        return runs

    async def _holds_one_of(self, runs: Sequence[Run]) -> bool:
        for run in runs:
            whole = await look(self.session.client, run.id, run.run_id)  # a list knows less
            key = f"onward:{{{run_key(run.id, whole.first_key.run_id)}}}"
            if await cast("Any", self.redis).hexists(key, "_ds"):
                return True
        return False


@asynccontextmanager
async def _ledger_of(agent: str, out: Output) -> AsyncGenerator[_Ledger]:
    run_input.checked_agent(agent)
    session = await open_session(out)
    url = ledger_url(session.settings, session.target)
    redis = redis_client(url)
    try:
        async with redis_errors(url):
            switch = Switch(redis, session.target.namespace)
            yield _Ledger(session, url, redis, switch, agent)
    finally:
        await redis.aclose()


def _document(agent: str, paused: Paused | None, runs: Sequence[Run]) -> dict[str, Any]:
    said = None if paused is None else paused.model_dump(mode="json")
    return {"agent": agent, "paused": said, "runs": [run.id for run in runs]}


def _say_runs(agent: str, runs: Sequence[Run], session: Session) -> None:
    where = f"namespace {session.target.namespace!r}"
    if runs:
        session.out.say(f"{count(len(runs), 'open run')} of it in {where}")
    else:
        session.out.note(f"no run of an agent {agent!r} is open in {where}")
