"""The agent loop, one page of story: ask Claude, run what it asks for, repeat."""

import asyncio
from contextlib import suppress
from datetime import timedelta

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from onward import messages as m
    from onward import names

    from . import carrying, scheduling
    from .budget import Ending, ending_of, over_limit
    from .calls import run_calls
    from .clock import asks_now, begun
    from .continuing import HistoryIsLong, carried, continue_as_new, is_long
    from .handlers import Handlers
    from .limits import wait_at
    from .making_room import ask_claude
    from .pausing import waited_while_paused
    from .refusing import refuse_unfit
    from .running import now_ms
    from .showing import show, show_outcome
    from .stops import limit_of, outcome_of, reason_of
    from .unfinished import asks_again, goes_on, room_again, to_go_on

_HANDLERS_END = timedelta(seconds=30)
"""How long an ending run waits for what a person said to be carried out."""
# Values that cannot be read or written fail a run at once: retrying the task would find the same
# ones for ever. Other errors are faults of ours, and wait for the deploy that mends them.
_FATAL = (ValidationError, PydanticSerializationError)


# Outside the sandbox: no user's code runs in it, tests run it inside, and a replay takes half the
# time.
@workflow.defn(name=names.WORKFLOW, sandboxed=False, failure_exception_types=_FATAL)
class AgentWorkflow(Handlers):
    """One agent run. Its event history is the checkpoint: all else can be lost and rebuilt."""

    @workflow.init
    def __init__(self, request: m.RunRequest | None = None) -> None:
        # None is what a start without input gives; it is refused here, where it fails the run.
        super().__init__(carrying.state_of(m.RunRequest.model_validate(request)))

    @workflow.run
    async def run(self, request: m.RunRequest | None = None) -> m.RunResult:  # noqa: ARG002
        """Run the agent that `request` names until it ends, and return how it ended."""
        refuse_unfit(self._state.request)
        self._task = asyncio.current_task()
        result = await self._converse()
        self._state.waiting.clear()
        self._state.outcome = result.outcome
        show(self._state, "ending")
        await _handlers_ended()
        return self._conclude(await self._end(result))

    async def _converse(self) -> m.RunResult:
        state = self._state
        try:
            # Before a `begin` that may wait for its Redis: no task was there yet to be cancelled.
            self._heed_any_cancel()
            await self._begin()
            while True:
                await self._continue_if_long()
                if await waited_while_paused(state):
                    continue
                if result := await self._step():
                    return result
        except ActivityError as error:
            if self._cancelled():
                return state.result("cancelled", self._why())
            return state.result(outcome_of(error), reason_of(error))
        except asyncio.CancelledError:
            return state.result("cancelled", self._why())

    async def _begin(self) -> None:
        state = self._state
        show(state, "starting")
        if state.request.fork and not state.request.carried:
            carrying.go_on_from(state, await scheduling.fork(state, state.request.fork))
        elif not state.request.carried:
            state.opened(await scheduling.begin(state))
        begun(state, now_ms())

    async def _continue_if_long(self) -> None:
        """Continue as new where history is long: between steps, or while people are waited for."""
        if is_long(self._state):
            show(self._state, "continuing as new")
            carry = await carried(self._state)
            self._heed_any_cancel()
            continue_as_new(self._state, carry)

    async def _step(self) -> m.RunResult | None:
        """Ask Claude and run what it asks for; returns the run's result where that ends it."""
        state = self._state
        if state.reply is None:
            self._heed_any_cancel()
            limit = over_limit(state, now_ms())
            if result := await (self._limited(limit) if limit else self._ask()):
                return result
        if state.reply is not None:  # else there is nothing to run yet
            show(self._state, "running tools")
            with suppress(HistoryIsLong):
                await run_calls(state, self._heed_cancel)
        return None

    async def _ask(self) -> m.RunResult | None:
        """Ask Claude and take its reply; returns the run's result where that ends it."""
        state = self._state
        show(self._state, "asking Claude")
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
            return self._ended(ending)
        if goes_on(state, reply):
            state.go_on_after(to_go_on(reply))
        return None

    def _ended(self, ending: Ending) -> m.RunResult | None:
        """End the run, unless people said more while Claude came to its last words."""
        # What the answered turn did not hold: a reply takes all else out of the additions.
        if ending[0] == "completed" and self._state.additions:
            self._state.go_on()
            return None
        return self._state.result(*ending)

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
        show(self._state)
        show_outcome(self._state, result.outcome)
        if result.outcome == "failed":
            raise ApplicationError(result.detail, result, type="failed", non_retryable=True)
        if result.outcome == "cancelled" and self._cancelled_by_server():
            # Only so does Temporal show Canceled; the result is in the last activity's.
            raise asyncio.CancelledError
        return result

    def _heed_cancel(self) -> None:
        # An activity that ends as the cancel arrives swallows it; cancel wins all the same.
        if self._cancelled():
            raise asyncio.CancelledError

    def _heed_any_cancel(self) -> None:
        """Heed one that lets the step end, too: none is under way."""
        if self._state.cancel:
            raise asyncio.CancelledError
        self._heed_cancel()

    def _cancelled(self) -> bool:
        asked = self._state.cancel
        return bool(asked and not asked.after_step) or self._cancelled_by_server()

    def _cancelled_by_server(self) -> bool:
        return self._task is not None and self._task.cancelling() > self._cancels_by_signal

    def _why(self) -> str:
        asked = self._state.cancel or m.CancelRequest()
        said = asked.reason or workflow.cancellation_reason()
        why = f"cancelled: {said}" if said else "cancelled"
        return f"{why} (by {asked.by})" if asked.by else why


async def _handlers_ended() -> None:
    # Temporal's own cancel comes once: what is still to come is how the run ended.
    with suppress(asyncio.TimeoutError, asyncio.CancelledError):
        await workflow.wait_condition(
            workflow.all_handlers_finished,
            timeout=_HANDLERS_END,
            timeout_summary="what people said is carried out first",
        )
