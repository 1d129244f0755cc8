"""The app: whether it can be imported and run, whether its models are known and priced."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from onward.agents import Agent, App
from onward.checks import Check, State
from onward.doctor.site import Site
from onward.errors import AppError
from onward.models.fit import retirement
from onward.models.table import capacity
from onward.pricing import price_known


async def look(site: Site) -> AsyncIterator[Check]:
    """Say which agents there are."""
    spec, here = site.settings.app, tuple(site.app.agents)
    what = repr(spec) if spec else "the built-in app (ONWARD_APP is not set)"
    found = f"{what} has the agents {', '.join(map(repr, here))}"
    figures = {"agents": here}
    if refused := await asyncio.to_thread(_refused, site.app):
        yield Check("app", "wrong", refused, "Workers refuse this app", figures)
        return
    theirs = {agent for each in site.living for agent in each.agents}
    if theirs and theirs != {*here}:
        todo = (
            f"The living workers have {', '.join(map(repr, sorted(theirs)))}: set ONWARD_APP to "
            "their app to have it looked at"
        )
        yield Check("app", "note", found, todo, figures)
    else:
        yield Check("app", "ok", found, figures=figures)


def _refused(app: App) -> str:
    """Say why Claude could not be told of the app's tools; empty: it can be."""
    try:
        for agent in app.agents.values():
            agent.tool_definitions()
    except AppError as error:
        return str(error)
    return ""


async def models(site: Site) -> AsyncIterator[Check]:
    """Say what is known of the models: refused, deprecated, of unknown price."""
    agents = site.app.agents.values()
    seen = [trouble for agent in agents for trouble in _troubles(agent)]
    names = sorted({agent.model for agent in agents})
    figures = {"models": names}
    if not seen:
        yield Check("models", "ok", f"{', '.join(names)}: known, with prices", figures=figures)
        return
    state: State = "wrong" if any(state == "wrong" for state, _ in seen) else "note"
    found = "; ".join(dict.fromkeys(text for _, text in seen))
    yield Check("models", state, found, figures=figures)


def _troubles(agent: Agent) -> Iterator[tuple[State, str]]:
    try:
        agent.refuse_unfit()
    except AppError as error:
        yield "wrong", str(error)
        return
    if soon := retirement(agent.model):
        yield "note", soon
    if capacity(agent.model) is None:
        text = f"{agent.model!r} is not in this release's table: each run asks the API what it can"
        yield "note", text
    if not price_known(agent.model):
        yield _unpriced(agent)


def _unpriced(agent: Agent) -> tuple[State, str]:
    if agent.limits.max_cost_usd is None:
        return "note", f"the price of {agent.model!r} is not known: tokens bound its runs alone"
    text = (
        f"the price of {agent.model!r} is not known, so runs of agent {agent.name!r} are refused: "
        "correct the model's name, or give the agent `Limits(max_cost_usd=None)`"
    )
    return "wrong", text
