"""What Redis holds of a run, looked at without touching it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from onward.errors import LedgerUnreadable
from onward.records import Record, parse_record


@dataclass(frozen=True)
class Held:
    """The run's records in Redis at one moment."""

    nonce: str
    """Birth nonce of the run's hash; empty: it was lost."""
    records: Mapping[str, Record]
    broken: Mapping[str, str]
    """Of records that cannot be used: what is wrong with them."""

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
    return Held(nonce=fields.get("_ds", ""), records=records, broken=broken)


async def _blobs(commands: Any, key: str, digests: list[str]) -> dict[str, str]:
    found = {digest: await commands.get(f"{key}:b:{digest}") for digest in digests}
    return {digest: _text(value) for digest, value in found.items() if value is not None}


def _of_steps(fields: Mapping[str, str]) -> dict[str, str]:
    return {name[2:]: text for name, text in fields.items() if name.startswith("s:")}


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode(errors="surrogatepass")
