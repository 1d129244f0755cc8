"""Copy another run's conversation, so that a new run goes on from there.

Everything is read with the worker's own clients: no byte of the conversation passes through the
activity's input or result. The copy is a segment, as a run that continues as new carries one.
"""

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from temporalio import activity

from onward import json_text, segments
from onward.errors import HistoryGap, NoSuchRun
from onward.forking.aftermath import aftermath, told_to_claude
from onward.forking.business import business_keys
from onward.forking.copying import answers, copied_records, doubts
from onward.forking.cut import Cut, cut
from onward.forking.fates import LedgerView
from onward.forking.never_started import with_proof
from onward.forking.unseen import unseen
from onward.ledger import Ledger
from onward.lifetime import records_ttl_ms
from onward.messages import (
    Addition,
    Carried,
    Fork,
    ForkInput,
    Limits,
    Opening,
    PersonSaid,
    Prompt,
    RunRef,
    RunRequest,
    Witness,
)
from onward.names import FORK, FORK_NOTICE, FORK_OWNER
from onward.own_history import read_history
from onward.records import Restored
from onward.retelling.steps import retold
from onward.run_records import Added, RunRecords
from onward.runs import look, rpc_errors
from onward.transcript import BEGINNING, last_text, results_only

from .beginning import decided_here, recorded, witness_of
from .failures import stop, translated
from .pulse import Pulse
from .services import Services
from .settle import settle

_TAKEOVER_S = 10.0
"""Heartbeat timeout of this activity, which knows no setting of the run yet."""


class ForkActivity:
    """The activity `fork`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=FORK)
    async def fork(self, given: ForkInput) -> Carried:
        """Copy the other run's conversation into this one; done twice, it gives the same."""
        async with Pulse(_TAKEOVER_S):
            with translated(), _for_good():
                if given.request.fork is None:
                    raise NoSuchRun("found no run to copy; expected `fork` in the run's request")
                return await _Copy(self._services, given, given.request.fork).carried()


@contextmanager
def _for_good() -> Generator[None]:
    """End the new run where the other one cannot be told: it has done nothing yet."""
    try:
        yield
    except (NoSuchRun, HistoryGap) as error:
        raise stop("app", f"the run to copy cannot be told, so nothing begins: {error}") from error


