"""One tool call through the ledger: claim, fire with its idempotency key, record, return.

What a tool's exception means, and what a worker's death at each point leads to, is in
docs/guarantees.md. After the effect nothing here fails because of Redis.
"""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.common import RawValue

from onward import json_text
from onward.errors import LedgerGap, PayloadError
from onward.failpoints import failpoint, pass_return
from onward.ledger import Claim, Verdict
from onward.messages import CallResult, ClaudeReply, ToolInput
from onward.names import WORKFLOW
from onward.tools import Tool, ToolContext, error_content, meaning
from onward.tools.read_result import read_result
from onward.tools.results import error_words
from onward.tools.workspace import WorkspaceElsewhere, check

from .business import BusinessRecord
from .failures import again, not_registered, stop, translated
from .lease import Lease
from .pausing import wait_while_paused
from .position import Position
from .prepare import call_input
from .pulse import Pulse
from .reading import by_reference, read_on, recorded_result
from .records import reply_of
from .returned import result_of
from .services import Services, reset_lineage
from .verifying import NotVerified, Verifier

_MOST_REQUESTS = 10
_LONGEST_MS = 10 * 60 * 1000
"""A call that stays unknown for so many requests, or so long, is in doubt (docs/guarantees.md)."""
_FEWEST_REQUESTS = 3
"""Whatever the time: a laptop that slept over the first one must not leave a needless doubt."""
_KEY_LASTS_MS = 23 * 3600 * 1000
"""How long a downstream remembers a key for certain; many prune them after 24 hours."""
_GRACE_S = 5.0
"""How long a cancelled call may take to come to a definite end."""
_ELSEWHERE_S = 1.0
_ANOTHERS = "another request is recorded at this position"


