"""The agent loop, one page of story: ask Claude, run what it asks for, repeat."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from temporalio import workflow
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from onward import messages as m
    from onward import names
    from workflows import scheduling
    from workflows.budget import Ending, ending_of, over_limit
    from workflows.calls import run_calls
    from workflows.clock import asks_now, begun, people_waited, went_s
    from workflows.continuing import HistoryIsLong, carried, continue_as_new, is_long
    from workflows.limits import LIMIT, not_changeable, wait_at
    from workflows.making_room import ask_claude
    from workflows.running import now_ms
    from workflows.state import RunState
    from workflows.stops import limit_of, outcome_of, reason_of
    from workflows.unfinished import asks_again, goes_on, room_again, to_go_on

OUTCOME = SearchAttributeKey.for_keyword("OnwardOutcome")
WAITING = SearchAttributeKey.for_keyword("OnwardWaiting")
_HANDLERS_END = timedelta(seconds=30)
"""How long an ending run waits for what a person said to be carried out."""

_CARRYING = "the run is just going on in a new history, which takes a moment. Say it again then"
_MAX_REQUEST_BYTES = 1_950_000
"""Of a run's input as JSON. Temporal refuses 2 MiB, and activities' inputs hold the prompt too."""
# Values that cannot be read or written fail a run at once: retrying the task would find the same
# ones for ever. Other errors are faults of ours, and wait for the deploy that mends them.
_FATAL = (ValidationError, PydanticSerializationError)


@workflow.defn(name=names.WORKFLOW, failure_exception_types=_FATAL)
class AgentWorkflow:
    """One agent run. Its event history is the checkpoint: all else can be lost and rebuilt."""

    @workflow.init
    def __init__(self, request: m.RunRequest | None = None) -> None:
        # None is what a start without input gives; it is refused here, where it fails the run.
        self._state = RunState.of(m.RunRequest.model_validate(request))
        self._task: asyncio.Task[m.RunResult] | None = None
        self._cancels_by_signal = 0
        self._state.waiting.changed = self._show_waiting

    @workflow.run
    async def run(self, request: m.RunRequest | None = None) -> m.RunResult:  # noqa: ARG002
        """Run the agent that `request` names until it ends, and return how it ended."""
        _refuse_repeats()
        if not self._state.request.carried:  # what a run carries over was taken long ago
            _refuse_size(self._state.request)
        self._task = asyncio.current_task()
        result = await self._converse()
        self._state.waiting.clear()
        self._state.outcome = result.outcome
        self._show("ending")
        await _handlers_ended()
        return self._conclude(await self._end(result))

    async def _converse(self) -> m.RunResult:
        state = self._state
        try:
            # Before a `begin` that may wait for its Redis: no task was there yet to be cancelled.
            self._heed_cancel()
            await self._begin()
            while True:
                await self._continue_if_long()
                if result := await self._step():
                    return result
        except ActivityError as error:
            outcome = "cancelled" if self._cancelled() else outcome_of(error)
            return state.result(outcome, self._why(reason_of(error)))
        except asyncio.CancelledError:
            return state.result("cancelled", self._why("cancelled"))

    async def _begin(self) -> None:
        state = self._state
        self._show("starting")
        if state.request.fork and not state.request.carried:
            state.resume(await scheduling.fork(state, state.request.fork))
        elif not state.request.carried:
            state.opened(await scheduling.begin(state))
        begun(state, now_ms())

    async def _continue_if_long(self) -> None:
        """Continue as new where history is long: between steps, or while people are waited for."""
        if is_long(self._state):
            self._show("continuing as new")
            carry = await carried(self._state)
            self._heed_cancel()
            continue_as_new(self._state, carry)

    async def _step(self) -> m.RunResult | None:
        """Ask Claude and run what it asks for; returns the run's result where that ends it."""
        state = self._state
        if state.reply is None:
            self._heed_cancel()
            limit = over_limit(state, now_ms())
            if result := await (self._limited(limit) if limit else self._ask()):
                return result
        if state.reply is not None:  # else there is nothing to run yet
            self._show("running tools")
            with suppress(HistoryIsLong):
                await run_calls(state, state.reply, self._heed_cancel)
        return None

    async def _ask(self) -> m.RunResult | None:
        """Ask Claude and take its reply; returns the run's result where that ends it."""
        state = self._state
        self._show("asking Claude")
        asks_now(state, now_ms())
        limits = state.limits
        try:
            reply = await ask_claude(state, self._heed_cancel)
        except ActivityError as error:
            limit = self._met(error)
            # The step knew only those of its beginning: changed meanwhile, they are looked at anew.
            return None if state.limits != limits else await self._limited(limit)
        if asks_again(state, reply):
            state.put_aside(room_again(state, reply))
            return None
        state.replied(reply)
        state.replied_ms = now_ms()
        self._heed_cancel()
        if ending := ending_of(state, reply):
            return state.result(*ending)
        if goes_on(state, reply):
            state.go_on_after(to_go_on(reply))
        return None

    def _met(self, error: ActivityError) -> Ending:
        """Say which limit a step met before its request; raises any other error."""
        if not (limit := limit_of(error)) or self._cancelled():
            raise error
        self._state.redos += 1
        return limit

    async def _limited(self, limit: Ending) -> m.RunResult | None:
        """End the run at a limit, or wait until a person has raised it."""
        state = self._state
        if state.opening is None or not state.opening.waits_at_limit:
            return state.result(*limit)
        await wait_at(state, limit)
        return None

    async def _end(self, result: m.RunResult) -> m.RunResult:
        """Run the last activity: a cancel that comes so late changes no outcome."""
        try:
            result = await scheduling.end(self._state, result)
        except (ActivityError, asyncio.CancelledError):
            # Temporal's own cancel, which comes once: without this the result would be lost.
            result = await scheduling.end(self._state, result)
        self._state.spend = result.spend
        return result

    def _conclude(self, result: m.RunResult) -> m.RunResult:
        if self._state.opening and self._state.opening.search_attributes:
            ended = OUTCOME.value_set(result.outcome)
            workflow.upsert_search_attributes([ended])  # pyright: ignore[reportUnknownMemberType]
        if result.outcome == "failed":
            raise ApplicationError(result.detail, result, type="failed", non_retryable=True)
        if result.outcome == "cancelled" and self._cancelled_by_server():
            # Only so does Temporal show Canceled; the result is in the last activity's.
            raise asyncio.CancelledError
        return result

    @workflow.signal(name="cancel", description="End this run cleanly. The payload may be empty.")
    def cancel(self, request: Any = None) -> None:
        """End the run: abort Claude's stream, let effects come to a definite end."""
        if self._state.cancel is None and self._state.outcome is None:
            self._state.cancel = _cancel_request(request)
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
        state, now = self._state, now_ms()
        clock = {"went_s": went_s(state, now), "at_ms": now}
        return state.status().model_copy(update=clock)

    @workflow.update(name="approve", description="Let a call run that waits for an approval.")
    def approve(self, said: m.Approval) -> m.Waiting:
        """Let the call run; returns what was approved."""
        return self._state.waiting.decide(said.call, said)

    @approve.validator
    def _may_approve(self, said: m.Approval) -> None:
        self._refuse(said, "approval")

    @workflow.update(name="deny", description="Refuse a call that waits for an approval.")
    def deny(self, said: m.Denial) -> m.Waiting:
        """Let Claude know that the call may not run; returns what was denied."""
        return self._state.waiting.decide(said.call, said)

    @deny.validator
    def _may_deny(self, said: m.Denial) -> None:
        self._refuse(said, "approval")

    @workflow.update(
        name="resolve",
        description="Say how a call in doubt ended.",
        # An ending run waits for it, but not for ever: see `_handlers_ended`.
        unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON,
    )
    async def resolve(self, said: m.Resolve) -> m.Resolution:
        """Settle a doubt; returns what the ledger holds now: a truth that came late stands."""
        self._refuse(said, "doubt")  # again: another one may have been accepted just before
        waiting = self._state.waiting
        waiting.begin_settling(said.call)
        try:
            resolution = await scheduling.resolve(self._state, self._state.doubts[said.call], said)
        except ActivityError as error:
            raise _usage(reason_of(error)) from error
        finally:
            waiting.end_settling(said.call)
        if said.call in waiting.shown:  # else the run was cancelled meanwhile
            waiting.decide(said.call, resolution)
        return resolution

    @resolve.validator
    def _may_resolve(self, said: m.Resolve) -> None:
        self._refuse(said, "doubt")

    @workflow.update(name="limit", description="Raise or lower the run's limits.")
    async def limit(self, change: m.LimitChange) -> m.Limits:
        """Change limits from the next request on; returns those that hold now."""
        state = self._state
        await workflow.wait_condition(lambda: bool(state.opening or state.outcome))
        if refusal := not_changeable(state, change):
            raise _usage(refusal)
        state.raised = change.of(state.limits)
        state.waiting.drop(LIMIT)
        self._show(state.doing)
        return state.limits

    @limit.validator
    def _may_limit(self, change: m.LimitChange) -> None:
        if refusal := not_changeable(self._state, change):
            raise _usage(refusal)

    def _refuse(self, said: m.Said, kind: m.WaitKind) -> None:
        if kind == "doubt" and self._state.carrying:
            # Once it is settled in the ledger alone, no segment would hold it.
            raise _usage(_CARRYING)
        if refusal := self._state.waiting.refusal(said, kind):
            raise _usage(refusal)

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
        prompt = workflow.memo_value("prompt", "")
        details = self._state.details(workflow.info().workflow_id, prompt)
        workflow.set_current_details(details)

    def _show_waiting(self) -> None:
        state = self._state
        people_waited(state, now_ms())
        self._show(state.doing)
        if state.opening and state.opening.shows_waiting:
            first = next(iter(state.waiting.shown.values()), None)
            shown = WAITING.value_set(first.kind) if first else WAITING.value_unset()
            workflow.upsert_search_attributes([shown])  # pyright: ignore[reportUnknownMemberType]


