"""What a fork says of each call, by what history and ledger say of it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from onward.forking.aftermath import aftermath, told_to_people
from onward.forking.cut import Cut
from onward.forking.fates import LedgerView, fate
from onward.messages import ClaudeReply, Head, Limits, Opening, PreparedCall, Witness
from onward.records import Record, Restored
from onward.retelling.steps import Retelling, Step
from onward.transcript import Turn

WITNESS = Witness(nonce="n", inc="i", run_id="r")
NOW_MS = 1_000_000
DONE = json.dumps({"status": "done", "content": '"sent"'})


def call(name: str) -> PreparedCall:
    return PreparedCall(
        call=name,
        tool_use_id=f"use-{name}",
        tool="send",
        effect="at_most_once",
        fingerprint="f",
        key=f"key-{name}",
        summary="to=a",
        timeout_s=1,
    )


def record(**fields: Any) -> Record:
    plain = Record("claimed", "f", "at_most_once", "o", 1, NOW_MS - 1, 1, 0, may_have_sent=False)
    return replace(plain, **fields)


def view(nonce: str = "n", **records: Record) -> LedgerView:
    return LedgerView({name[1:].replace("_", "."): r for name, r in records.items()}, nonce, NOW_MS)


@pytest.mark.parametrize(
    ("seen", "end"),
    [
        (view(), "not run"),
        (view("another"), "in doubt"),
        (view(""), "in doubt"),
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
    """Absent is "never sent" only in the dataset of the witness; every doubt stays one."""
    found = fate((call("2.1"), WITNESS), {}, seen)
    assert found.end == end
    assert (found.result is not None) == (end in {"done", "failed"})


def test_history_outranks_the_ledger_and_a_late_truth_a_doubt() -> None:
    """An end in history stands; a doubt in history yields to what the ledger learned since."""
    done = Restored(st="done", fp="f", cls="at_most_once", result=DONE)
    doubt = Restored(st="doubt", fp="f", cls="at_most_once", why="owner_lost")
    asked, late = (call("2.1"), WITNESS), view(_2_1=record(st="done", result=DONE))
    assert fate(asked, {"2.1": done}, view(_2_1=record(st="doubt"))).end == "done"
    assert fate(asked, {"2.1": doubt}, late).end == "done"
    assert fate(asked, {"2.1": doubt}, None).why == "owner_lost"


def step(number: int) -> Step:
    use: dict[str, Any] = {"type": "tool_use", "id": f"use-{number}.1", "name": "send", "input": {}}
    reply = ClaudeReply(
        message=json.dumps({"content": [use]}),
        stop_reason="tool_use",
        calls=(call(f"{number}.1"),),
        head=Head(step=str(number), digest="d"),
        prev=str(number - 1),
        witness=WITNESS,
    )
    return Step(str(number), Turn(content=""), reply, ())


def test_what_only_the_ledger_knows_of_is_listed_too() -> None:
    """After a reset, history lacks what the old branch did: it may have happened all the same."""
    steps = (step(1), step(2))
    opening = Opening(
        frozen="{}",
        effects={},
        limits=Limits(),
        witness=WITNESS,
        head=Head(step="0", digest="d"),
        takeover_s=1,
    )
    cut = Cut(Retelling(opening, (), steps, {}), steps[:1])
    seen = view(
        _1_1=record(st="done", result=DONE, fp="of another branch"),
        _2_1=record(st="done", result=DONE),
        _2_2=record(st="done", result=DONE, fp="of another branch"),
        _3_1=record(st="doubt", fp="of another branch"),
        _3_2=record(st="open", fp="of another branch"),
        _3_3=record(st="failed", fp="of another branch"),
        _3=record(st="done", cls="read", fp="of another branch"),
    )
    listed = told_to_people(aftermath(cut, seen))
    assert [line.partition(", ")[0] for line in listed] == [
        "2.1 send (to=a): done",
        "2.2 at_most_once call that a reset left out of history: done",
        "3.1 at_most_once call that a reset left out of history: OUTCOME UNKNOWN",
    ]
