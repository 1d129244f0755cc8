"""An agent that looks, and refunds once a person has approved it, for workers that are killed."""

from crash_app import refund

from onward import Agent, App, Rule, tool


@tool(effect="read")
async def look(at: int) -> str:
    """Look."""
    return f"saw {at}"


RULES = [Rule("ask", "refund")]
app = App(Agent("tester", model="claude-sonnet-5-5", tools=[look, refund], rules=RULES))
