"""Ways to get a run wrong, each in the smallest mix of faults that shows it."""

from typing import NamedTuple

from ledger_model import Rules
from run_cases import case
from run_state import Case, Guards
from run_world import DOUBLE, FORGOTTEN, NEEDLESS, NOT_DONE, NOT_FAILED, NOT_KNOWN
from search import NO_PROGRESS


class Mutant(NamedTuple):
    """A broken protocol, and what must come of it."""

    case: Case
    violation: str


def _mutant(violation: str, line: str, guards: Guards | None = None, **rules: bool) -> Mutant:
    return Mutant(case(line, guards, Rules(**rules)), violation)


_ONCE = "at_most_once strict"
_WITNESS = {
    "a restore makes the birth nonce": _mutant(
        DOUBLE, f"{_ONCE} wipe1 timeout1", Guards(restore_makes_nonce=True)
    ),
    "a call that is scheduled again gets a new witness": _mutant(
        DOUBLE, f"{_ONCE} wipe1 timeout1", Guards(call_witness_renewed=True)
    ),
    "begin makes a birth nonce under reset lineage": _mutant(
        DOUBLE, f"{_ONCE} wipe1 reset1", lineage_begin_creates=True
    ),
    "begin under reset lineage finds the nonce that an old begin made": _mutant(
        DOUBLE, f"{_ONCE} wipe1 reset1 timeout1 calls2", lineage_begin_finds=True
    ),
    "... that was made after a wipe in the middle of a refill": _mutant(
        DOUBLE, f"{_ONCE} wipe2 reset1", lineage_begin_finds=True
    ),
    "... that a refill made which begins before it restores": _mutant(
        DOUBLE, f"{_ONCE} wipe1 reset1", Guards(refill_before_begin=False), lineage_begin_finds=True
    ),
    "a reply under reset lineage hands on the witness that is there": _mutant(
        DOUBLE, f"{_ONCE} wipe1 reset1 timeout1 calls2", lineage_sees=True
    ),
    "a pending activity believes its first input, which knows of no reset": _mutant(
        DOUBLE, f"{_ONCE} wipe1 reset1", Guards(pending_attempt_knows_of_reset=False)
    ),
    "continue-as-new forgets the reset lineage": _mutant(
        DOUBLE, f"{_ONCE} wipe1 reset1 continue1", Guards(continue_keeps_lineage=False)
    ),
    "a workflow may be retried": _mutant(
        DOUBLE, f"{_ONCE} wipe1 reset1", Guards(workflow_retries=True)
    ),
    "a missing birth nonce is no gap": _mutant(NEEDLESS, f"{_ONCE} wipe1", gap_no_ds=False),
    "a missing birth nonce is a gap under reset lineage": _mutant(
        NO_PROGRESS, f"{_ONCE} wipe1 reset1", gap_no_ds_lineage=True
    ),
}
_DOUBTS = {
    "a doubt in history overwrites what is done": _mutant(
        FORGOTTEN, f"{_ONCE} wipe1 timeout2", doubt_over_truth=True
    ),
    "a doubt in history yields to what another call did": _mutant(
        NO_PROGRESS, f"{_ONCE} wipe1 reset1 decisions2", doubt_yields_to_other_fp=True
    ),
    "a person is heard at once": _mutant(NOT_FAILED, f"{_ONCE} timeout1", Guards(quarantine=False)),
    "a person who spoke too early is heard when the quarantine is over": _mutant(
        NOT_FAILED, f"{_ONCE} timeout1", Guards(person_waits=False)
    ),
    "a doubt that is brought back has no quarantine of its own": _mutant(
        DOUBLE, f"{_ONCE} timeout3 retry1", Guards(quarantine_counts_anew=False)
    ),
    "to settle a doubt whose record is absent is refused": _mutant(
        NO_PROGRESS, f"{_ONCE} wipe1 timeout1", Guards(absent_resolve_is_gap=False)
    ),
    "to settle a doubt that began anew is refused": _mutant(
        NO_PROGRESS, f"{_ONCE} wipe1 timeout2", Guards(stale_resolve_is_gap=False)
    ),
    "a refusal that Redis was not told of is the last word": _mutant(
        NOT_FAILED,
        "keyed strict timeout1 refused1 unrecorded1",
        Guards(unrecorded_refusal_is_weighed=False),
    ),
    "the idempotency key leaves the fingerprint out": _mutant(
        NOT_DONE, "keyed strict wipe1 reset1 decisions2", Guards(fp_in_key=False)
    ),
}
_LIMITS = {
    "LIMIT: a split brain and a reset": _mutant(DOUBLE, "at_most_once lossy split1 reset1 calls2"),
    "LIMIT: told failed, the record is lost, an older attempt sends": _mutant(
        NOT_FAILED, "keyed strict wipe1 timeout1 refused1", Guards(limits_excused=False)
    ),
    "LIMIT: a mismatch says nothing about the effect": _mutant(
        NOT_KNOWN,
        "keyed strict wipe1 reset1 ambiguous1 decisions2 calls3",
        Guards(limits_excused=False),
    ),
}
MUTANTS = {**_WITNESS, **_DOUBTS, **_LIMITS}
