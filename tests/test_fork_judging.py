"""What a fork says of each call, by what history and ledger say of it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from onward.forking.aftermath import Effect, aftermath, told_to_claude, told_to_people
from onward.forking.business import business_keys
from onward.forking.copying import answers, copied_records, doubts
from onward.forking.cut import Cut, StepCall
from onward.forking.fates import LedgerView, fate
from onward.messages import (
    BusinessKey,
    CallResult,
    ClaudeReply,
    Head,
    Limits,
    Opening,
    PreparedCall,
    Witness,
)
from onward.records import Record, Restored
from onward.retelling.steps import Retelling, Step
from onward.transcript import Turn
from onward.wording import outcome_unknown

WITNESS = Witness(nonce="n", inc="i", run_id="r")
NOW_MS = 1_000_000
DONE = json.dumps({"status": "done", "content": '"sent"'})


def call(name: str, **fields: Any) -> PreparedCall:
    return PreparedCall(
        call=name,
        tool_use_id=f"use-{name}",
        tool="send",
        effect="at_most_once",
        fingerprint="f",
        key=f"key-{name}",
        summary="to=a",
        timeout_s=1,
        **fields,
    )


def record(**fields: Any) -> Record:
    plain = Record("claimed", "f", "at_most_once", "o", 1, NOW_MS - 1, 1, 0, may_have_sent=False)
    return replace(plain, **fields)


def view(nonce: str = "n", inc: str = "i", *, strict: bool = True, **records: Record) -> LedgerView:
    seen = Witness(nonce=nonce, inc=inc, run_id="r", strict=strict) if nonce else None
    named = {name[1:].replace("k_", "k:").replace("_", "."): r for name, r in records.items()}
    return LedgerView(named, seen, NOW_MS)


@pytest.mark.parametrize(
    ("seen", "end"),
    [
        (view(), "not run"),
        (view("another"), "in doubt"),
        (view(""), "in doubt"),
        (view(inc="another"), "not run"),
        (view(inc="another", strict=False), "in doubt"),
        (view(strict=False), "not run"),
        (None, "in doubt"),
        (view(_2_1=record(st="done", result=DONE)), "done"),
        (view(_2_1=record(st="failed", result=DONE)), "failed"),
        (view(_2_1=record(st="doubt", why="owner_lost")), "in doubt"),
        (view(_2_1=record(lease_ends_ms=NOW_MS + 1)), "under way"),
        (view(_2_1=record()), "in doubt"),
        (view(_2_1=record(st="open")), "not run"),
        (view(_2_1=record(st="open", may_have_sent=True)), "in doubt"),
        (view(_2_1=record(st="done", result=DONE, fp="of another branch")), "in doubt"),
    ],
)
def test_only_proof_makes_a_call_not_run(seen: LedgerView | None, end: str) -> None:
    """Absent is "never sent" only in the dataset of the witness; every doubt stays one.

    On a lossy server it is the witness's dataset only while that very process runs.
    """
    found = fate(StepCall(call("2.1"), WITNESS), {}, seen)
    assert found.end == end
    assert (found.result is not None) == (end in {"done", "failed"})


def test_history_outranks_the_ledger_and_a_late_truth_a_doubt() -> None:
    """An end in history stands; a doubt in history yields to what the ledger learned since."""
    done = Restored(st="done", fp="f", cls="at_most_once", result=DONE)
    doubt = Restored(st="doubt", fp="f", cls="at_most_once", why="owner_lost")
    asked, late = StepCall(call("2.1"), WITNESS), view(_2_1=record(st="done", result=DONE))
    assert fate(asked, {"2.1": done}, view(_2_1=record(st="doubt"))).end == "done"
    assert fate(asked, {"2.1": doubt}, late).end == "done"
    assert fate(asked, {"2.1": doubt}, None).why == "owner_lost"


@pytest.mark.parametrize(
    ("seen", "end"),
    [
        (None, "not run"),
        (view(""), "not run"),
        (view("another", _2_1=record(lease_ends_ms=NOW_MS + 1)), "under way"),
        (view("another", _2_1=record(st="doubt", why="owner_lost")), "in doubt"),
    ],
)
def test_history_alone_proves_that_a_call_was_never_begun(
    seen: LedgerView | None, end: str
) -> None:
    """What is recorded outranks it all the same: a record cannot come from nothing."""
    asked = StepCall(call("2.1"), WITNESS, never_started=True)
    assert fate(asked, {}, seen).end == end


DENIED = "A person denied this call. Too much."
UNKNOWN = outcome_unknown("owner_lost")


@pytest.mark.parametrize(
    ("told", "seen", "end"),
    [
        (DENIED, view(), "not run"),
        (DENIED, view(""), "not run"),
        (DENIED, None, "not run"),
        (DENIED, view(_2_1=record(st="failed", result=DONE)), "not run"),
        (DENIED, view(_2_1=record(st="done", result=DONE)), "done"),
        (UNKNOWN, view(), "in doubt"),
        (UNKNOWN, view(_2_1=record(st="failed", result=DONE)), "in doubt"),
        (UNKNOWN, view(_2_1=record(lease_ends_ms=NOW_MS + 1)), "under way"),
        (UNKNOWN, view(_2_1=record(st="done", result=DONE)), "done"),
    ],
)
def test_what_claude_was_told_stands(told: str, seen: LedgerView | None, end: str) -> None:
    """A call that Claude was told of is judged by that, and lost records make no doubt of it."""
    asked = StepCall(call("2.1"), WITNESS, {"type": "tool_result", "content": told})
    assert (fate(asked, {}, seen).end, asked.is_open) == (end, False)


def test_a_call_that_may_not_run_leaves_no_doubt() -> None:
    """One that was refused before any claim is not run, whatever became of Redis."""
    asked = StepCall(call("2.1", refusal="There is no tool 'send'."), WITNESS)
    assert (fate(asked, {}, None).end, asked.is_open) == ("not run", False)


def step(number: int, *answers: str, **fields: Any) -> Step:
    use: dict[str, Any] = {"type": "tool_use", "id": f"use-{number}.1", "name": "send", "input": {}}
    reply = ClaudeReply(
        message=json.dumps({"content": [use]}),
        stop_reason="tool_use",
        calls=(call(f"{number}.1", **fields),),
        head=Head(step=str(number), digest="d"),
        prev=str(number - 1),
        witness=WITNESS,
    )
    told = tuple({"type": "tool_result", "content": text} for text in answers)
    return Step(str(number), Turn(content=""), reply, told or None)


LOST = "OUTCOME UNKNOWN, it may or may not have happened"
OPENING = Opening(
    frozen="{}",
    effects={},
    limits=Limits(),
    witness=WITNESS,
    head=Head(step="0", digest="d"),
    takeover_s=1,
)


def cut_after_one(*steps: Step, **ends: Restored) -> Cut:
    return Cut(Retelling(OPENING, (), steps, ends), steps[:1])


def test_what_only_the_ledger_knows_of_is_listed_too() -> None:
    """After a reset, history lacks what the old branch did: it may have happened all the same."""
    cut = cut_after_one(step(1), step(2), step(4, DENIED))
    seen = view(
        _1_1=record(st="done", result=DONE, fp="of another branch"),
        _2_1=record(st="done", result=DONE),
        _2_2=record(st="done", result=DONE, fp="of another branch"),
        _3_1=record(st="doubt", fp="of another branch"),
        _3_2=record(st="open", fp="of another branch"),
        _3_3=record(st="failed", fp="of another branch"),
        _3=record(st="done", cls="read", fp="of another branch"),
        _4_1=record(st="doubt"),
    )
    listed = told_to_people(aftermath(cut, seen))
    assert [line.partition(", ")[0] for line in listed] == [
        "2.1 send (to=a): done",
        "2.2 at_most_once call that a reset left out of history: done",
        "3.1 at_most_once call that a reset left out of history: OUTCOME UNKNOWN",
        "4.1 at_most_once call that a reset left out of history: OUTCOME UNKNOWN",
    ]


def test_what_a_reset_cut_off_is_named_by_the_reply_that_asked_for_it() -> None:
    """Tool, arguments and result, which Claude must know so as not to do it again."""
    reply = step(3).reply.model_copy(update={"calls": (call("3.2"), call("3.10"))})
    seen = view(
        _3=record(st="done", cls="read", fp="digest", result=reply.record()),
        _3_10=record(st="doubt", why="owner_lost"),
        _3_2=record(st="done", result=DONE),
        _3_1=record(st="done", result=DONE),
    )
    assert aftermath(cut_after_one(step(1)), seen) == [
        Effect("3.1", "at_most_once call that a reset left out of history", "done", '"sent"'),
        Effect("3.2", "send (to=a)", "done", '"sent"'),
        Effect("3.10", "send (to=a)", f"{LOST} (its worker went away while it was under way)"),
    ]


def test_what_claude_was_told_of_later_calls_stands() -> None:
    """A denied call of a later step is nothing that was done, also where records are lost."""
    cut = cut_after_one(step(1), step(2, DENIED), step(3, UNKNOWN), step(4))
    lost = [line.partition(" ")[0] for line in told_to_people(aftermath(cut, view("")))]
    assert lost == ["3.1", "4.1"]
    assert [asked.call.call for asked in cut.open_effects()] == ["1.1", "4.1"]


def test_claude_is_not_told_without_end() -> None:
    """A long run is not listed whole: how much is left out is said, and whom to ask."""
    effects = [Effect(f"{n}.1", f"act (what={n})", "done") for n in range(1, 101)]
    lines = told_to_claude(effects).splitlines()
    assert lines[30:] == [
        "- act (what=30): done",
        "- 70 more after these, not listed here: ask the person.",
    ]
    assert "not listed" not in told_to_claude(effects[:30])


# ---- what the new run's records say, to those who fork it again


@pytest.mark.parametrize("seen", [view("of the fork"), view(""), None])
@pytest.mark.parametrize(
    ("first", "end", "words"),
    [
        (view(_1_1=record(st="doubt", why="result_lost")), "in doubt", "result_lost"),
        (view(_1_1=record(lease_ends_ms=NOW_MS + 1)), "in doubt", "it is under way"),
        (view(_1_1=record(st="open")), "failed", "Not run"),
        (view(_1_1=record(st="done", result=DONE)), "done", "sent"),
    ],
)
def test_a_fork_that_said_nothing_yet_can_be_forked(
    first: LedgerView, end: str, words: str, seen: LedgerView | None
) -> None:
    """Its ledger never saw the calls of the copied steps: what it copied must tell their ends."""
    cut = cut_after_one(step(1))
    ends = copied_records(cut, answers(cut, first), doubts(cut, first), {}).ends
    found = fate(StepCall(call("1.1"), WITNESS), ends, seen)
    assert (found.end, words in (found.why or str(found.result))) == (end, True)


def test_what_a_person_denied_stays_so_in_a_fork_of_the_fork() -> None:
    """The words are copied as the call's end, where the new run had no reply to them yet."""
    cut = cut_after_one(step(1, DENIED), step(2))
    ends = copied_records(cut, answers(cut, view()), doubts(cut, view()), {}).ends
    found = fate(StepCall(call("1.1"), WITNESS), ends, None)
    assert found.result == CallResult(status="failed", content=json.dumps(DENIED))


