"""What Redis holds of a run, looked at without touching it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from onward.errors import LedgerUnreadable
from onward.identity import run_key
from onward.messages import Attempt
from onward.records import Record, parse_record
from onward.redis_server.connection import ledger_url, redis_client, redis_errors
from onward.runs import Run
from onward.session import Session


@dataclass(frozen=True)
class Held:
    """The run's records in Redis at one moment."""

    nonce: str
    """Birth nonce of the run's hash; empty: it was lost."""
    records: Mapping[str, Record]
    broken: Mapping[str, str]
    """Of records that cannot be used: what is wrong with them."""
    attempts: Mapping[str, Sequence[Attempt]]
    """What was noted of the requests to Claude, in all branches of the run, by step."""

    @property
    def empty(self) -> bool:
        """Nothing at all is there."""
        return not (self.nonce or self.records or self.broken)


async def read_held(redis: Redis, key: str) -> Held:
    """Read the hash `key` and the results beside it. Raises redis.exceptions.RedisError."""
    # Not by the ledger's script: its look-ups make records stay that were to expire.
    commands: Any = redis
    fields = {_text(n): _text(value) for n, value in (await commands.hgetall(key)).items()}
    # Marked otherwise are the texts of which a result shows a part.
    results = [name[2:] for name, mark in fields.items() if name.startswith("b:") and not mark]
    blobs = await _blobs(commands, key, results)
    records, broken = dict[str, Record](), dict[str, str]()
    for position, text in _of_steps(fields).items():
        try:
            record = parse_record(position, text, blobs)
        except LedgerUnreadable as error:
            broken[position] = str(error)
            continue
        if record is None:
            broken[position] = "its result, which is kept apart, is lost"
        else:
            records[position] = record
    attempts = {name[2:]: _attempts(text) for name, text in fields.items() if name.startswith("u:")}
    return Held(fields.get("_ds", ""), records, broken, attempts)


async def held_of(session: Session, run: Run) -> Held:
    """Read what the ledger's Redis holds of a run. Raises ConnectError where it does not answer."""
    url = ledger_url(session.settings, session.target)
    redis = redis_client(url)
    name = run_key(run.id, run.first_run_id or run.run_id)
    try:
        async with redis_errors(url):
            return await read_held(redis, f"onward:{{{name}}}")
    finally:
        await redis.aclose()


async def _blobs(commands: Any, key: str, digests: list[str]) -> dict[str, str]:
    found = {digest: await commands.get(f"{key}:b:{digest}") for digest in digests}
    return {digest: _text(value) for digest, value in found.items() if value is not None}


def _of_steps(fields: Mapping[str, str]) -> dict[str, str]:
    return {name[2:]: text for name, text in fields.items() if name.startswith("s:")}


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode(errors="surrogatepass")


def _attempts(text: str) -> Sequence[Attempt]:
    by_token: dict[str, str] = json.loads(text)
    return [Attempt.model_validate_json(attempt) for attempt in by_token.values()]
