"""The agents that are there without an app of one's own: `coder` and `support`."""

import os
from typing import Annotated, Any, cast
from urllib.parse import quote

from pydantic import Field

from onward.agents import Agent, App
from onward.errors import Rejected
from onward.tools.bash import bash
from onward.tools.context import ToolContext
from onward.tools.decorator import tool
from onward.tools.files import edit, glob, grep, read, write

PAYMENTS_URL = "PAYMENTS_URL"
"""Environment variable of the worker: base URL of the payments service that `support` uses."""

_TIMEOUT_S = 30.0


@tool(effect="read")
async def lookup_order(order_id: str) -> object:
    """Look an order up: what was paid and what was refunded."""
    return await _ask("GET", f"/orders/{quote(order_id, safe='')}")


_UNASKED_CENTS = 50_00


def _refunded(call: dict[str, Any]) -> str:
    return f"order {call['order_id']} · €{call['amount_cents'] / 100:,.2f}"


@tool(
    effect="keyed",
    moves_money=True,
    ask=lambda call: call["amount_cents"] > _UNASKED_CENTS,
    summary=_refunded,
)
async def refund(
    order_id: str, amount_cents: Annotated[int, Field(gt=0)], ctx: ToolContext
) -> object:
    """Refund part or all of an order, in cents. Above 50.00 a person is asked first."""
    return await _ask(
        "POST",
        "/refunds",
        json={"order": order_id, "amount_cents": amount_cents},
        headers={"Idempotency-Key": ctx.idempotency_key},
    )


async def _ask(method: str, path: str, **request: Any) -> object:
    import httpx2  # noqa: PLC0415  (only a worker that runs `support` needs it)

    base = os.environ.get(PAYMENTS_URL)
    if not base:
        raise Rejected(
            f"No payments service is set up: set {PAYMENTS_URL} to its base URL, like"
            " https://payments.internal, in the worker's environment. Nothing was done."
        )
    async with httpx2.AsyncClient(base_url=base, timeout=_TIMEOUT_S) as http:
        reply = await http.request(method, path, **request)
    return cast("object", reply.raise_for_status().json())


coder = Agent(
    "coder",
    model="claude-opus-5-5",
    system=(
        "You work on the files of one folder, your workspace. Look before you change: find and read"
        " what matters first. Make small changes and check each of them, with the project's own"
        " tests where it has any. If the outcome of a call is unknown, look at what is there before"
        " you do it again. When you are done, say briefly what you changed, what you checked and"
        " how, and what is left; claim nothing that you did not see."
    ),
    tools=[read, write, edit, glob, grep, bash],
    needs_workspace=True,
)

support = Agent(
    "support",
    model="claude-sonnet-5-5",
    system=(
        "You settle refund requests. Look the order up before you refund, refund no more than was"
        " paid and is not refunded yet, and refund only what you were asked to. If the outcome of a"
        " refund is unknown, say so and do not try it again under another form. At the end say what"
        " was refunded and what was not, and why."
    ),
    tools=[lookup_order, refund],
)

app = App(coder, support)