# ---- business keys

KEY = BusinessKey(position="k:a")
OF_KEY = CallResult(status="done", content='"sent"', first_call="parent 9.1").record()


def keyed(number: int, *answers: str) -> Step:
    return step(number, *answers, business=KEY)


def of_key(st: Any, **fields: Any) -> Restored:
    return Restored(st=st, fp="k:a", cls="at_most_once", **fields)


@pytest.mark.parametrize(
    ("seen", "end"),
    [
        (view(_1_1=record(st="done", result=DONE)), "done"),
        (view(_2_1=record(st="done", result=DONE)), "done"),
        (view(_2_1=record(st="doubt", why="owner_lost")), "doubt"),
        (view(_2_1=record(lease_ends_ms=NOW_MS + 1)), "doubt"),
        (view(_2_1=record(st="failed", result=DONE)), None),
        (view(), None),
        (view(""), "doubt"),
        (None, "doubt"),
        (view(_k_a=record(st="done", fp="k:a", result=OF_KEY)), "done"),
        (view(_k_a=record(st="claimed", fp="k:a")), "doubt"),
        (view(_k_a=record(st="open", fp="k:a", may_have_sent=True)), "doubt"),
        (view(_k_a=record(st="open", fp="k:a")), None),
    ],
)
def test_a_key_stands_for_what_its_calls_came_to(seen: LedgerView | None, end: str | None) -> None:
    """Also where history never heard of it: else the fork would fire it under another key."""
    found = business_keys(cut_after_one(keyed(1), keyed(2)), seen, "parent")
    assert {name: each.st for name, each in found.items()} == ({"k:a": end} if end else {})


def test_a_doubt_of_a_key_ends_with_the_truth_alone() -> None:
    """A late truth ends it; a call that was closed without having run does not."""
    doubt, closed = of_key("doubt", why="owner_lost"), record(st="failed", result=DONE)
    cut = cut_after_one(keyed(1, UNKNOWN), keyed(2), **{"k:a": doubt})
    assert business_keys(cut, view(_2_1=closed), "parent")["k:a"].st == "doubt"
    late = view(_k_a=record(st="done", fp="k:a", result=OF_KEY))
    assert business_keys(cut, late, "parent")["k:a"] == of_key("done", result=OF_KEY)


def test_a_key_of_a_call_that_claude_was_told_of_is_in_doubt() -> None:
    """An attempt that ended without a word leaves no record in history, and none after a wipe."""
    found = business_keys(cut_after_one(keyed(1, UNKNOWN), step(2)), view(""), "parent")
    assert found["k:a"].st == "doubt"
    assert not business_keys(cut_after_one(keyed(1, DENIED), step(2)), view(""), "parent")
