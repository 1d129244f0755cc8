"""The words in which the ledger's tests speak about one step of one run."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal, cast, get_args

from redis.asyncio import Redis

from onward.ledger import Claim, Ledger, Record, Resolved, Verdict
from onward.messages import EffectClass, RunRef, Witness

STEP, FP, OTHER_FP = "12.1", "f" * 64, "0" * 64
LONG_MS, OVER_MS = 600_000, 0
"""A lease that outlives the test, and one that is over when it begins."""
EVERY: tuple[EffectClass, ...] = get_args(EffectClass)
SENDS_AGAIN: tuple[EffectClass, ...] = tuple(cls for cls in EVERY if cls != "at_most_once")


class Story:
    """A run with its ledger, and the words in which the tests speak about one step."""

    def __init__(self, redis: Redis, *, strict: bool = True) -> None:
        run_id = str(uuid.uuid4())
        self.run = RunRef(
            workflow_id="refunds", first_run_id=run_id, run_id=run_id, original_run_id=run_id
        )
        self.redis: Any = redis
        self.ledger = Ledger(redis, self.run, strict=strict)
        self.key = self.ledger.key
        self.witness = Witness(nonce="", inc="", run_id=run_id)
        self.fences = dict[str, int]()
        """Of the last claim of each token."""

    async def begin(self) -> Witness:
        self.witness = await self.ledger.begin(None, reset_lineage=False)
        return self.witness

    async def claim(
        self, token: str, cls: EffectClass = "keyed", lease_ms: int = LONG_MS, **more: Any
    ) -> Claim:
        asked: dict[str, Any] = {"fp": FP, "witness": self.witness, "lineage": False, **more}
        claim = await self.ledger.claim(STEP, cls=cls, token=token, lease_ms=lease_ms, **asked)
        if claim.verdict == "claimed":
            self.fences[token] = claim.fence
        return claim

    async def complete(self, token: str, cls: EffectClass = "keyed", **more: Any) -> Verdict:
        asked: dict[str, Any] = {"fp": FP, "result": '{"ok":1}', **more}
        return await self.ledger.complete(STEP, cls=cls, token=token, **asked)

    async def fail(self, token: str, cls: EffectClass = "keyed", fp: str = FP) -> Verdict:
        fence = self.fences.get(token, 0)
        return await self.ledger.fail(STEP, fp=fp, cls=cls, token=token, fence=fence, error='"no"')

    async def doubt(self, token: str, cls: EffectClass = "keyed", fp: str = FP) -> Verdict:
        return await self.ledger.doubt(STEP, fp=fp, cls=cls, token=token, why="a timeout")

    async def release(self, token: str, *, maybe: bool, count: bool = True) -> Verdict:
        return await self.ledger.release(STEP, fp=FP, token=token, maybe=maybe, count=count)

    async def in_doubt(self, cls: EffectClass = "at_most_once", *, by: str = "a") -> int:
        """Let an attempt end without an answer; returns the name of the doubt."""
        await self.claim(by, cls)
        return (await self.doubt(by, cls)).at_ms

    async def resolve(
        self, at_ms: int, to: Literal["done", "failed", "retry"], **more: Any
    ) -> Resolved:
        asked: dict[str, Any] = {"fp": FP, "cls": "at_most_once", "quarantine_ms": 0, **more}
        return await self.ledger.resolve(
            STEP, at_ms=at_ms, to=to, by="operator", result=f'"{to}"', **asked
        )

    async def renew(self, token: str) -> Verdict:
        return await self.ledger.renew(STEP, fp=FP, token=token, lease_ms=LONG_MS)

    async def record(self) -> Record | None:
        return (await self.ledger.records(STEP)).records.get(STEP)

    async def wipe(self) -> None:
        await self.redis.pexpire(self.key, 0)  # our user of least rights may not DEL

    async def ttl_ms(self) -> int:
        return int(await self.redis.pttl(self.key))


@asynccontextmanager
async def connected(url: str, **options: Any) -> AsyncGenerator[Redis]:
    """Connect to the server for as long as the block lasts."""
    client: Redis = cast("Any", Redis).from_url(url, **options)
    try:
        yield client
    finally:
        await client.aclose()


@asynccontextmanager
async def new_story(url: str, *, strict: bool = True, **options: Any) -> AsyncGenerator[Story]:
    """Begin a run of its own."""
    async with connected(url, **options) as client:
        story = Story(client, strict=strict)
        await story.begin()
        yield story
