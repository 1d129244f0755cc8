"""One run, to look at, to say something to, and to follow."""

import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import ValidationError

from onward import reports, run_input, runs, watching
from onward.client.editing import edited_input
from onward.client.events import Event, events
from onward.client.hearing import answering, hearing, still_open
from onward.client.saying import claimed_name, say, signal
from onward.connection import Connection
from onward.errors import UsageError
from onward.invoked import typed
from onward.messages import (
    Approval,
    CancelRequest,
    Denial,
    LimitChange,
    LimitOverrides,
    Limits,
    Message,
    PauseRequest,
    Resolution,
    Resolve,
    RunResult,
    RunStatus,
    Sent,
    Settlement,
    Waiting,
    Wire,
)
from onward.reports import Report, Spent
from onward.runs import Run

Kind = TypeVar("Kind", bound=Wire)
Opinion = TypeVar("Opinion", Approval, Denial, Resolve)
Answer = TypeVar("Answer", Waiting, Resolution)

_LOOK_EVERY_S = 1.0


@dataclass(frozen=True)
class Decision:
    """What a person said of a call, as the run took it."""

    run: Run
    waited: Waiting
    """What waited for them; of an edited call, its `summary` is of what runs now."""
    said: Approval | Denial | Resolve
    verdict: str = ""
    """Of a doubt: `done`, `failed`, or `open` where it is tried again. A truth that came meanwhile
    stands, whatever was said."""


