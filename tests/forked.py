"""Forks in tests: made by the command that people type, run by the test's worker."""

import json
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from agent_double import Cli, Ran
from agent_runs import Bench, Run, app_of, request_body, says, uses
from temporalio.client import WorkflowHandle

from onward import NotSent, ToolContext, tool
from onward.messages import RunResult
from onward.testing.messages_api import Script, Step


class Effects:
    """Tools that count what they did, with the keys they were given."""

    def __init__(self) -> None:
        self.done, self.keys = list[str](), list[str]()

        @tool(effect="keyed")
        async def act(what: str, ctx: ToolContext) -> str:
            """Act."""
            self.done.append(what)
            self.keys.append(ctx.idempotency_key)
            return f"did {what}"

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            return "nothing to see"

        @tool(effect="keyed", ask="always")
        async def pay(to: str) -> str:
            """Pay, when a person says so."""
            self.done.append(f"paid {to}")
            return f"paid {to}"

        @tool(ask="always", in_doubt="model")
        async def once(to: str) -> str:
            """Pay out, when a person says so, without a key."""
            self.done.append(f"once {to}")
            return f"once {to}"

        @tool(effect="keyed", key_from=lambda call: call["order"])
        async def order(order: str) -> str:
            """Order once, however often it is asked for."""
            self.done.append(f"ordered {order}")
            return f"ordered {order}"

        @tool(effect="keyed", ask="always", key_from=lambda call: call["to"])
        async def buy(to: str) -> str:
            """Buy once, however often it is asked for, when a person says so."""
            self.done.append(f"bought {to}")
            return f"bought {to}"

        @tool(effect="read")
        async def long() -> str:
            """Give a long text."""
            return "0123456789" * 40_000

        @tool(effect="keyed")
        async def never(to: str) -> str:
            """Never get through."""
            raise NotSent(to)

        @tool(in_doubt="model")
        async def never_once(to: str) -> str:
            """Never get through, without a key."""
            raise NotSent(to)

        self.app = app_of(act, look, pay, once, order, buy, long, never, never_once)


@pytest.fixture
def effects() -> Effects:
    return Effects()


def messages(run: Run, number: int = -1) -> list[dict[str, Any]]:
    """Messages of a request; of a fork they are among its parent's, whose script it goes on."""
    found: list[dict[str, Any]] = request_body(run.requests[number])["messages"]
    return found


def told_last(run: Run) -> str:
    """What Claude was told last, as text."""
    return json.dumps(messages(run)[-1]["content"], ensure_ascii=False)


async def three_steps(bench: Bench) -> Run:
    """A run that ended: it acted, looked and acted again."""
    acts = [uses(("act", {"what": what})) for what in ("first", "second")]
    run = await bench.start(acts[0], uses(("look", {})), acts[1], says("That is all."))
    await run.ended()
    return run


async def asked(cli: Cli, run: Run, *typed: str) -> tuple[str, Ran]:
    """Type `fork`; returns the id that was asked for, and what the command answered."""
    new = f"fork-{uuid.uuid4().hex[:12]}"
    return new, await cli("fork", run.name, "--id", new, *typed)


async def fork(cli: Cli, run: Run, *typed: str, then: Sequence[Step] = ()) -> Run:
    """Fork a run, which Claude answers with `then` after its last step; the command must succeed.

    Claude's side tells replies by their place in the conversation: so the script is the parent's.
    """
    if then:
        script, kept = run.bench.api.scripts[run.name], _copied(run, typed)
        assert isinstance(script, Script)
        steps = [*script.steps[:kept], *then]
        run.bench.api.scripts[run.name] = script.model_copy(update={"steps": steps})
    new, ran = await asked(cli, run, *typed)
    assert ran.code == 0, ran.err
    return found(run.bench, new)


def found(bench: Bench, name: str) -> Run:
    """The run of that id."""
    handle: WorkflowHandle[Any, RunResult] = bench.temporal.get_workflow_handle(
        name, result_type=RunResult
    )
    return Run(bench, name, handle)


def _copied(run: Run, typed: Sequence[str]) -> int:
    if "--step" in typed:
        return int(typed[typed.index("--step") + 1])
    assert run.result is not None
    return run.result.steps
