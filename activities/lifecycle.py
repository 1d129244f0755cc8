"""The beginning of a run and its end."""

from redis.exceptions import RedisError
from temporalio import activity

from onward import transcript
from onward.errors import AppError
from onward.ledger import Ledger
from onward.lifetime import records_ttl_ms
from onward.messages import (
    Attempt,
    BeginInput,
    EndInput,
    Opening,
    RunRequest,
    RunResult,
    Witness,
)
from onward.names import BEGIN, CANCEL_OWNER, END
from onward.pricing import spend_of

from .beginning import decided_here, recorded, witness_of
from .failures import translated
from .pulse import Pulse
from .rates import give_back, step_name
from .services import Services
from .settle import is_definite

_TAKEOVER_S = 10.0
"""Heartbeat timeout of these two activities, which know no setting of the run yet, or any more."""


class LifecycleActivities:
    """The activities `begin` and `end`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=BEGIN)
    async def begin(self, given: BeginInput) -> Opening:
        """Freeze system prompt, tools and limits, and take the witness; first recorded wins."""
        async with Pulse(_TAKEOVER_S):
            with translated():
                return await self._begin(given)

    async def _begin(self, given: BeginInput) -> Opening:
        ledger = self._services.ledger(given.run)
        witness = await witness_of(self._services, ledger, given.run, given.witness)
        return await recorded(
            self._services,
            ledger,
            given.run,
            witness,
            lambda: self._opening(given.request, witness),
        )

    async def _opening(self, request: RunRequest, witness: Witness) -> Opening:
        agent = self._services.app.agent(request.agent)
        if agent.needs_workspace and request.workspace is None:
            raise AppError(
                f"agent {agent.name!r} works in a folder, and this run has none; "
                "start it with --workspace DIR"
            )
        model, limits = request.model or agent.model, request.limits.of(agent.limits)
        known = await self._services.models.capacity(model)
        frozen = agent.definition(model, known)
        return Opening(
            frozen=frozen,
            effects=agent.effects,
            witness=witness,
            head=transcript.beginning(frozen),
            betas=tuple(agent.betas),
            **await decided_here(self._services, agent, model, limits, known),
        )

    @activity.defn(name=END)
    async def end(self, given: EndInput) -> RunResult:
        """Let the run's records expire once Temporal has forgotten the run; hand on its result."""
        async with Pulse(_TAKEOVER_S):
            ttl_ms = await records_ttl_ms(self._services.temporal)
            result = given.result
            try:
                ledger = self._services.ledger(given.run)
                self._services.transcripts.drop(ledger.key)
                result = await _with_lost_spend(ledger, given)
                result = await _settled(ledger, given, result)
                if given.asking:  # it may have been cancelled while it waited for its turn
                    name = step_name(given.run, given.asking)
                    await give_back(self._services.rate_limits, name)
                await ledger.end(ttl_ms)
            except RedisError as error:
                # Only lifetime and lost tokens: neither may keep a run from ending.
                activity.logger.warning("cannot close the run's records: %s", error)
        return result


async def _with_lost_spend(ledger: Ledger, given: EndInput) -> RunResult:
    """Add what a step cost whose activity was cancelled, or timed out, between its attempts."""
    if not given.asking:
        return given.result
    noted = (await ledger.usages(given.asking)).values()
    lost = spend_of(Attempt.model_validate(usage) for usage in noted)
    return given.result.model_copy(update={"spend": given.result.spend + lost})


async def _settled(ledger: Ledger, given: EndInput, result: RunResult) -> RunResult:
    """Give the calls that a cancel cut off their end in the ledger: few are in doubt in truth."""
    token, patience_s = CANCEL_OWNER + given.run.run_id, 2 * _TAKEOVER_S
    known = {
        doubt.call.call
        for doubt in given.doubts
        if await is_definite(ledger, doubt, token, patience_s)
    }
    in_doubt = tuple(call for call in result.in_doubt if call not in known)
    return result.model_copy(update={"in_doubt": in_doubt})
