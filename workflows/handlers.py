"""What people say to a run, and ask of it: signals, updates, queries."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ActivityError

from onward import messages as m
from onward.names import AGAIN, MAX_SAID_BYTES

from . import scheduling, standing
from .asking import remember
from .calls import asked
from .clock import people_waited
from .limits import LIMIT, not_changeable
from .notifying import notify
from .refusing import refused
from .running import now_ms
from .sending import not_sendable, take
from .showing import show, show_waiting
from .state import RunState
from .stops import reason_of

T = TypeVar("T")
W = TypeVar("W", bound=m.Wire)

_CARRYING = f"the run is just going on in a new history, which takes a moment. {AGAIN} then"
# What is shown in the Temporal UI, and to whoever typed something else there.
_SEND, _APPROVE = '{"text": "…"}', '{"call": "12.1"}'
_DENY, _RESOLVE = '{"call": "12.1", "why": "…"}', '{"call": "12.1", "outcome": "done"}'
_LIMIT = '{"max_cost_usd": "8"}'


class Handlers:
    """A run's handlers; what they change is its state."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._task: asyncio.Task[m.RunResult] | None = None
        self._cancels_by_signal = 0
        state.waiting.changed = self._waiting_changed

    # ---- stop, pause, go on

    @workflow.signal(
        name="cancel",
        description='End this run cleanly. Data: none, or the reason, like "wrong list".',
    )
    def cancel(self, request: Any = None) -> None:
        """End the run: abort Claude's stream, let effects come to a definite end."""
        state, asked_now = self._state, _read(m.CancelRequest, request)
        if state.outcome is not None or (state.cancel and not state.cancel.after_step):
            return
        before = state.cancel or asked_now
        reason = before.reason or asked_now.reason
        state.cancel = asked_now.model_copy(update={"reason": reason, "by": before.by})
        show(state)
        if self._task and not asked_now.after_step:
            self._task.cancel()
            self._cancels_by_signal = 1

    @workflow.signal(
        name="pause",
        description='Finish the step, then wait. Data: none, or the reason, like "carrier away".',
    )
    def pause(self, request: Any = None) -> None:
        """Let the run finish its step, and then wait for `resume`."""
        state, asked_now = self._state, _read(m.PauseRequest, request)
        if state.outcome is None and state.paused is None:
            state.paused = m.Paused(since_ms=now_ms(), reason=asked_now.reason, by=asked_now.by)
            show(state)

    @workflow.signal(name="resume", description="Go on after a pause. Data: none.")
    def resume(self, request: Any = None) -> None:  # noqa: ARG002  (history keeps who said so)
        """Let a paused run go on."""
        self._state.paused = None
        show(self._state)

    # ---- ask

    @workflow.query(name="spend", description="Tokens and dollars so far, lost attempts included.")
    def spend(self) -> m.Spend:
        """Answer what the run has cost up to its last finished step."""
        return self._state.spend

    @workflow.query(name="status", description="What this run is doing, and its limits.")
    def status(self) -> m.RunStatus:
        """Answer where the run stands."""
        return standing.status(self._state, now_ms())

    # ---- say

    @workflow.update(name="send", description=f"Tell Claude something next. Data: {_SEND}")
    def send(self, given: Any = None) -> m.Sent:
        """Take a message, once; returns how many Claude has not seen."""
        return take(self._state, _data(m.Message, given, _SEND), _update_id())

    @send.validator
    def _may_send(self, given: Any = None) -> None:
        said = _data(m.Message, given, _SEND)
        if refusal := not_sendable(self._state, said, _update_id()):
            raise refused(refusal)

    @workflow.update(
        name="approve",
        description=f"Let a call run that waits for an approval. Data: {_APPROVE}",
        unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON,
    )
    async def approve(self, given: Any = None) -> m.Waiting:
        """Let the call run, as Claude asked for it or as a person edits it; returns what runs."""
        said = _data(m.Approval, given, _APPROVE)
        if known := self._known(m.Waiting):
            return known
        if said.edit:
            await self._edit(said)
        elif said.remember:
            remember(self._state, self._call(said.call))
        approved = self._state.waiting.decide(said.call, said)
        now = {"summary": self._call(said.call).summary}
        return self._answered(approved.model_copy(update=now))

    @approve.validator
    def _may_approve(self, given: Any = None) -> None:
        said = _data(m.Approval, given, _APPROVE)
        self._refuse(said, "approval", works=bool(said.edit))
        if (size := len(said.edit.encode(errors="replace"))) > MAX_SAID_BYTES:
            raise refused(f"the input has {size:,} bytes, expected {MAX_SAID_BYTES:,} at most")

    @workflow.update(
        name="deny", description=f"Refuse a call that waits for an approval. Data: {_DENY}"
    )
    def deny(self, given: Any = None) -> m.Waiting:
        """Let Claude know that the call may not run; returns what was denied."""
        said = _data(m.Denial, given, _DENY)
        known = self._known(m.Waiting)
        return known or self._answered(self._state.waiting.decide(said.call, said))

    @deny.validator
    def _may_deny(self, given: Any = None) -> None:
        self._refuse(_data(m.Denial, given, _DENY), "approval")

    @workflow.update(
        name="resolve",
        description=f"Say how a call in doubt ended. Data: {_RESOLVE}",
        # An ending run waits for it, but not for ever: see `_handlers_ended`.
        unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON,
    )
    async def resolve(self, given: Any = None) -> m.Resolution:
        """Settle a doubt; returns what the ledger holds now: a truth that came late stands."""
        said = _data(m.Resolve, given, _RESOLVE)
        if known := self._known(m.Resolution):
            return known
        self._refuse(said, "doubt", works=True)  # again: another may have been accepted just before
        state = self._state
        resolved = scheduling.resolve(state, state.doubts[said.call], said)
        resolution = await self._settling(said.call, resolved)
        if said.call in state.waiting.shown:  # else the run was cancelled meanwhile
            state.waiting.decide(said.call, resolution)
        # Its result may be long, and is in history: who asks again needs the verdict.
        self._answered(resolution.model_copy(update={"result": None}))
        return resolution

    @resolve.validator
    def _may_resolve(self, given: Any = None) -> None:
        self._refuse(_data(m.Resolve, given, _RESOLVE), "doubt", works=True)

    @workflow.update(name="limit", description=f"Raise or lower the run's limits. Data: {_LIMIT}")
    async def limit(self, given: Any = None) -> m.Limits:
        """Change limits from the next request on; returns those that hold now."""
        state, change = self._state, _data(m.LimitChange, given, _LIMIT)
        await workflow.wait_condition(lambda: bool(state.opening or state.outcome))
        if refusal := not_changeable(state, change):
            raise refused(refusal)
        state.raised = change.of(state.limits)
        state.waiting.drop(LIMIT)
        show(state)
        return state.limits

    @limit.validator
    def _may_limit(self, given: Any = None) -> None:
        change = _data(m.LimitChange, given, _LIMIT)
        if refusal := not_changeable(self._state, change):
            raise refused(refusal)

    # ---- the pieces

    async def _edit(self, said: m.Approval) -> None:
        """Have a person's input judged, and put it in the place of Claude's."""
        self._refuse(said, "approval", works=True)
        state, call = self._state, self._call(said.call)
        asked_about = state.waiting.shown[said.call]
        judged = scheduling.edit(state, call, said.edit, asked(state).witness, said.by)
        edited = await self._settling(said.call, judged)
        # Judged while the time for it ran out, or the run was cancelled; it may be in doubt by now.
        if state.waiting.shown.get(said.call) != asked_about:
            raise refused(f"call {said.call} does not wait any more; your input was not taken")
        if edited.call is None:
            raise refused(edited.refusal)
        state.edit(edited.call, said.edit)

    async def _settling(self, call: str, work: Coroutine[Any, Any, T]) -> T:
        waiting = self._state.waiting
        waiting.begin_settling(call)
        try:
            return await work
        except ActivityError as error:
            raise refused(reason_of(error)) from error
        finally:
            waiting.end_settling(call)

    def _call(self, name: str) -> m.PreparedCall:
        return next(call for call in asked(self._state).calls if call.call == name)

    def _refuse(self, said: m.Said, kind: m.WaitKind, *, works: bool = False) -> None:
        """Raise where it cannot be taken; `works`: an activity is needed for it."""
        if _update_id() in self._state.heard.answers:
            return
        if works and self._state.carrying:
            # Once it is settled in the ledger alone, no segment would hold it.
            raise refused(_CARRYING)
        if refusal := self._state.waiting.refusal(said, kind):
            raise refused(refusal)

    def _known(self, kind: type[W]) -> W | None:
        return self._state.heard.answer(_update_id(), kind)

    def _answered(self, answer: W) -> W:
        return self._state.heard.answered(_update_id(), answer)

    def _waiting_changed(self) -> None:
        people_waited(self._state, now_ms())
        show_waiting(self._state)
        notify(self._state)


def _update_id() -> str:
    info = workflow.current_update_info()
    return info.id if info else ""


def _data(kind: type[W], given: Any, example: str) -> W:
    """Read an update's payload, which a person may have typed. Raises what refuses it."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the data"
        # Temporal would print the cause below it: Pydantic's words, at length.
        raise refused(f"{where}: {problem['msg']}; expected data like {example}") from None


def _read(kind: type[W], given: Any) -> W:
    """Read a signal's payload; any at all will do.

    Temporal drops a signal of another type than declared, and tells nobody. A person who types a
    reason into its UI means what they say.
    """
    request = {"reason": given} if isinstance(given, str) else given
    try:
        return kind.model_validate(request)
    except ValueError:
        return kind()
