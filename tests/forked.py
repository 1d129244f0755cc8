"""Forks in tests: made by the command that people type, run by the test's worker."""

import uuid
from collections.abc import Sequence
from typing import Any

from agent_double import Cli, Ran
from agent_runs import Bench, Run
from temporalio.client import WorkflowHandle

from onward.messages import RunResult
from onward.testing.messages_api import Script, Step


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