class ToolActivity:
    """The activity that runs every tool, under the tool's own name."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(dynamic=True)
    async def run_tool(self, args: Sequence[RawValue]) -> CallResult:
        """Run one call, or return what the ledger knows of it."""
        name = activity.info().activity_type
        if activity.info().workflow_type != WORKFLOW:  # one of a team's own, in its own worker
            raise not_registered(name)
        given: ToolInput = activity.payload_converter().from_payload(args[0].payload, ToolInput)
        async with Pulse(given.takeover_s) as pulse, Lease(given.takeover_s) as lease:
            pulse.details = _last_said()  # each beat takes the place of the one before
            with translated():
                attempt = CallAttempt(self._services, name, given, lease, pulse=pulse)
                result = await attempt.result()
        pass_return()
        return result


class CallAttempt:
    """One attempt at one call of the tool `name`.

    A read inside a step has no pulse of its own, and the reply that asks for it at hand.
    """

    def __init__(
        self,
        services: Services,
        name: str,
        given: ToolInput,
        lease: Lease,
        *,
        pulse: Pulse | None = None,
        reply: ClaudeReply | None = None,
    ) -> None:
        self._services = services
        self._given, self._lease, self._pulse, self._reply = given, lease, pulse, reply
        self._began = time.monotonic()
        self._ledger = services.ledger(given.run)
        self._converter = services.temporal.data_converter
        self._tool, self._effect = _tool(services, given, name), given.effect
        self._fence, self._sent_before, self._others_sent = 0, False, False
        self._business = given.business and BusinessRecord(services, given, given.business)
        self._verifier = Verifier(self._tool, services.strict, given.takeover_s, lease)
        self._position = Position(
            self._ledger,
            step=given.call,
            fp=given.fingerprint,
            effect=self._effect,
            witness=given.witness,
            lineage=reset_lineage(given.run),
            takeover_s=given.takeover_s,
        )

    async def result(self) -> CallResult:
        """Return the call's one result."""
        workspace = self._workspace()
        fields = await self._fields()
        if self._tool.effect != self._effect:
            return await self._of_another_class()
        if self._effect != "read":
            await wait_while_paused(self._services, self._given.agent)
        failpoint("f1")
        claim = await self._position.claim()
        failpoint("f2")
        match claim.verdict:
            case "claimed":
                failpoint("f3")
                self._fence, self._sent_before = claim.fence, claim.may_have_sent
                self._lease.hold(self._position.renew, lease_binds=self._effect == "timed")
                return await (self._given_up(claim) or self._act(claim, fields, workspace))
            case "done" | "failed":
                return await recorded_result(self._converter, claim.result)
            case "doubt":
                return await self._known_late() or _in_doubt(claim.why, claim.at_ms)
            case _:
                raise stop("mismatch", _ANOTHERS)

    async def _known_late(self) -> CallResult | None:
        """Return what a lost attempt told its business key, and no more: the truth comes late."""
        known = await self._business.mine() if self._business else None
        return await self._complete(known) if known else None

    async def _fields(self) -> dict[str, Any]:
        """Read the call's input: a person's, or that of the reply. Raises `LedgerGap`."""
        given = self._given
        reply = self._reply or reply_of(await self._ledger.records(given.step), given.step)
        found = {index: call.fingerprint for index, call in enumerate(reply.calls)}
        if found.get(given.index) != (given.asked or given.fingerprint):
            # Another branch's reply, after a wipe: its input under this call's key would be fired.
            raise LedgerGap(f"the reply of step {given.step} in the ledger is not history's")
        text = given.edit or call_input(reply.message, given.index)
        fields: dict[str, Any] = json_text.values(text)
        return fields

    def _given_up(self, claim: Claim) -> Coroutine[Any, Any, CallResult] | None:
        """Say how a call ends that had its requests and its time; None if it still has some."""
        # A read may be repeated however long ago it began.
        late = self._effect != "read" and claim.now_ms - claim.first_ms > _LONGEST_MS
        if self._effect == "keyed" and claim.may_have_sent and _age_ms(claim) > _KEY_LASTS_MS:
            return self._doubt("sent long ago: the other side may have forgotten the key")
        if claim.requests <= (_FEWEST_REQUESTS if late else _MOST_REQUESTS):
            return None
        if claim.may_have_sent and self._effect != "read":
            return self._doubt(f"no answer to {claim.requests - 1} requests{self._last_error}")
        tries = f"{claim.requests - 1} tries{self._last_error}"
        text = f"The call could not be sent ({tries}). Nothing was done."
        return self._fail(json_text.dumps(text))

    async def _of_another_class(self) -> CallResult:
        """A deploy changed the tool's class: what is recorded counts, and nothing is fired."""
        seen = (await self._ledger.records(self._given.call)).records.get(self._given.call)
        if seen and seen.st in {"done", "failed"} and seen.fp == self._given.fingerprint:
            return await recorded_result(self._converter, seen.result)
        raise again(
            "class_changed",
            f"tool {self._tool.name!r} was {self._effect!r} when this run began, and is "
            f"{self._tool.effect!r} in this worker's app. Nothing was fired. Start a worker that "
            "has it as it was, or cancel the run",
            delay_s=_ELSEWHERE_S,
        )

    async def _act(
        self, claim: Claim, fields: dict[str, Any], workspace: Path | None
    ) -> CallResult:
        """Fire, unless an earlier call asked for the same."""
        fence = claim.fence
        if self._business:
            first = await self._first_asked(self._business)
            if first.verdict == "done":
                known = await self._business.mine() or await self._business.repeated(first.result)
                return await self._complete(known)
            if first.verdict == "doubt":
                return await self._doubt(f"an earlier call asked for the same: {first.why}")
            self._lease.hold(self._business.renew)
            fence = max(fence, first.fence)
            self._others_sent = first.may_have_sent
            claim = replace(claim, may_have_sent=claim.may_have_sent or first.may_have_sent)
        context = ToolContext(
            idempotency_key=self._given.key,
            call=self._given.call,
            run=self._given.run.workflow_id,
            fence=fence,
            workspace=workspace,
        )
        return await self._fire(claim, fields, context)

    async def _first_asked(self, business: BusinessRecord) -> Claim:
        try:
            return await business.claim()
        except BaseException:
            # Another run's call is at work on it, or Redis is away: nothing was sent.
            await self._position.release(maybe=False, count=False)
            raise

    async def _fire(self, claim: Claim, fields: dict[str, Any], context: ToolContext) -> CallResult:
        try:
            known = await self._verifier.happened(claim, fields, context)
            failpoint("f4")
            self._verifier.refuse_late()
            value = known.result if known else await self._run(fields, context)
        except asyncio.CancelledError:
            return await _to_the_end(self._interrupted())
        except (LedgerGap, PayloadError):  # of `read_result` alone: it is asked again
            await self._position.release(maybe=False, count=False)
            raise
        except Exception as error:  # noqa: BLE001  (a tool may raise anything at all)
            return await _to_the_end(self._raised(error))
        return await _to_the_end(self._returned(value))

    async def _returned(self, value: object) -> CallResult:
        made = await result_of(value, self._given.call, self._tool.name)
        result = made.model_copy(update={"took_s": self._took_s})
        return await self._complete(result)

    async def _run(self, fields: dict[str, Any], context: ToolContext) -> object:
        """Run the tool; a cancel gives an effect some grace to come to a definite end."""
        running = asyncio.ensure_future(self._running(fields, context))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if self._effect != "read" and not self._lease.lost:
                # A lease that is lost meanwhile cancels too: the tool must be stopped all the same.
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([running], timeout=_GRACE_S)
            if running.done() and not running.cancelled():
                return running.result()
            running.cancel()
            raise

    def _running(self, fields: dict[str, Any], context: ToolContext) -> Coroutine[Any, Any, object]:
        if self._tool is read_result:
            return read_on(self._ledger, self._converter, fields)
        return self._tool.run(fields, context)

    async def _raised(self, error: Exception) -> CallResult:
        if self._effect == "read":
            return await self._fail(error_content(error))
        if self._pulse:
            self._pulse.details = error_words(error)
            self._pulse.beat()
        if isinstance(error, NotVerified):
            await self._position.release(maybe=False)
            raise again(
                "not_verified", f"whether {self._given.call} happened is not known: {error}"
            )
        match meaning(error):
            case "rejected":
                return await self._fail(error_content(error))
            case "not_sent":
                await self._position.release(maybe=False)
                raise again("not_sent", f"{self._given.call} could not be sent: {error!r}")
            case "unknown" if self._effect == "at_most_once":
                return await self._doubt(error_words(error))
            case "unknown":
                await self._position.release(maybe=True)
                raise again("unknown", f"{self._given.call} has no known outcome: {error!r}")

    async def _interrupted(self) -> CallResult:
        """Say how an attempt ends that was cancelled in the middle of its tool."""
        if self._lease.lost:
            raise again("busy", f"call {self._given.call} was taken over by another attempt")
        details = activity.cancellation_details()
        asked = details is not None and details.cancel_requested
        if self._effect == "at_most_once" or (asked and self._effect != "read"):
            return await self._doubt("interrupted while it ran")
        await self._position.release(maybe=True)
        if asked:
            raise stop("cancelled", f"{self._given.call} was cancelled")
        raise asyncio.CancelledError  # a draining worker: the next attempt uses the same key

    async def _complete(self, result: CallResult) -> CallResult:
        result = await by_reference(self._converter, result)
        if self._business and not result.first_call:
            await self._business.done(result)
        failpoint("f8")
        told = await self._position.complete(result.record())
        failpoint("f9")
        failpoint("f10")
        return await self._recorded(told, result)

    async def _fail(self, content: str) -> CallResult:
        if self._others_sent and self._effect not in {"read", "sealed"}:
            return await self._doubt("refused, but an earlier request for the same may land")
        result = CallResult(status="failed", content=content, is_error=True, took_s=self._took_s)
        told = await self._position.fail(result.record(), self._fence)
        if told is None and not self._only_request:
            # Only the ledger knows whether another attempt's request may still land.
            result = _in_doubt("refused; Redis cannot say whether an earlier request may land")
        ended = await self._recorded(told, result)
        if self._business:
            free = ended.status == "failed"
            await (self._business.free() if free else self._business.doubt(ended.why))
        return ended

    @property
    def _only_request(self) -> bool:
        """No other request can have an effect: this one's refusal is the whole truth."""
        # at_most_once sends again where a person asked for it, and nowhere else.
        once = self._effect == "at_most_once" and not self._sent_before
        return once or self._effect == "read"

    async def _doubt(self, why: str) -> CallResult:
        if self._business:
            await self._business.doubt(why)
        return await self._recorded(await self._position.doubt(why), _in_doubt(why))

    async def _recorded(self, told: Verdict | None, mine: CallResult) -> CallResult:
        """What history is told, given what the ledger answered: first recorded wins."""
        if told is not None and told.verdict == "mismatch" and mine.status == "failed":
            # Nothing here tells what became of the call's other requests.
            raise stop("mismatch", _ANOTHERS)
        if told is None or told.verdict == "mismatch":
            return mine.model_copy(update={"recorded": False})
        if told.verdict == "doubt":
            return _in_doubt(told.why or mine.why, told.at_ms)
        if told.result == mine.record():
            return mine
        return await recorded_result(self._converter, told.result)

    @property
    def _last_error(self) -> str:
        said = self._pulse.details if self._pulse else ""
        return f"; the last said: {said}" if said else ""

    @property
    def _took_s(self) -> float:
        return round(time.monotonic() - self._began, 3)

    def _workspace(self) -> Path | None:
        try:
            return check(self._given.workspace) if self._given.workspace else None
        except WorkspaceElsewhere as error:
            # Another worker on this task queue may have it; nothing was claimed.
            raise again("workspace", str(error), delay_s=_ELSEWHERE_S) from error


