"""Audits in tests: the command, the tool whose calls it tells, and what it says of each."""

from typing import Any

from onward import Rejected, tool


@tool(effect="keyed", ask=lambda call: call["cents"] > 50)
async def refund(cents: int) -> str:
    """Refund."""
    if cents == 13:
        raise Rejected("no such order")
    return f"refunded {cents}"


def by_call(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["call"]: row for row in document["effects"]}
