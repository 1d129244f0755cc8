"""Look at a run's ledger as a command does, touching nothing: it expires as it was to."""

import time
from typing import Any

from redis.asyncio import Redis

from onward.audit.held import read_held
from onward.forking.fates import LedgerView
from onward.identity import run_key
from onward.messages import Witness
from onward.redis_server.guarantee import guarantee


async def look(redis: Redis, workflow_id: str, first_run_id: str) -> LedgerView:
    """Return what Redis holds of a run. Raises redis.exceptions.RedisError."""
    held = await read_held(redis, f"onward:{{{run_key(workflow_id, first_run_id)}}}")
    witness = await _witness(redis, held.nonce, first_run_id) if held.nonce else None
    return LedgerView(held.records, witness, int(time.time() * 1000))


async def _witness(redis: Redis, nonce: str, run_id: str) -> Witness:
    commands: Any = redis
    server, strict = await commands.info(), (await guarantee(redis)).strict
    # As `incarnation` in `ledger.lua`.
    inc = f"{_text(server['run_id'])}:{_text(server['master_replid'])}"
    return Witness(nonce=nonce, inc=inc, run_id=run_id, strict=strict)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