def _age_ms(claim: Claim) -> float:
    """Time since the call may first have been sent, also where Redis has forgotten that."""
    scheduled_ms = activity.info().scheduled_time.timestamp() * 1000
    return claim.now_ms - min(claim.first_ms, scheduled_ms)


async def _to_the_end(telling: Coroutine[Any, Any, CallResult]) -> CallResult:
    """Tell the ledger how the call ended, cancelled meanwhile or not: the tool has run."""
    task = asyncio.ensure_future(telling)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


def _last_said() -> str:
    """Return the words of the last error of an earlier attempt; empty where none was told."""
    details = activity.info().heartbeat_details
    return str(details[0] or "") if details else ""


def _tool(services: Services, given: ToolInput, name: str) -> Tool[..., Any]:
    agent = services.app.agents.get(given.agent)
    tool = agent.tool(name) if agent else None
    if tool is None:
        # Frozen when the run began, so another worker had it: an older or newer release.
        text = f"this worker has no agent {given.agent!r} with a tool {name!r}"
        raise again("no_tool", f"{text}; start a worker whose app has it", delay_s=_ELSEWHERE_S)
    return tool


def _in_doubt(why: str, at_ms: int = 0) -> CallResult:
    """Make the result of a call in doubt; one that the ledger was not told of begins now."""
    at = at_ms or int(time.time() * 1000)
    return CallResult(
        status="in_doubt", content='""', is_error=True, why=why or "unknown", at_ms=at
    )
