"""Asking the payments service for a refund, with or without an idempotency key."""

import json
import os
from typing import Any

import httpx2

DELAYS = "ONWARD_DEMO_DELAYS"
"""Environment variable with JSON: for which orders the payments service shall be slow, and how."""


async def post(
    endpoint: str, order_id: str, amount_cents: int, key: str | None = None
) -> dict[str, Any]:
    """Ask for a refund. Raises what httpx2 raises, for refusals too."""
    headers = _slowly(order_id) | ({"Idempotency-Key": key} if key else {})
    async with httpx2.AsyncClient(base_url=os.environ["PAYMENTS_URL"]) as http:
        reply = await http.post(
            endpoint, json={"order": order_id, "amount_cents": amount_cents}, headers=headers
        )
    made: dict[str, Any] = reply.raise_for_status().json()
    return made


def _slowly(order_id: str) -> dict[str, str]:
    """Let the service hold the first request for this order, so that the killer can aim."""
    delays: dict[str, dict[str, float]] = json.loads(os.environ.get(DELAYS, "{}"))
    return {
        f"Payments-{name.replace('_', '-')}": f"{seconds},0"
        for name, seconds in delays.get(order_id, {}).items()
    }
