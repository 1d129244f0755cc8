"""Calls as the activity that reads a reply prepares them, without a run."""

from typing import Any

from activities.prepare import prepare_calls
from onward import Agent
from onward.messages import Head, Limits, Opening, PreparedCall, RunRef, Witness
from onward.tools import Tool

RUN = RunRef(workflow_id="w", first_run_id="r", run_id="r", original_run_id="r")
WITNESS = Witness(nonce="n", inc="i", run_id="r")


def opening_of(agent: Agent) -> Opening:
    """Freeze an agent, as `begin` does."""
    return Opening(
        frozen=agent.definition(),
        effects=agent.effects,
        limits=Limits(),
        witness=WITNESS,
        head=Head(step="0", digest="d"),
        takeover_s=1,
    )


def prepared(asked: Tool[..., Any], arguments: str) -> PreparedCall:
    """Prepare a call of a tool, whose agent has no other; the arguments are JSON text."""
    return prepared_for(Agent("tester", model="m", tools=[asked]), asked.name, arguments)


def prepared_for(agent: Agent, tool: str, arguments: str) -> PreparedCall:
    """Prepare a call of the agent's tool; the arguments are JSON text."""
    use = f'{{"type":"tool_use","id":"t","name":"{tool}","input":{arguments}}}'
    message = f'{{"content":[{use}]}}'
    (made,) = prepare_calls(RUN, "1", message, opening_of(agent), agent)
    return made
