"""One Claude request for one step: look up, freeze the turn, ask, record, read, return."""

import asyncio
import time
from typing import Any

from temporalio import activity

from onward import claude, json_text, transcript
from onward.claude_request import Request
from onward.context_window import context_use
from onward.errors import LedgerGap
from onward.ledger import Claim, Verdict
from onward.live.stream import LiveAttempt, LiveStream
from onward.messages import ClaudeInput, ClaudeReply, Opening, PreparedCall
from onward.names import CALL_CLAUDE
from onward.transcript import Turn

from .before import Before, before
from .budget import Budget
from .failures import again, stop, translated
from .lease import Lease
from .live import LiveReply
from .making_room import refuse_no_summary, request_of
from .position import Position
from .prepare import prepare_calls, prepared_apart
from .pulse import Pulse
from .rates import Share, give_back, step_name, uncached_tokens
from .reads import with_results
from .requests import StepRequests
from .services import Services, reset_lineage


class ClaudeActivity:
    """The activity `call_claude`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=CALL_CLAUDE)
    async def call_claude(self, given: ClaudeInput) -> ClaudeReply:
        """Return the step's one reply: the recorded one, or Claude's answer to a new request.

        With it come the results of its calls where all of them only read.
        """
        async with Pulse(given.takeover_s) as pulse:
            with translated():
                attempt = _StepAttempt(self._services, given, pulse)
                reply = await attempt.reply()
            if not attempt.recorded:
                return reply  # into history at once: a death during a read would lose it
            return await with_results(self._services, given, reply, pulse)


class _StepAttempt:
    """One attempt at one step."""

    def __init__(self, services: Services, given: ClaudeInput, pulse: Pulse) -> None:
        self._services, self._given, self._began = services, given, time.monotonic()
        self._ledger, self._lease = services.ledger(given.run), Lease(given.takeover_s)
        # The fingerprint is the conversation before the turn: an attempt adopts the turn that an
        # earlier one froze, but never the reply of another branch, to another conversation.
        self._position = Position(
            self._ledger,
            step=given.step,
            fp=given.head.digest,
            effect="read",
            witness=given.witness,
            lineage=reset_lineage(given.run),
            takeover_s=given.takeover_s,
        )
        self._name = step_name(given.run, given.step)
        self.recorded = True
        """The ledger holds the reply that was returned."""
        token = self._position.token
        first = given.head.step == transcript.BEGINNING
        self._requests = StepRequests(self._ledger, given.step, token, pulse, first=first)

    async def reply(self) -> ClaudeReply:
        """Return the recorded reply, or ask for one."""
        try:
            return await self._reply()
        except asyncio.CancelledError as error:
            stopped = self._cancelled()
            if stopped is None:
                raise
            raise stopped from error
        except LedgerGap:
            # The next activity of this step knows no heartbeat of this one's attempts.
            await self._requests.keep()
            raise

    async def _reply(self) -> ClaudeReply:
        agent = self._given.agent
        if agent not in self._services.app.agents:
            # Before anything is paid: an older or newer release began this run.
            text = f"this worker's app has no agent {agent!r}; start a worker whose app has it"
            raise again("no_agent", text, delay_s=1.0)
        found = await before(self._services, self._ledger, self._given)
        self._hand_back_without_tools(found.opening)
        claim = await self._position.claim(found.turn.model_dump_json())
        if claim.verdict == "claimed":
            self._requests.load(claim.usages)
            self._given = self._requests.prolonged(self._given)
            return await self._ask(found, Turn.model_validate_json(claim.turn or ""))
        if claim.verdict == "done":
            await give_back(self._services.rate_limits, self._name)
            return _unpaid(self._seen(found, claim))
        text = f"step {self._given.step} is recorded for another conversation ({claim.verdict})"
        raise stop("mismatch", text, self._requests.spend)

    def _hand_back_without_tools(self, opening: Opening) -> None:
        """Leave a step to a worker that has the tools, and can judge each call that may come."""
        # Without a tool, nobody here can tell whether a call of it asks first, or what names it.
        offered = {tool.name for tool in self._services.app.agent(self._given.agent).offered}
        if missing := ", ".join(sorted(opening.effects.keys() - offered)):
            text = f"agent {self._given.agent!r} of this worker's app lacks tools of this run"
            raise again("no_tool", f"{text} ({missing}); start a worker that has them", delay_s=1.0)

    def _seen(self, found: Before, told: Claim | Verdict) -> ClaudeReply:
        reply = ClaudeReply.model_validate_json(told.result)
        turn = Turn.model_validate_json(told.turn) if told.turn else found.turn
        witness = told.witness or self._given.witness
        seen = {"witness": witness, "turn": _adopted(turn, found)}
        return self._kept(found, turn, reply.model_copy(update=seen))

    def _kept(self, found: Before, turn: Turn, reply: ClaudeReply) -> ClaudeReply:
        """Keep the conversation at hand for the step after this one."""
        later = found.earlier.after(self._given.step, turn, reply.message)
        self._services.transcripts.keep(self._ledger.key, later)
        return reply

    async def _ask(self, found: Before, turn: Turn) -> ClaudeReply:
        async with self._lease:
            self._lease.hold(self._position.renew)
            try:
                budget = Budget(self._given, found.opening, turn, self._requests.spend)
                request = budget.affordable(request_of(self._given, found, turn))
                request = self._requests.heeding(request)
                share = Share(self._services.rate_limits, request, self._name)
                message = await self._message(found, turn, request, share)
            except (Exception, asyncio.CancelledError):
                await self._position.release(maybe=False, count=self._requests.sent_now)
                raise
            reply = await self._record(found, turn, request, json_text.dumps(message))
            await share.settle(self._requests.current)
            return reply

    async def _message(
        self, found: Before, turn: Turn, request: Request, share: Share
    ) -> dict[str, Any]:
        limit = found.opening.limits.max_requests_per_step
        if exhausted := self._requests.exhausted(limit):
            raise exhausted
        tokens = uncached_tokens(request, turn, self._given.context, found.opening.cache)
        until_ms = self._given.rest.until_ms if self._given.rest else None
        await share.wait(tokens, until_ms)
        anthropic = self._services.anthropic
        try:
            async with self._live() as live:
                message = await self._requests.send(anthropic, request, live.hear, share.heard)
        except Exception as error:
            posture = claude.posture(error)
            if posture is None:
                raise
            failed = await self._requests.failed(posture, limit, until_ms)
            await share.settle(self._requests.current, posture)
            # Alone: a proxy's whole page, or a key that fits no header, would be shown with it.
            raise failed from None
        if self._given.compact == "now":
            refuse_no_summary(message, self._requests.spend)
        return message

    def _live(self) -> LiveReply:
        run = self._given.run
        stream = LiveStream(self._services.redis, run.workflow_id, run.first_run_id)
        here = activity.info().workflow_run_id or run.run_id
        attempt = LiveAttempt(here, self._given.step, self._position.token)
        return LiveReply(stream, attempt, self._lease)

    async def _record(
        self, found: Before, turn: Turn, request: Request, message: str
    ) -> ClaudeReply:
        """Record the reply and its calls as one; first recorded wins."""
        window = found.opening.context_window
        full = context_use(message, request.model, len(request.body), window)
        reply = await self._prepared(found, turn, message)
        cut = reply.stop_reason == "max_tokens"
        most = {"max_tokens": request.max_tokens, "lowered": request.lowered} if cut else {}
        reply = reply.model_copy(update={"context": full, **most})
        told = await self._position.complete(reply.record(), turn.model_dump_json())
        if told is None:
            self.recorded = False  # the next step finds the gap, and history fills it
            return reply
        if told.verdict != "done":
            text = f"step {self._given.step} was recorded otherwise meanwhile"
            raise stop("mismatch", text, self._requests.spend)
        return self._seen(found, told)

    async def _prepared(self, found: Before, turn: Turn, message: str) -> ClaudeReply:
        given = self._given
        stopped = str(json_text.load_object(message).get("stop_reason"))
        return ClaudeReply(
            message=message,
            stop_reason=stopped,
            calls=await self._calls(found, message) if stopped == "tool_use" else (),
            head=transcript.advance(given.head, given.step, turn, message),
            prev=given.head.step,
            turn=_adopted(turn, found),
            turn_ids=turn.ids,
            spend=self._requests.spend,
            took_s=round(time.monotonic() - self._began, 3),
            people_s=self._requests.people_s,
            witness=given.witness,
        )

    async def _calls(self, found: Before, message: str) -> tuple[PreparedCall, ...]:
        run, step, opening = self._given.run, self._given.step, found.opening
        agent = self._services.app.agent(self._given.agent)
        return await prepared_apart(lambda: prepare_calls(run, step, message, opening, agent))

    def _cancelled(self) -> Exception | None:
        """Say how a cancelled attempt ends; None: by its cancellation, and another one follows."""
        if self._lease.lost:
            return again("busy", f"step {self._given.step} was taken over by another attempt")
        details = activity.cancellation_details()
        if details is not None and details.cancel_requested:
            return stop("cancelled", "the request to Claude was cancelled", self._requests.spend)
        return None


def _adopted(turn: Turn, found: Before) -> str:
    return "" if turn == found.turn else turn.model_dump_json()


def _unpaid(reply: ClaudeReply) -> ClaudeReply:
    """Mark a reply that need not be paid again, and what that saves."""
    spend = reply.spend.model_copy(update={"saved": reply.spend.answered})
    return reply.model_copy(update={"found": True, "spend": spend})
