"""The benchmarks: they run, they count right, and they can fail."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio import activity, workflow
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from benchmarks import aims, caching, contenders, document, long_run, peers, throughput
from benchmarks.bed import Bed, Seen, bed
from benchmarks.chain import chain_bytes
from benchmarks.contenders import BARE, USUAL
from benchmarks.lean_api import Progress, Turns
from benchmarks.work import page
from onward.errors import UsageError


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def servers() -> AsyncGenerator[Bed]:
    """Start the servers that benchmarks stand on."""
    async with bed() as found:
        yield found


# ---- they run


async def test_a_long_run_is_measured_beside_the_bare_client(servers: Bed) -> None:
    """Both have the whole conversation, step by step, and every promised figure is there."""
    found = await long_run.measure(servers, steps=10, result_bytes=2048)
    assert (found.finished, found.steps, found.requests, found.died) == (True, 10, 10, "")
    assert 9 * 2048 < found.content_bytes < 10 * 2048 + 10_000
    assert found.history_bytes > found.content_bytes
    assert found.worker_peak_mb > 50
    assert found.bare_client is not None
    times = (found.ms_per_step_first_tenth, found.bare_client.ms_per_step_last_tenth)
    assert all(ms is not None and ms > 0 for ms in times)


@pytest.mark.long
async def test_what_caching_saves_is_measured(servers: Bed) -> None:
    """The same tokens cost less with each policy than without, and most of them are read."""
    found = await caching.measure(servers, steps=10, result_bytes=1024)
    assert found.steps == 10
    assert found.cache_read_share > 0.75
    assert found.cost_usd < found.cost_usd_for_an_hour < found.cost_usd_without_caching / 2


async def test_many_runs_at_once_are_counted(servers: Bed) -> None:
    """Every run finishes, and what the worker used is divided among all their steps."""
    (load,) = await throughput.measure(
        servers, [3], steps=4, rounds=1, contenders=[USUAL], tools=["book"]
    )
    assert (load.contender, load.runs, load.finished) == ("usual_pattern", 3, 3)
    assert load.steps_per_s > 0
    assert load.worker_cpu_ms_per_step > 0
    assert "| `book` | 3 | usual pattern |" in throughput.table([vars(load)])


# ---- they can fail


@pytest.mark.long
async def test_a_contender_that_cannot_go_on_is_told_dead(
    servers: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What kills the usual pattern is seen, with the step, and the others go on."""
    monkeypatch.setattr(contenders, "STALL_S", 5.0)  # no step takes so long
    bare, usual = await peers.measure(
        servers, [BARE, USUAL], [5], rounds=1, result_bytes=800_000, tools=["look"]
    )
    assert (bare.answered, bare.died) == (5, "")
    assert bare.ms_per_step is not None
    assert (usual.answered, usual.ms_per_step) == (3, None)
    assert "stuck at step 3" in usual.died
    shown = peers.table([vars(cell) for cell in (bare, usual)])
    assert "died at step 3" in shown


async def test_a_peer_that_is_not_installed_is_named(servers: Bed) -> None:
    """Whoever lacks the optional packages is told how to get them, or to leave them out."""
    missing = replace(USUAL, name="x", needs="no_such_package")
    with pytest.raises(UsageError, match=r"make peers.*--without x"):
        async with missing.ready(servers):
            pass


@pytest.mark.parametrize("command", [caching, long_run, peers, throughput])
def test_a_number_of_steps_that_is_none_is_refused(command: Any) -> None:
    """No benchmark starts a server for work that cannot be done."""
    with pytest.raises(SystemExit, match="2"):
        command.main(["--steps", "0"])


# ---- they count right


@workflow.defn(name="chained")
class Chained:
    """Three runs; each but the last hands a longer text on."""

    @workflow.run
    async def run(self, text: str) -> None:
        """Continue as new until the text is long enough."""
        for name in ("carry", "other"):
            await workflow.execute_activity(name, start_to_close_timeout=timedelta(seconds=20))
        if len(text) < 2_000:
            workflow.continue_as_new(text + "x" * 1_000)