def _cancel_request(given: Any) -> m.CancelRequest:
    """Read the signal's payload; any at all cancels.

    Temporal drops a signal of another type than declared, and tells nobody. A person who types a
    reason into its UI means to cancel.
    """
    request = {"reason": given} if isinstance(given, str) else given
    try:
        return m.CancelRequest.model_validate(request)
    except ValueError:
        return m.CancelRequest()


async def _handlers_ended() -> None:
    # Temporal's own cancel comes once: what is still to come is how the run ended.
    with suppress(asyncio.TimeoutError, asyncio.CancelledError):
        await workflow.wait_condition(workflow.all_handlers_finished, timeout=_HANDLERS_END)


def _usage(text: str) -> ApplicationError:
    return ApplicationError(text, type="usage", non_retryable=True)


def _refuse_repeats() -> None:
    """Refuse what would run a run's steps again under the same keys (ledger.md, 1.1)."""
    info = workflow.info()
    if info.cron_schedule or info.retry_policy:
        found = f"cron schedule {info.cron_schedule!r}, retry policy {info.retry_policy!r}"
        raise _usage(
            f"found {found}; expected neither, because repeats share idempotency keys. "
            "Start a run without a retry policy, and use a Temporal Schedule instead of cron"
        )


def _refuse_size(request: m.RunRequest) -> None:
    """Refuse what would no longer fit the inputs of activities: those retry for ever."""
    size = len(request.model_dump_json().encode())
    if size > _MAX_REQUEST_BYTES:
        raise _usage(
            f"found a run's input of {size:,} bytes as JSON, expected {_MAX_REQUEST_BYTES:,} at "
            "most. Put what is long in a file that a tool reads"
        )
