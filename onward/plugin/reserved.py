"""Names that a team's own worker may not use beside agents: Temporal finds code by them alone."""

from collections.abc import Callable, Iterable
from typing import Any

from temporalio import activity, workflow
from temporalio.worker import WorkerConfig

from onward.agents import App
from onward.errors import AppError
from onward.names import RESERVED_ACTIVITIES, WORKFLOW


def refuse_our_names(config: WorkerConfig, app: App) -> None:
    """Raise `AppError` where the worker has a workflow or an activity that agents need the name of.

    An activity that is named like a tool would be run in its place, and past the ledger.
    """
    tools = {tool.name for agent in app.agents.values() for tool in agent.offered}
    for name in _activities(config.get("activities") or ()):
        if name is None:
            raise AppError(
                "the worker has a dynamic activity; Onward runs tools by one, and Temporal allows "
                "one a worker. Give yours names, or a worker and a task queue of their own"
            )
        if name in RESERVED_ACTIVITIES | tools:
            what = "a tool of this app" if name in tools else "an activity of Onward's"
            raise AppError(
                f"the worker has an activity {name!r}, which is also the name of {what}: Temporal "
                "would run the one for the other. Rename it, or give it a worker and a task queue "
                "of its own"
            )
    if WORKFLOW in _workflows(config.get("workflows") or ()):
        raise AppError(
            f"the worker has a workflow of type {WORKFLOW!r}, which is that of Onward's runs. "
            "Rename it (@workflow.defn(name=…)), or give it a worker and a task queue of its own"
        )


def _activities(given: Iterable[Callable[..., Any]]) -> Iterable[str | None]:
    """Names under which they are registered; None of a dynamic one."""
    return (activity._Definition.must_from_callable(each).name for each in given)  # noqa: SLF001


def _workflows(given: Iterable[type]) -> set[str | None]:
    return {workflow._Definition.must_from_class(each).name for each in given}  # noqa: SLF001
