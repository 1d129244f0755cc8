"""What the ledger costs: claims per second, and milliseconds that it adds to a call.

    python benchmarks/ledger_cost.py [--calls 500] [--json]

A real Valkey that fsyncs every write, the payments service over HTTP, and one client. The bare call
and the call through the ledger are made in turn, so that whatever else the machine does slows both.
"""

import asyncio
import json
import statistics
import sys
import time
import uuid
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
from redis.asyncio import Redis

from onward.ledger import Ledger
from onward.local_services import redis_server
from onward.messages import RunRef, Witness
from onward.testing import payments_service

_FP = "f" * 64
_LEASE_MS = 10_000


@dataclass(frozen=True)
class Cost:
    """What was measured; times are medians."""

    claims_per_s: float
    """One client, one claim after the other."""
    bare_ms: float
    """A keyed request to the payments service."""
    through_ledger_ms: float
    """The same with claim and completion."""
    added_ms: float
    ratio: float


class _Caller:
    """Makes one refund after another, bare or through the ledger."""

    def __init__(self, ledger: Ledger, witness: Witness, http: httpx2.AsyncClient) -> None:
        self._ledger, self._witness, self._http = ledger, witness, http

    async def bare(self) -> str:
        key = uuid.uuid4().hex
        body = {"order": key, "amount_cents": 500}
        reply = await self._http.post("/refunds", json=body, headers={"Idempotency-Key": key})
        return reply.raise_for_status().text

    async def claim(self) -> tuple[str, str]:
        step, token = uuid.uuid4().hex, uuid.uuid4().hex
        await self._ledger.claim(
            step,
            fp=_FP,
            cls="keyed",
            token=token,
            lease_ms=_LEASE_MS,
            witness=self._witness,
            lineage=False,
        )
        return step, token

    async def through_ledger(self) -> None:
        step, token = await self.claim()
        result = await self.bare()
        await self._ledger.complete(step, fp=_FP, cls="keyed", token=token, result=result)


async def measure(calls: int, folder: Path) -> Cost:
    """Measure with servers of its own, which end with it."""
    run = RunRef(workflow_id="benchmark", first_run_id="1", run_id="1", original_run_id="1")
    async with (
        redis_server(None) as server,
        payments_service(folder / "payments.db") as payments,
        httpx2.AsyncClient(base_url=payments.url) as http,
        Redis.from_url(server.url) as redis,  # pyright: ignore[reportUnknownMemberType]
    ):
        ledger = Ledger(redis, run, strict=True)
        caller = _Caller(ledger, await ledger.begin(None, reset_lineage=False), http)
        bare, through = list[float](), list[float]()
        for _ in range(calls):
            bare.append(await _ms(caller.bare))
            through.append(await _ms(caller.through_ledger))
        claims_ms = statistics.median([await _ms(caller.claim) for _ in range(calls)])
    bare_ms, through_ms = statistics.median(bare), statistics.median(through)
    return Cost(
        claims_per_s=round(1000 / claims_ms),
        bare_ms=round(bare_ms, 2),
        through_ledger_ms=round(through_ms, 2),
        added_ms=round(through_ms - bare_ms, 2),
        ratio=round(through_ms / bare_ms, 2),
    )


async def _ms(call: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await call()
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """Measure and print."""
    parser = ArgumentParser(description="What the ledger costs, beside the bare call.")
    parser.add_argument("--calls", type=int, default=500, help="of each kind (500)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        cost = asdict(asyncio.run(measure(asked.calls, Path(folder))))
    if asked.json:
        sys.stdout.write(json.dumps(cost, indent=2) + "\n")
        return
    for name, value in cost.items():
        sys.stdout.write(f"{name.replace('_', ' '):<20}{value:>10,}\n")


if __name__ == "__main__":
    main()
