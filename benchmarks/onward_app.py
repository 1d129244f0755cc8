"""The contender `onward`: the same agent as an Onward app, run by `onward-worker`."""

from decimal import Decimal

from benchmarks.work import MAX_TOKENS, MODEL, SYSTEM, page
from onward import Agent, App, Limits, tool

AGENT = "reader"


@tool(effect="read")
async def look(n: int, size: int) -> str:
    """Look at a page."""
    return page(n, size)


@tool(effect="keyed")
async def book(n: int, size: int) -> str:
    """Book a page."""
    return page(n, size)


# Far beyond any benchmark: the run ends where Claude ends it.
_ENDLESS = Limits(
    max_steps=10**6,
    max_cost_usd=Decimal(10**4),
    max_tokens_total=10**12,
    max_output_tokens=10**12,
    max_wall_time=10**6,
)

app = App(
    Agent(
        AGENT,
        model=MODEL,
        system=SYSTEM,
        tools=[look, book],
        max_tokens=MAX_TOKENS,
        limits=_ENDLESS,
    )
)
