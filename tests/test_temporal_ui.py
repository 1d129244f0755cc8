"""What a person sees and does in the Temporal UI: find runs, read one, decide, stop it."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
import ui_story
from browser import TemporalUI, chromium, temporal_ui
from temporalio.client import Client

from onward.messages import RunStatus
from onward.names import AGENT, COST, STATUS, STEP, TASK_QUEUE, WAITING
from onward.payload_store import data_converter
from onward.starting import start
from onward.testing import PaymentsProcess, temporal_server, wait_until
from onward.testing.messages_api import ScriptedAPI
from onward.testing.warm import WarmWorker

pytestmark = pytest.mark.browser

PAUSED = "parcel-1047"
WAIT = {"refund-1042", "letter-0977", "invoices-november"}
THERE = {*WAIT, PAUSED, "refund-1038", "refund-1031"}
"""Runs that no test changes."""


@dataclass(frozen=True)
class Desk:
    """The shop's support desk: its runs, and a browser in which a person looks at them."""

    temporal: Client
    ui: TemporalUI

    async def start(self, run: str) -> None:
        """Start a run of the story."""
        request = ui_story.JOBS[run].request
        await start(self.temporal, run, request, task_queue=TASK_QUEUE, before_new=_nothing)

    async def status(self, run: str) -> RunStatus:
        """Ask a run how it is."""
        handle = self.temporal.get_workflow_handle(run)
        answer: RunStatus = await handle.query("status", result_type=RunStatus)
        return answer

    async def found(self, query: str, count: int = 1) -> None:
        """Wait until Temporal's index, which is a little behind, finds so many runs."""

        async def enough() -> bool:
            return (await self.temporal.count_workflows(query)).count >= count

        await wait_until(enough, 60, what=f"{count} runs with {query}")


async def _nothing() -> None:
    """Look at no Redis before a run is started."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def desk(
    redis_url: str, payments: PaymentsProcess, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Desk]:
    """Begin the morning: servers, a worker, the runs that no test changes, and a browser."""
    chromium()
    folder = tmp_path_factory.mktemp("desk")
    async with AsyncExitStack() as stack:
        temporal = await stack.enter_async_context(temporal_server(None))
        api = await stack.enter_async_context(ScriptedAPI({"default": ui_story.answer}))
        environment = {
            "TEMPORAL_ADDRESS": temporal.address,
            "ONWARD_REDIS_URL": redis_url,
            "ONWARD_APP": "ui_story:app",
            "ONWARD_PAYLOAD_DIR": str(folder / "payloads"),
            "ANTHROPIC_BASE_URL": api.url,
            "ANTHROPIC_API_KEY": "test",
            "PAYMENTS_URL": payments.url,
        }
        worker = await WarmWorker.start(
            environment, log=folder / "worker.log", cwd=Path(__file__).parent
        )
        stack.push_async_callback(worker.stop)
        assert temporal.ui_url
        ui = await stack.enter_async_context(temporal_ui(temporal.ui_url))
        await worker.ready()
        converter = data_converter(folder / "payloads")
        desk = Desk(await Client.connect(temporal.address, data_converter=converter), ui)
        for run in sorted(THERE):
            await desk.start(run)
        handle = desk.temporal.get_workflow_handle(PAUSED)
        await handle.signal("pause", {"reason": "the carrier is on strike", "by": "rosa"})
        await desk.found(f'{STATUS} IN ("waiting", "paused", "completed", "failed")', len(THERE))
        yield desk


async def test_the_list_shows_and_finds_runs_by_what_is_ours(desk: Desk) -> None:
    """Columns of status, agent, what it waits for, steps and dollars; links that filter by them."""
    ui = desk.ui
    assert await ui.runs() >= THERE
    shown = (STATUS, AGENT, WAITING, STEP, COST)
    await ui.show_columns(*shown, without=("Run ID", "Type", "Start", "End"))
    assert "waiting support approval 3 0.0" in await ui.row("refund-1042")
    assert "FAILED refund-1031 failed support 0 0" in await ui.row("refund-1031")
    assert "RUNNING parcel-1047 paused support" in await ui.row(PAUSED)
    await ui.picture("list")

    dear = await ui.runs(f'{AGENT}="billing" AND {COST} > 0.05')
    await ui.filtered_by(f'{AGENT} = "billing"', f"{COST} > 0.05")
    assert dear == {"invoices-november"}
    waiting = await ui.runs(f'{STATUS}="waiting"')
    await ui.filtered_by(f'{STATUS} = "waiting"')
    await ui.picture("waiting")
    assert waiting & THERE == WAIT


async def test_the_card_says_how_a_run_is_and_what_to_type(desk: Desk) -> None:
    """Whoever opens a run sees its step, spend, limits, Claude's words and the next command."""
    card = await desk.ui.card("refund-1042", "approve refund-1042 3.1")
    await desk.ui.picture("card")
    for said in (
        "support is waiting at step 3",
        "3.1 refund order 1042 · €120.00 needs an approval",
        "The postage is refunded. Now the two lamps, for 120.00.",
        "$0.0219 of $5, 7,473 of 20,000,000 tokens",
        "steps: 3 of 100, in 60 min at most",
        "3,468 of 1,000,000 tokens (0%)",
        "onward cancel refund-1042",
    ):
        assert said in card


