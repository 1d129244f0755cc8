"""The agent loop, one page of story: ask Claude, run what it asks for, repeat."""

import asyncio

from temporalio import workflow
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from onward import messages as m
    from workflows import scheduling
    from workflows.budget import ending_of, over_limit
    from workflows.calls import run_calls
    from workflows.state import RunState
    from workflows.stops import outcome_of, reason_of, spend_of

OUTCOME = SearchAttributeKey.for_keyword("OnwardOutcome")


@workflow.defn(name=m.WORKFLOW, failure_exception_types=[ValueError, TypeError])
class AgentWorkflow:
    """One agent run. Its event history is the checkpoint: all else can be lost and rebuilt.

    Values that cannot be read or written (`ValueError`, `TypeError`) fail the run at once: retrying
    the workflow task would find the same value for ever.
    """

    @workflow.init
    def __init__(self, request: m.RunRequest) -> None:
        # A null input passes every type hint on its way here.
        self._state = RunState.of(m.RunRequest.model_validate(request))
        self._task: asyncio.Task[m.RunResult] | None = None
        self._cancels_by_signal = 0

    @workflow.run
    async def run(self, request: m.RunRequest) -> m.RunResult:  # noqa: ARG002  (see __init__)
        """Run the agent that `request` names until it ends, and return how it ended."""
        _refuse_repeats()
        self._task = asyncio.current_task()
        result = await self._converse()
        self._state.outcome, self._state.doing = result.outcome, "ending"
        result = await scheduling.end(self._state, result)
        return self._conclude(result)

    async def _converse(self) -> m.RunResult:
        state, started = self._state, workflow.time()
        try:
            self._show("starting")
            state.opened(await scheduling.begin(state))
            while True:
                self._heed_cancel()
                if limit := over_limit(state, workflow.time() - started):
                    return state.result(*limit)
                self._show("asking Claude")
                reply = await scheduling.ask_claude(state)
                state.replied(reply)
                self._heed_cancel()
                if ending := ending_of(reply):
                    return state.result(*ending)
                self._show("running tools")
                await run_calls(state, reply)
        except ActivityError as error:
            state.spend += spend_of(error)
            outcome = "cancelled" if self._cancelled() else outcome_of(error)
            return state.result(outcome, self._why(reason_of(error)))
        except asyncio.CancelledError:
            return state.result("cancelled", self._why("cancelled"))

    def _conclude(self, result: m.RunResult) -> m.RunResult:
        if self._state.opening and self._state.opening.search_attributes:
            ended = OUTCOME.value_set(result.outcome)
            workflow.upsert_search_attributes([ended])  # pyright: ignore[reportUnknownMemberType]
        if result.outcome == "failed":
            raise ApplicationError(result.detail, result, type="failed", non_retryable=True)
        if self._cancelled_by_server():
            # Only so does Temporal show Canceled; the result is in the last activity's.
            raise asyncio.CancelledError
        return result

    @workflow.signal(name="cancel", description="End this run cleanly. The payload may be empty.")
    def cancel(self, request: m.CancelRequest | None = None) -> None:
        """End the run: abort Claude's stream, let effects come to a definite end."""
        if self._state.cancel is None and self._state.outcome is None:
            self._state.cancel = request or m.CancelRequest()
            if self._task:
                self._task.cancel()
                self._cancels_by_signal = 1

    @workflow.query(name="spend", description="Tokens and dollars so far, lost attempts included.")
    def spend(self) -> m.Spend:
        """Answer what the run has cost up to its last finished step."""
        return self._state.spend

    @workflow.query(name="status", description="What this run is doing, and its limits.")
    def status(self) -> m.RunStatus:
        """Answer where the run stands."""
        return self._state.status()

    def _heed_cancel(self) -> None:
        # An activity that ends as the cancel arrives swallows it; cancel wins all the same.
        if self._cancelled():
            raise asyncio.CancelledError

    def _cancelled(self) -> bool:
        return self._state.cancel is not None or self._cancelled_by_server()

    def _cancelled_by_server(self) -> bool:
        return self._task is not None and self._task.cancelling() > self._cancels_by_signal

    def _why(self, reason: str) -> str:
        asked = self._state.cancel
        return f"cancelled: {asked.reason}" if asked and asked.reason else reason

    def _show(self, doing: str) -> None:
        self._state.doing = doing
        workflow.set_current_details(self._state.details())


def _refuse_repeats() -> None:
    """Refuse what would run a run's steps again under the same keys (ledger.md, 1.1)."""
    info = workflow.info()
    if info.cron_schedule or info.retry_policy:
        found = f"cron schedule {info.cron_schedule!r}, retry policy {info.retry_policy!r}"
        raise ApplicationError(
            f"found {found}; expected neither, because repeats share idempotency keys. "
            "Start a run without a retry policy, and use a Temporal Schedule instead of cron",
            type="usage",
            non_retryable=True,
        )
