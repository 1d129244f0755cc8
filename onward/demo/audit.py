"""The audit: what the others have in their books, against what should have happened.

Nothing in here asks the thing that is audited whether it did well. Files are hashed and checked
by a process of their own, effects and requests are counted in the payments service's tables, kills
are judged by exit statuses, and what was interrupted must be in history with another worker.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onward.demo import proof
from onward.demo.history import Activity
from onward.demo.killer import Struck
from onward.demo.refactor import Refactor, digests
from onward.demo.script import KEYED_ENDPOINT, Effect, Script
from onward.names import CALL_CLAUDE
from onward.testing import payments
from onward.testing.messages_api import Entry

_PROOF_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Evidence:
    """Everything the audit looks at, gathered when the run was over."""

    script: Script
    refactor: Refactor
    workspace: Path
    struck: Sequence[Struck]
    claude: Sequence[Entry]
    """Every request that reached Claude's side."""
    requests: Sequence[payments.Arrival]
    effects: Sequence[payments.Effect]
    outcome: str
    """`completed`, or in words what became of the run."""
    trouble: Sequence[str] = ()
    """What went wrong with the demo itself, in words."""
    in_doubt: Sequence[str] = ()
    """Calls that the run itself calls in doubt, `12.1`."""
    activities: Sequence[Activity] | None = None
    """From history; None where there is none."""


@dataclass(frozen=True)
class EffectCount:
    """Refunds, as the payments service's own table has them."""

    expected: int
    applied: int
    duplicate: int
    """Beyond the first, or never asked for."""
    missing: int
    in_doubt: int


@dataclass(frozen=True)
class ClaudeCalls:
    """Requests that reached the Messages API."""

    needed: int
    made: int
    wasted: int


def problems(evidence: Evidence) -> list[str]:
    """Say in words everything that is not as it should be; empty means that the audit holds."""
    return [*book_problems(evidence), *file_problems(evidence.refactor, evidence.workspace)]


def book_problems(evidence: Evidence) -> list[str]:
    """Say what is wrong with kills, effects, requests and the end of the run."""
    return [
        *evidence.trouble,
        *_kill_problems(evidence),
        *_effect_problems(evidence),
        *_claude_problems(evidence),
        *([] if evidence.outcome == "completed" else [f"the run ended {evidence.outcome!r}"]),
    ]


def resume_seconds(evidence: Evidence) -> list[float | None]:
    """Return for each kill the time to the next request that reached anyone; None: none came."""
    arrivals = [*(entry.t for entry in evidence.claude), *(item.t for item in evidence.requests)]
    return [
        min((round(t - struck.at, 2) for t in arrivals if t > struck.at), default=None)
        for struck in evidence.struck
    ]


def count_effects(evidence: Evidence) -> EffectCount:
    """Compare the refunds made with the refunds asked for."""
    wanted, made = _wanted(evidence), _made(evidence)
    return EffectCount(
        expected=wanted.total(),
        applied=made.total(),
        duplicate=(made - wanted).total(),
        missing=(wanted - made).total(),
        in_doubt=len(evidence.in_doubt),
    )


def count_claude_calls(evidence: Evidence) -> ClaudeCalls:
    """Compare the requests that reached Claude with the steps of the script."""
    needed, made = len(evidence.script.steps), len(evidence.claude)
    return ClaudeCalls(needed, made, max(0, made - needed))


def file_problems(refactor: Refactor, workspace: Path) -> list[str]:
    """Say which files differ from the expected tree, and what the refactor's check finds."""
    found = digests(workspace)
    wrong = sorted(
        path
        for path in found.keys() | refactor.expected.keys()
        if found.get(path) != refactor.expected.get(path)
    )
    return [
        *(f"{path} is not as expected" for path in wrong),
        *_proof_problems(refactor, workspace),
    ]


def _proof_problems(refactor: Refactor, workspace: Path) -> list[str]:
    # Isolated, so that nothing but the workspace's copy and the installed packages is imported.
    command = [sys.executable, "-I", "-B", proof.__file__, refactor.old, refactor.new]
    checked = subprocess.run(
        [*command, str(workspace)],
        capture_output=True,
        text=True,
        timeout=_PROOF_TIMEOUT_S,
        check=False,
    )
    if checked.returncode != 0:
        return (checked.stdout or checked.stderr).splitlines()
    if proof.rendering() not in checked.stdout:
        return ["the refactored package renders the sample in another way than the original"]
    return []


