"""The demo's agent: the built-in workspace tools, and two tools that move money.

`refund` is keyed: the payments service honours the idempotency key, so a lost attempt may be
repeated. `legacy_refund` goes to an endpoint that honours nothing, so it is `at_most_once`.
"""

from typing import Annotated, Any

from pydantic import Field

from onward import Agent, App, ToolContext, tool
from onward.demo.refunds import post
from onward.demo.script import KEYED_ENDPOINT, MODEL, PLAIN_ENDPOINT, SYSTEM
from onward.tools.bash import bash
from onward.tools.files import edit, grep, read

Cents = Annotated[int, Field(gt=0)]


@tool(effect="keyed")
async def refund(order_id: str, amount_cents: Cents, ctx: ToolContext) -> dict[str, Any]:
    """Refund part or all of an order."""
    return await post(KEYED_ENDPOINT, order_id, amount_cents, key=ctx.idempotency_key)


@tool
async def legacy_refund(order_id: str, amount_cents: Cents) -> dict[str, Any]:
    """Refund an order of the old shop, whose payments provider repeats whatever it is sent."""
    return await post(PLAIN_ENDPOINT, order_id, amount_cents)


app = App(
    Agent("demo", model=MODEL, system=SYSTEM, tools=[read, edit, grep, bash, refund, legacy_refund])
)