async def test_claudes_words_are_no_markup(desk: Desk) -> None:
    """They stand on the card as they were written: no link, no formula, no letters of ours."""
    card = await desk.ui.card("letter-0977", "resolve letter-0977 1.1 done")
    assert ui_story.MARKUP in card


async def test_an_approval_is_given_in_the_ui(desk: Desk) -> None:
    """What does not fit is refused with a reason; what fits lets the call run, and is told."""
    ui, run = desk.ui, "refund-1043"
    await desk.start(run)
    await desk.found(f'WorkflowId="{run}" AND {WAITING}="approval"')
    dialog = await ui.say(run, "update", "approve")
    await dialog.submit('{"call": "7.1"}')
    assert "waiting: 3.1 (approval)" in await dialog.refusal()
    await dialog.submit('{"call": "3.1"}')
    await dialog.taken()
    labels = await ui.timeline(run, "outcome: completed")
    for told in (
        "call_claude • step 2, after step 1 · 1,204 in / 310 out · $0.006",
        "refund • 2.1 order 1043 · €25.00 · keyed",
        "3.1 waits for a person (no answer: deny): refund order 1043 · €120.00",
        "refund • 3.1 order 1043 · €120.00 · keyed",
    ):
        assert any(told in label for label in labels), labels
    await ui.picture("timeline")


async def test_cancel_pressed_in_the_ui_ends_the_run_cleanly(desk: Desk) -> None:
    """The run ends as cancelled, for Temporal and for Onward, with what it spent."""
    run = "parcel-1050"
    await desk.start(run)
    await desk.found(f'WorkflowId="{run}" AND {STEP}=1')
    await desk.ui.cancel(run)
    await desk.found(f'WorkflowId="{run}" AND {STATUS}="cancelled" AND ExecutionStatus="Canceled"')
    ended = await desk.status(run)
    assert (ended.outcome, ended.spend.requests, ended.spend.output_tokens) == ("cancelled", 2, 120)


async def test_signals_without_a_payload_are_taken(desk: Desk) -> None:
    """The dialog for signals need not be filled in: a pause and a cancel work as they are."""
    run = "parcel-1051"
    await desk.start(run)
    await desk.found(f'WorkflowId="{run}" AND {STEP}=1')
    for name, then in ("pause", "paused"), ("cancel", "cancelled"):
        dialog = await desk.ui.say(run, "signal", name)
        await dialog.submit()
        await dialog.taken()
        await desk.found(f'WorkflowId="{run}" AND {STATUS}="{then}"')
