"""An app whose refunds a person approves first, for workers that are killed."""

from crash_app import refund

from onward import Agent, App, Rule

app = App(Agent("tester", model="claude-sonnet-5-5", tools=[refund], rules=[Rule("ask", "refund")]))
