"""Names that a team's own worker may not use beside agents: Temporal finds code by them alone."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from temporalio import activity, workflow

from onward.agents import App
from onward.errors import AppError
from onward.names import RESERVED_ACTIVITIES, WORKFLOW
from onward.own_code import own

_APART = "Rename it, or give it a worker and a task queue of its own"


def refuse_our_names(config: Mapping[str, Any], app: App) -> None:
    """Raise `AppError` where the worker has a workflow or an activity that agents need the name of.

    An activity that is named like a tool would be run in its place, and past the ledger.
    """
    _refuse_a_second_plugin(config["workflows"])
    _refuse_workflows(config["workflows"])
    _refuse_activities(config["activities"], app)


def _refuse_a_second_plugin(workflows: Iterable[type]) -> None:
    if own("workflows.agent").AgentWorkflow in workflows:
        raise AppError(
            "the worker has two OnwardPlugins, or one of its own beside its client's. Give one to "
            "the client, with an App of all agents"
        )


def _refuse_workflows(workflows: Iterable[type]) -> None:
    definitions: Any = getattr(workflow, "_Definition")  # noqa: B009  (no public way tells names)
    if WORKFLOW in {definitions.must_from_class(each).name for each in workflows}:
        raise AppError(
            f"the worker has a workflow of type {WORKFLOW!r}, which is that of Onward's runs. "
            f"{_APART}"
        )


def _refuse_activities(activities: Iterable[Callable[..., Any]], app: App) -> None:
    definitions: Any = getattr(activity, "_Definition")  # noqa: B009
    tools = {tool.name for agent in app.agents.values() for tool in agent.offered}
    for each in activities:
        name = definitions.must_from_callable(each).name
        if name is None:
            raise AppError(
                "the worker has a dynamic activity; Onward runs tools by one, and Temporal allows "
                "one a worker. Give yours names, or a worker and a task queue of their own"
            )
        if name in RESERVED_ACTIVITIES | tools:
            what = "a tool of this app" if name in tools else "an activity of Onward's"
            raise AppError(
                f"the worker has an activity {name!r}, which is also the name of {what}: Temporal "
                f"would run the one for the other. {_APART}"
            )