@activity.defn(name="carry")
async def carry() -> str:
    """Return what counts as carried."""
    return "c" * 10_000


@activity.defn(name="other")
async def other() -> str:
    """Return what does not."""
    return "o" * 10_000


async def test_what_is_carried_over_is_told_from_what_happened(servers: Bed) -> None:
    """Inputs of continued runs and results of `carry` are carried; all else is history."""
    worker = Worker(
        servers.client,
        task_queue="chained",
        workflows=[Chained],
        activities=[carry, other],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with worker:
        handle = await servers.client.start_workflow(
            Chained.run, "", id="chained", task_queue="chained"
        )
        await handle.result()
    sizes = await chain_bytes(servers.client, "chained", handle.first_execution_run_id or "")
    assert sizes.continued_as_new == 2
    # Twice 1,000 and twice 2,000 characters of input, and three results.
    assert 36_000 < sizes.carried_bytes < 36_500
    assert 30_000 < sizes.history_bytes < 40_000


def test_time_per_step_leaves_out_what_the_api_took() -> None:
    """A step lasts from an answer to the next request, so taking turns costs nobody anything."""
    seen = Seen(Progress(arrived_s=[0, 11, 23], answered_s=[10, 20, 30]), steps=3)
    assert (seen.ms_per_step(), seen.ms_per_step(last=0.5)) == (2_000, 1_000)
    assert seen.ms_per_step(first=0.5) == 3_000


async def test_runs_that_take_turns_wait_for_each_other() -> None:
    """Of two that share the machine, only one works at a time, a block of steps each."""
    turns, done = Turns(), list[str]()
    await turns.share(["a", "b"], block=2)

    async def work(run: str) -> None:
        for step in range(5):
            await turns.wait(run, step)
            done.append(f"{run}{step}")
        await turns.finished(run)

    await asyncio.gather(work("b"), work("a"))
    assert done == ["a0", "a1", "b0", "b1", "a2", "a3", "b2", "b3", "a4", "b4"]


def test_every_page_is_as_long_as_asked_and_another_one() -> None:
    """Contenders carry what was asked for, and no store can keep two results as one."""
    pages = [page(n, 16_384) for n in range(1, 1_000)]
    assert {len(each.encode()) for each in pages} == {16_384}
    assert len(set(pages)) == len(pages)


def test_an_aim_that_is_missed_or_not_measured_is_not_met() -> None:
    """A table of aims cannot say yes because figures are missing, or miss it."""

    def cell(contender: str, steps: int, ms: float) -> dict[str, object]:
        return {"contender": contender, "tool": "look", "steps": steps, "ms_per_step": ms}

    found = [
        *(cell("onward", 50, 30), cell("usual_pattern", 50, 40)),
        *(cell("onward", 150, 30), cell("pydantic_ai", 150, 50)),
    ]
    told = aims.aims(found, [])
    assert [(aim.reached, aim.met) for aim in told[:3]] == [
        (0.75, True),
        (0.6, False),
        (None, False),
    ]
    assert [aim.met for aim in told[3:]] == [False, False]


# ---- the documentation


@pytest.mark.parametrize("page", document.PAGES)
def test_the_published_tables_are_those_of_the_published_figures(page: Path) -> None:
    """No number of a table in the documentation is typed by hand."""
    assert document.documented(page.read_text()) == page.read_text()


def test_figures_that_are_missing_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Which file, and the command that makes it; the page stays as it was."""
    pages = [page.read_text() for page in document.PAGES]
    monkeypatch.setattr(document, "FIGURES", tmp_path)
    assert document.main([]) == 1
    said = capsys.readouterr().err
    assert f"no figures in '{tmp_path}/peers.json'" in said
    assert "python -m benchmarks.peers --json" in said
    assert [page.read_text() for page in document.PAGES] == pages