class RunHandle:
    """The newest run of an id: look at it, say something to it, follow it.

    No method waits for a worker that is not there, but `result` and `events`, which wait for the
    run's end. All raise `NoSuchRun` where Temporal knows no run of the id, and `ConnectError` where
    it does not answer. `by` says who speaks, and is recorded; by default user and host.
    """

    def __init__(self, connection: Connection, run_id: str) -> None:
        """Take the connection and the id, which need not be that of a run yet.

        Raises UsageError for what can be no id.
        """
        self.id = run_input.checked_id(run_id)
        self._connection, self._client = connection, connection.client

    # ---- look at it

    async def describe(self) -> Run:
        """Describe the run as Temporal's server does."""
        return await runs.describe(self._client, self.id)

    async def report(self) -> Report:
        """Tell everything that is known right now, and whether a worker was there to say it."""
        return await reports.report(self._client, await self.describe())

    async def status(self) -> RunStatus:
        """Say how the run goes; what its history tells where no worker answers."""
        return (await self.report()).status

    async def spend(self) -> Spent:
        """Say what the run cost so far; a lower bound where no worker answers."""
        return await reports.spend(self._client, await self.describe())

    async def result(self) -> RunResult:
        """Wait for the run's end, and return how it ended, whatever the outcome.

        A Temporal that is away meanwhile costs only time.
        """
        run, every_s = await self.describe(), _LOOK_EVERY_S
        async for look in watching.watch(self._client, run, every_s=every_s):
            if look.report and look.report.ended:
                return look.report.ended.result
        raise AssertionError("watching ends with the run's end")

    def events(self, *, all_steps: bool = False, after: str = "") -> AsyncGenerator[Event, None]:
        """Yield what happens in the run, until it has ended.

        It begins with the current step. A Redis that is away costs only the view of replies that
        are not whole, a Temporal that is away only time.

        Args:
            all_steps: begin with the first step.
            after: the id of an event that was seen before: go on from there. A reply that is being
                written is told from its beginning, after a `Restarted`.

        Raises:
            UsageError: `after` is the id of no event of this run that Temporal still knows.

        """
        return events(self._connection, self.id, all_steps=all_steps, after=after)

    # ---- stop and go

    async def cancel(self, reason: str = "", *, after_step: bool = False, by: str = "") -> bool:
        """Ask the run to end cleanly, now or after its step; False if it has ended already."""
        request = CancelRequest(reason=reason, after_step=after_step, by=by or claimed_name())
        return await signal(self._client, await self.describe(), "cancel", request)

    async def pause(self, reason: str = "", *, by: str = "") -> None:
        """Let the run finish its step, and then wait. Raises UsageError if it has ended."""
        await self._signal("pause", reason, by)

    async def resume(self, reason: str = "", *, by: str = "") -> None:
        """Let a paused run go on. Raises UsageError if it has ended."""
        await self._signal("resume", reason, by)

    async def _signal(self, name: str, reason: str, by: str) -> None:
        run = await self.describe()
        request = PauseRequest(reason=reason, by=by or claimed_name())
        if not await signal(self._client, run, name, request):
            await still_open(self._client, run)  # raises, and says how it ended

    # ---- say something

    async def send(self, text: str, *, id: str = "", by: str = "") -> Sent:  # noqa: A002
        """Tell Claude something at its next step. Taken once, however often it has to be sent.

        `id` names the message: what is sent again under the same one, after a crash of yours for
        instance, counts once.

        Raises UsageError where the text is empty or too long, or the run has ended.
        """
        message = _said(
            Message,
            text=run_input.checked_text(text, run_input.MESSAGE),
            id=id or uuid.uuid4().hex,
            by=by or claimed_name(),
        )
        return await say(self._client, await hearing(self._client, self.id), "send", message, Sent)

    async def approve(
        self,
        call: str,
        *,
        edit: str | Mapping[str, Any] | None = None,
        remember: bool = False,
        view: str = "",
        by: str = "",
    ) -> Decision:
        """Let a call run that waits for an approval.

        Args:
            call: like `12.1`, as in `status().waiting`.
            edit: the input with which it shall run instead of Claude's, an object or its JSON text;
                Claude is told of it.
            remember: in this run, calls of the tool that ask for the same reason need no approval
                any more. Not with an `edit`: you approved that one input.
            view: `Waiting.view` that was decided on; refused if it is another one by now.
            by: who decides.

        Raises:
            UsageError: the call does not wait, the edit is refused, or the run has ended.

        """
        if remember and edit is not None:
            raise UsageError(
                "an edit is not remembered: it approves that one input. Give the edit, or say that "
                "calls like Claude's be remembered, not both. Nothing was changed"
            )
        edited = "" if edit is None else edited_input(edit)
        said = _said(Approval, call=call, view=view, by=by, edit=edited, remember=remember)
        return (await self._decide("approve", said, Waiting))[0]

    async def deny(self, call: str, why: str = "", *, view: str = "", by: str = "") -> Decision:
        """Refuse a call that waits for an approval; Claude is told why, and goes on without it."""
        said = _said(Denial, call=call, view=view, by=by, why=why)
        return (await self._decide("deny", said, Waiting))[0]

    async def resolve(
        self, call: str, outcome: Settlement, note: str = "", *, view: str = "", by: str = ""
    ) -> Decision:
        """Settle a call in doubt: it is `done`, it `failed`, or it did not happen: `retry`."""
        now_ms = int(time.time() * 1000)
        said = _said(
            Resolve, call=call, view=view, by=by, outcome=outcome, note=note, said_ms=now_ms
        )
        decision, resolution = await self._decide("resolve", said, Resolution)
        return replace(decision, verdict=resolution.verdict)

    async def limit(self, change: LimitOverrides, *, by: str = "") -> Limits:
        """Raise or lower the run's limits while it goes on; returns those that hold now."""
        given = change.model_dump(include={*LimitOverrides.model_fields})
        said = LimitChange(**given, by=by or claimed_name())
        return await say(self._client, await hearing(self._client, self.id), "limit", said, Limits)

    # ---- the pieces

    async def _decide(
        self, update: str, said: Opinion, answer: type[Answer]
    ) -> tuple[Decision, Answer]:
        seen = await answering(self._client, self.id)
        waited = _waiting(seen, said.call)
        seen_by = {"view": said.view or waited.view, "by": said.by or claimed_name()}
        said = said.model_copy(update=seen_by)
        answered = await say(self._client, seen.run, update, said, answer)
        if isinstance(answered, Waiting):
            waited = waited.model_copy(update={"summary": answered.summary})
        return Decision(seen.run, waited, said), answered


def _waiting(seen: Report, call: str) -> Waiting:
    """Find the call among those that wait. Raises UsageError that says which do."""
    waiting = {each.call: each for each in seen.status.waiting}
    if call not in waiting:
        known = ", ".join(f"{each.call} ({each.kind})" for each in waiting.values())
        raise UsageError(
            f"call {call!r} of the run {seen.run.id!r} does not wait for a person; waiting: "
            f"{known or 'none'}. `{typed('audit', seen.run.id)}` shows who decided"
        )
    return waiting[call]


def _said(kind: type[Kind], **fields: Any) -> Kind:
    try:
        return kind(**fields)
    except ValidationError as error:
        found = error.errors()[0]
        name = ".".join(map(str, found["loc"]))
        raise UsageError(f"{name} is {found['input']!r}: {found['msg'].lower()}") from error
