"""A run may be named by the beginning of its id, where only one id begins so."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from agent_double import Cli
from temporalio.client import Client

from onward.listing.short_ids import ids_that_begin
from onward.names import WORKFLOW
from onward.testing import wait_until

ODD = ["two words", "a/b/../c", "{curly}", "100%_sure", "[bold]x[/bold]", "naïve-日本-🦀", "it'"]


@asynccontextmanager
async def asked_for(client: Client, queue: str, *run_ids: str) -> AsyncGenerator[None]:
    """Start runs that no worker takes, until the end of the block; Temporal's index has them."""
    runs = [await client.start_workflow(WORKFLOW, id=i, task_queue=queue) for i in run_ids]

    async def listed() -> bool:
        names = {each.id async for each in client.list_workflows(f"TaskQueue = '{queue}'")}
        return names >= set(run_ids)

    await wait_until(listed, 20, what="the runs being listed")
    yield
    for run in runs:
        await run.terminate()


async def test_the_beginning_of_one_id_is_enough(cli: Cli, client: Client, queue: str) -> None:
    """Every command takes it, and says which run it is; a beginning of two characters is none."""
    word = uuid.uuid4().hex
    run_id = f"{word}-refunds"
    async with asked_for(client, queue, run_id):
        for command in (("spend", "--offline"), ("audit",), ("cancel",)):
            ran = await cli(command[0], word[:12], *command[1:])
            assert (ran.code, f"run {run_id}\n" in ran.err) == (0, True), ran
        assert (await cli("cancel", word[:2])).code == 4
        assert (await cli("cancel", f"{word}-other")).code == 4


async def test_of_several_none_is_taken(cli: Cli, client: Client, queue: str) -> None:
    """Where more begin so they are listed, eight at most, and nothing is done to any."""
    word = uuid.uuid4().hex
    async with asked_for(client, queue, *(f"{word}-{number}" for number in range(10))):
        ran = await cli("cancel", word)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count(f"'{word}-") == 8
    assert "and more. Type more of the one that you mean" in ran.err


async def test_an_id_as_typed_comes_first(cli: Cli, client: Client, queue: str) -> None:
    """Also if others begin with it; and somebody else's workflow of that id is never passed by."""
    word = uuid.uuid4().hex
    theirs = await client.start_workflow("somebody-elses", id=f"{word}-", task_queue=queue)
    async with asked_for(client, queue, word, f"{word}-2"):
        assert (await cli("cancel", word, "--json")).json["run"] == word
        ran = await cli("cancel", theirs.id)
    await theirs.terminate()
    assert (ran.code, "of type 'somebody-elses'" in ran.err) == (4, True)


async def test_letters_that_mean_something_to_the_index_are_only_letters(
    client: Client, queue: str
) -> None:
    """Wildcards and quotes find no other run; case matters."""
    word = uuid.uuid4().hex
    ids = [f"{word} {odd} {end}" for odd in ODD for end in ("one", "two")]
    async with asked_for(client, queue, *ids):
        for odd in ODD:
            found = await ids_that_begin(client, f"{word} {odd}")
            assert sorted(found) == [f"{word} {odd} one", f"{word} {odd} two"]
        assert await ids_that_begin(client, f"{word} {'%' * 3}") == []
        assert await ids_that_begin(client, f"{word} TWO") == []


@pytest.mark.parametrize("typed", ["'; DROP", "a' OR WorkflowType = 'agent"])
async def test_a_query_cannot_be_typed_as_an_id(client: Client, typed: str) -> None:
    """What is typed is compared, never taken for a part of the query."""
    assert await ids_that_begin(client, typed) == []