def _kill_problems(evidence: Evidence) -> Iterator[str]:
    planned, struck = len(evidence.script.kills), len(evidence.struck)
    if planned != struck:
        yield f"{planned} kills were planned and {struck} struck"
    for kill, resumed in zip(evidence.struck, resume_seconds(evidence), strict=True):
        if kill.exit_status != -9:  # noqa: PLR2004
            yield f"pid {kill.pid}, {kill.where}: exit status {kill.exit_status}, not -9"
        if resumed is None:
            yield f"pid {kill.pid}, {kill.where}: nobody went on"
        if kill.kill.place == "between" and _asked_for_more(kill, evidence):
            yield f"{kill.where}: the next step had been asked for before the kill"
        if evidence.activities is not None and kill.kill.place != "between":
            yield from _attempt_problems(kill, evidence)


def _asked_for_more(struck: Struck, evidence: Evidence) -> bool:
    """Tell whether a request for a later step was out; the journal numbers steps from 0."""
    return any(entry.step >= struck.step and entry.t < struck.at for entry in evidence.claude)


def interrupted(struck: Struck, evidence: Evidence) -> Activity | None:
    """Return the activity that a kill struck, as history has it; None: it struck none."""
    if struck.kill.place == "between":
        return None
    claude = struck.kill.place == "claude"
    of_step = [item for item in evidence.activities or () if item.step == str(struck.step)]
    for activity in of_step:
        if activity.type == CALL_CLAUDE if claude else activity.call == f"{struck.step}.1":
            return activity
    return None


def _attempt_problems(struck: Struck, evidence: Evidence) -> Iterator[str]:
    """What a kill interrupted must have been done by another worker, as a later attempt."""
    found = interrupted(struck, evidence)
    if found is None or found.attempt < 2 or found.identity.startswith(f"{struck.pid}@"):  # noqa: PLR2004
        yield f"{struck.where}: no second attempt by another worker in history, only {found}"


def _effect_problems(evidence: Evidence) -> Iterator[str]:
    wanted, made = _wanted(evidence), _made(evidence)
    for effect, surplus in (made - wanted).items():
        yield f"{effect.order} at {effect.endpoint}: {surplus} refund(s) too many"
    doubted = _explained_doubts(evidence)
    for effect in wanted - made:
        if effect.order not in doubted:
            yield f"{effect.order} at {effect.endpoint}: no refund was made"
    for call in evidence.in_doubt:
        if call not in doubted.values():
            yield f"call {call} is in doubt although no kill struck it"
    for request in evidence.requests:
        if request.endpoint == KEYED_ENDPOINT and not request.key:
            yield f"request {request.n} to {KEYED_ENDPOINT} came without an idempotency key"


def _explained_doubts(evidence: Evidence) -> dict[str, str]:
    """Return by order the calls in doubt that a kill explains: it struck inside an at_most_once."""
    return {
        struck.kill.order: f"{struck.step}.1"
        for struck in evidence.struck
        if struck.kill.place == "plain" and f"{struck.step}.1" in evidence.in_doubt
    }


def _claude_problems(evidence: Evidence) -> Iterator[str]:
    calls = count_claude_calls(evidence)
    if calls.made < calls.needed:
        yield f"only {calls.made} of {calls.needed} steps were asked for"
    if calls.wasted > len(evidence.struck):
        yield f"{calls.wasted} requests were wasted by {len(evidence.struck)} kills"
    for entry in evidence.claude:
        if entry.violations:
            yield f"request {entry.n} to Claude was refused: {', '.join(entry.violations)}"


def _wanted(evidence: Evidence) -> Counter[Effect]:
    return Counter(evidence.script.effects)


def _made(evidence: Evidence) -> Counter[Effect]:
    endpoints = {request.n: request.endpoint for request in evidence.requests}
    return Counter(
        Effect(endpoints[made.request], made.order, made.amount_cents) for made in evidence.effects
    )
