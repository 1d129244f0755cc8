"""A run's id is its name: asked for again, it attaches, tells the end, or is refused."""

import json

import pytest
from agent_double import Cli
from temporalio.client import Client
from typed_commands import new_id, piped, waiting


@pytest.mark.usefixtures("worker")
async def test_same_id_attaches_while_it_runs(cli: Cli) -> None:
    """`start --id` of a running run attaches: no second run, its limits unchanged and said."""
    run_id = await waiting(cli)
    ran = await cli("start", "waits", "--id", run_id, "--json", "--max-steps", "3")
    assert (ran.code, ran.json["how"]) == (0, "attached")
    assert ran.json["limits"]["max_steps"] == 100
    assert "stay as they are" in ran.err


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(("prompt", "code"), [("completes", 0), ("fails", 1), ("limited", 6)])
async def test_same_id_of_an_ended_run_starts_nothing(
    cli: Cli, client: Client, prompt: str, code: int
) -> None:
    """However a run ended, its id starts nothing again: its result, its exit code (C20)."""
    run_id = new_id()
    first = await cli("start", prompt, "--id", run_id, "--wait", "--json")
    again = await cli("start", prompt, "--id", run_id, "--json")
    assert (again.code, again.json) == (code, first.json)
    newest = await client.get_workflow_handle(run_id).describe()
    assert newest.run_id == first.json["run_id"]


@pytest.mark.usefixtures("worker")
async def test_again_starts_a_new_run_and_says_what_that_means(cli: Cli) -> None:
    """`--again` runs an ended id once more, and says that its idempotency keys are new."""
    run_id = new_id()
    first = await cli("start", "completes", "--id", run_id, "--wait", "--json")
    again = await cli("start", "completes", "--id", run_id, "--again", "--wait", "--json")
    assert again.code == 0
    assert again.json["run_id"] != first.json["run_id"]
    assert "idempotency keys are new" in again.err


@pytest.mark.usefixtures("worker")
async def test_again_while_it_runs_is_refused(cli: Cli) -> None:
    """`--again` never puts a second run beside one that goes on."""
    run_id = await waiting(cli)
    ran = await cli("start", "waits", "--id", run_id, "--again")
    assert ran.code == 2
    assert "still goes on" in ran.err


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["waits for something else"], ["'waits'", "'waits for something else'"]),
        (["waits", "--agent", "support"], ["'coder'", "'support'"]),
        (["waits", "--workspace", "."], ["'none'", "marker"]),
    ],
)
async def test_id_of_another_job_is_refused_and_both_are_shown(
    cli: Cli, given: list[str], shown: list[str]
) -> None:
    """Another prompt, agent or workspace under a known id is refused, and both are shown."""
    run_id = await waiting(cli)
    ran = await cli("start", *given, "--id", run_id)
    assert ran.code == 2
    assert all(text in ran.err for text in shown), ran.err


async def test_many_starts_at_once_make_one_run(cli: Cli, client: Client) -> None:
    """Starting one id from many places at the same moment makes one run."""
    run_id = new_id()
    started = [await piped("start", "waits", "--json", "--id", run_id) for _ in range(3)]
    said = [json.loads((await each.communicate())[0]) for each in started]
    assert sorted(each["how"] for each in said) == ["attached"] * 2 + ["started"]
    assert len({each["run_id"] for each in said}) == 1
    assert (await cli("cancel", run_id)).code == 0
    await client.get_workflow_handle(run_id).terminate(reason="end of test")
