"""What can be wrong around Onward, one look each: Temporal, its workers, the ledger's Redis."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError
from temporalio.client import Client
from temporalio.service import RPCError

from onward.figures import count
from onward.guarantee import Guarantee, guarantee
from onward.invoked import program, worker
from onward.memory import FULL, run_sizes
from onward.pausing.switch import Switch, in_words
from onward.permissions import missing_permissions, missing_to_watch
from onward.search_attributes import look, troubles
from onward.starting import pollers

State = Literal["ok", "note", "wrong", "away"]
"""All well; works, but worth knowing; must be mended; the server does not answer."""


_ALREADY_SET = (
    "Runs that began when that was not so stop at their next step until it is mended, and then go "
    "on by themselves"
)


@dataclass(frozen=True)
class Check:
    """What one look found."""

    name: str
    state: State
    found: str
    todo: str = ""
    """What to do about it."""
    figures: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The same for programs."""

    def __str__(self) -> str:
        return f"{self.found}. {self.todo}" if self.todo else self.found


async def temporal_checks(client: Client, task_queue: str) -> AsyncIterator[Check]:
    """Look at the namespace and who polls the task queue. Raises ConnectError."""
    async for check in _search_attributes(client):
        yield check
    workers = sorted(set(await pollers(client, task_queue)))
    if workers:
        found = f"{count(len(workers), 'worker')} polled {task_queue!r} in the last minutes"
        yield Check("workers", "ok", found, figures={"workers": workers})
    else:
        found, todo = f"nothing polls the task queue {task_queue!r}", f"Start `{worker()}`"
        yield Check("workers", "wrong", found, todo, {"workers": []})


async def _search_attributes(client: Client) -> AsyncIterator[Check]:
    name = "search attributes"
    try:
        seen = await look(client)
    except RPCError as error:  # not every account may look
        yield Check(name, "note", f"cannot be read, so runs set none: {error.message}")
        return
    figures = {"missing": seen.missing, "clashes": {n: seen.types[n] for n in seen.clashes}}
    wrong = [*troubles(client, seen)]
    if not wrong:
        yield Check(name, "ok", "registered", figures=figures)
    for number, trouble in enumerate(wrong, 1):
        each = f"{name} {number}" if len(wrong) > 1 else name
        yield Check(each, "note", f"{trouble.found}. {_ALREADY_SET}", trouble.todo, figures)


async def redis_checks(redis: Redis) -> AsyncIterator[Check]:
    """Look at a server that answers. Raises redis.exceptions.RedisError when it stops to."""
    missing = await missing_permissions(redis)
    if missing:
        todo = f"An administrator grants it with: {missing.grant}"
        yield Check("permissions", "wrong", str(missing), todo, asdict(missing))
    else:
        yield Check("permissions", "ok", f"user {missing.user!r} may do all that Onward needs")
    if unseen := await missing_to_watch(redis):
        blind = f"{unseen}: `watch` shows each reply when it is whole"
        yield Check("watching", "note", blind, f"To see them written: {unseen.grant}")
    try:
        found = await guarantee(redis)
    except NoPermissionError as error:
        yield Check("guarantee", "wrong", f"cannot be read: {error}")
        return
    yield _guarantee(found)
    yield _memory(found)
    sizes = await run_sizes(redis)
    if sizes:
        yield Check("open runs", "ok", str(sizes), figures=asdict(sizes))


async def paused_checks(redis: Redis, namespace: str) -> AsyncIterator[Check]:
    """Look which agents people have paused. Raises redis.exceptions.RedisError."""
    try:
        paused = await Switch(redis, namespace).paused()
    except NoPermissionError:  # said above, with what grants it
        return
    if paused:
        agents = {agent: each.model_dump(mode="json") for agent, each in paused.items()}
        found = "; ".join(in_words(*each) for each in paused.items())
        todo = f"`{program()} resume --agent NAME` lifts it"
        yield Check("paused agents", "note", found, todo, {"agents": agents})


def _guarantee(found: Guarantee) -> Check:
    figures = {"strict": found.strict, "reasons": found.reasons, "evicts": found.evicts}
    if found.evicts:
        todo = "Set maxmemory-policy noeviction; workers refuse this server"
        return Check("guarantee", "wrong", str(found), todo, figures)
    return Check("guarantee", "ok" if found.strict else "note", str(found), figures=figures)


def _memory(found: Guarantee) -> Check:
    memory = found.memory
    figures = {"used_bytes": memory.used, "limit_bytes": memory.limit}
    if not memory.full:
        return Check("memory", "ok", str(memory), figures=figures)
    todo = f"Above {FULL:.0%} new runs are refused: raise maxmemory, or let runs end"
    return Check("memory", "wrong", str(memory), todo, figures)
