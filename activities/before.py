"""What a step begins from: the opening, the conversation so far, and the user turn to add."""

from dataclasses import dataclass

from temporalio import activity
from temporalio.service import RPCError

from onward import history, transcript
from onward.history import RunKey
from onward.ledger import Ledger, Snapshot
from onward.messages import ClaudeInput, Opening, Prompt, ResultOf
from onward.transcript import BEGINNING, Conversation, Turn

from .failures import again
from .records import opening_of, replies_of, results_of, turns_of
from .services import Services


@dataclass(frozen=True)
class Before:
    """What is known before Claude is asked."""

    opening: Opening
    earlier: Conversation
    turn: Turn
    """As the step's additions make it; an earlier attempt may have frozen another one."""


async def before(services: Services, ledger: Ledger, given: ClaudeInput) -> Before:
    """Read it, and of the conversation only what this worker has not at hand.

    Raises `LedgerGap` where the ledger has lost a part of it.
    """
    seen, earlier = await _conversation(services, ledger, given)
    results = results_of(seen, given.additions)
    turn = transcript.build_turn(given.additions, results, await _prompt(services, given))
    return Before(opening_of(seen), earlier, turn)


async def _conversation(
    services: Services, ledger: Ledger, given: ClaudeInput
) -> tuple[Snapshot, Conversation]:
    if kept := services.transcripts.find(ledger.key, given.head):
        calls = [item.call for item in given.additions if isinstance(item, ResultOf)]
        seen = await ledger.records(BEGINNING, *calls)
        # Another branch of the run may have begun otherwise, and its opening be there now.
        if transcript.beginning(opening_of(seen).frozen) == kept.beginning:
            return seen, kept
    seen = await ledger.snapshot()
    opening, replies, turns = opening_of(seen), replies_of(seen), turns_of(seen)
    rebuilt = transcript.conversation(given.head, opening.frozen, replies, turns)
    services.transcripts.keep(ledger.key, rebuilt)
    return seen, rebuilt


async def _prompt(services: Services, given: ClaudeInput) -> str:
    """Read the run's prompt from its start event, where the step adds it."""
    if not any(isinstance(item, Prompt) for item in given.additions):
        return ""
    key = RunKey(given.run.workflow_id, activity.info().workflow_run_id or given.run.run_id)
    try:
        request = await history.request_of(services.temporal, key)
    except RPCError as error:
        raise again("history", f"cannot read the prompt from the run's history: {error}") from error
    if request is None:
        raise again("history", "found no prompt in the run's start event, expected a RunRequest")
    return request.prompt
