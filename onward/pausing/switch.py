"""The switch by which people stop new effects of an agent, kept in the ledger's Redis.

It goes by the Temporal namespace that the runs are in, not by the deployment: whoever pulls it is
connected to that namespace, while a setting that their shell lacks would stop nothing, unnoticed.
"""

from typing import Any, cast
from urllib.parse import quote

from redis.asyncio import Redis

from onward.messages import Paused
from onward.wording import paused_text


class Switch:
    """Which agents of a namespace are paused. Each method is one round trip.

    Every method may raise redis' own errors.
    """

    def __init__(self, redis: Redis, namespace: str) -> None:
        self._commands = cast("Any", redis)
        # No hash tag of a run has this name, and none ends where this one does.
        self.key = f"onward:{{paused}}:{quote(namespace, safe='')}"

    async def pause(self, agent: str, paused: Paused) -> None:
        """Pause an agent, or put another reason in place of the one that it is paused for."""
        await self._commands.hset(self.key, agent, paused.model_dump_json())

    async def resume(self, agent: str) -> None:
        """Let the agent's runs have effects again."""
        # Written over: a user that pauses may do this too, and HDEL is no command of the ledger's.
        await self._commands.hset(self.key, agent, "")

    async def find(self, agent: str) -> Paused | None:
        """Say who paused the agent, when and why; None if nobody did."""
        return _read(await self._commands.hget(self.key, agent))

    async def paused(self) -> dict[str, Paused]:
        """Return all agents that are paused, by name."""
        found = (await self._commands.hgetall(self.key)).items()
        known = {_text(agent): _read(text) for agent, text in found}
        return {agent: paused for agent, paused in sorted(known.items()) if paused}


def in_words(agent: str, paused: Paused) -> str:
    """Say that an agent is paused, since when, by whom and why."""
    return f"agent {agent!r} is {paused_text(paused)}"


def _read(text: bytes | str | None) -> Paused | None:
    return Paused.model_validate_json(text) if text else None


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()