@dataclass(frozen=True)
class _Copy:
    """One attempt at the copy."""

    services: Services
    given: ForkInput
    parent: Fork

    async def carried(self) -> Carried:
        """Make the copy, and return the state of the run that goes on from it."""
        self.services.app.agent(self.given.request.agent)  # before anything is settled or written
        cut_off = await self._cut()
        seen = await self._settled(cut_off)
        found, in_doubt = answers(cut_off, seen), doubts(cut_off, seen)
        keys = business_keys(cut_off, seen, self.parent.workflow_id)
        copied = copied_records(cut_off, found, in_doubt, keys)
        opening, reference = await self._write(cut_off, copied)
        reply, sent = cut_off.last.reply, await self._unseen(cut_off)
        return Carried(
            segments=(reference,),
            opening=opening.model_copy(update={"frozen": ""}),
            witness=opening.witness,
            head=cut_off.copied[-1].reply.head,
            additions=(*found.additions, *self._said(cut_off, seen, sent)),
            messages=tuple(each.id for each in sent),
            steps=cut_off.last.number,
            text=last_text(reply.message),
            results_only=results_only(cut_off.copied[-1].reply.message),
            in_doubt=tuple(in_doubt),
            context=cut_off.copied[-1].reply.context,
        )

    async def _cut(self) -> Cut:
        parent, temporal = self.parent, self.services.temporal
        async with rpc_errors(parent.workflow_id):
            told = await read_history(temporal, parent.workflow_id, parent.run_id, stores=True)
            cut_off = cut(retold(parent.workflow_id, told), parent.workflow_id, parent.step)
            newest = await look(temporal, parent.workflow_id)
            # One that was reset since lives on in another run, whose calls it does not know.
            if newest.run_id != parent.run_id:
                return cut_off
            return await with_proof(temporal, newest.key, cut_off)

    # ---- the other run's calls

    async def _settled(self, cut_off: Cut) -> LedgerView:
        """Give open calls of a run that is over a definite end; then look at its ledger."""
        ledger = self.services.ledger(_ref(self.parent))
        over = await self._is_over()
        if over:
            await self._settle(ledger, cut_off)
        seen = await _view(ledger)
        if over:
            # Looking made its records stay.
            await ledger.end(await records_ttl_ms(self.services.temporal), if_unset=True)
        return seen

    async def _settle(self, ledger: Ledger, cut_off: Cut) -> None:
        seen = await _view(ledger)
        for asked in cut_off.open_effects():
            # A claim in a ledger that lost the run's records makes a doubt where there is none.
            if seen.trusts(asked.witness) or not asked.never_started:
                await settle(ledger, asked, token=FORK_OWNER + self.given.run.first_run_id)

    async def _is_over(self) -> bool:
        # The newest run of the chain: one that was reset lives on in another, with the same ledger.
        newest = await look(self.services.temporal, self.parent.workflow_id)
        return not newest.open or newest.first_run_id != self.parent.first_run_id

    # ---- this run's records

    async def _write(self, cut_off: Cut, copied: RunRecords) -> tuple[Opening, str]:
        """Write the copy into the ledger and the payload store; returns its reference."""
        ledger, run = self.services.ledger(self.given.run), self.given.run
        witness = await witness_of(self.services, ledger, run, self.given.witness)
        await ledger.restore(copied.ends, copied.turns)
        opening = await recorded(
            self.services, ledger, run, witness, lambda: self._opening(cut_off, witness)
        )
        return opening, await self._keep(copied, opening)

    async def _keep(self, copied: RunRecords, opening: Opening) -> str:
        text = opening.model_dump_json()
        begun = Restored(st="done", fp=BEGINNING, cls="read", result=text)
        added = Added({BEGINNING: begun} | copied.ends, copied.turns, edits=copied.edits)
        packed = await asyncio.to_thread(added.pack)
        return await segments.keep(self.services.temporal.data_converter, packed)

    async def _opening(self, cut_off: Cut, witness: Witness) -> Opening:
        """Freeze what the other run froze; what this worker and the person say about the rest."""
        services, was, steps = self.services, cut_off.retelling.opening, cut_off.last.number
        agent, model = services.app.agent(self.given.request.agent), _model(was)
        limits = _limits(was, self.given.request, steps)
        known = await services.models.capacity(model)
        own = {"copied_steps": steps, "search_attributes": False, "shows_waiting": False}
        here = await decided_here(services, agent, model, limits, known)
        return was.model_copy(update={"witness": witness, **own, **here})

    async def _unseen(self, cut_off: Cut) -> tuple[PersonSaid, ...]:
        parent = await look(self.services.temporal, self.parent.workflow_id, self.parent.run_id)
        return await unseen(self.services.temporal, parent, cut_off)

    def _said(self, cut_off: Cut, seen: LedgerView, sent: tuple[PersonSaid, ...]) -> list[Addition]:
        """Tell Claude what was done since, and what it was not told; then what the person says."""
        said = list[Addition]()
        if effects := aftermath(cut_off, seen):
            said.append(PersonSaid(id=FORK_NOTICE, text=told_to_claude(effects)))
        said += sent
        return [*said, Prompt()] if self.given.has_prompt else said


def _model(was: Opening) -> str:
    return str(json_text.load_object(was.frozen)["model"])


def _limits(was: Opening, request: RunRequest, copied_steps: int) -> Limits:
    """Count from here: the other run's limits, or what was asked for instead."""
    own_steps = was.limits.max_steps - was.copied_steps
    chosen = request.limits.of(was.limits.model_copy(update={"max_steps": own_steps}))
    return chosen.model_copy(update={"max_steps": chosen.max_steps + copied_steps})


async def _view(ledger: Ledger) -> LedgerView:
    seen = await ledger.snapshot()
    return LedgerView(seen.records, seen.witness, int(time.time() * 1000))


def _ref(parent: Fork) -> RunRef:
    return RunRef(
        workflow_id=parent.workflow_id,
        first_run_id=parent.first_run_id,
        run_id=parent.run_id,
        original_run_id=parent.run_id,
    )
