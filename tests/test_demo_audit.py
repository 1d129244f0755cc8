"""The demo's audit: it holds for a good run, and each single thing that can go wrong fails it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.failure.v1 import Failure, ServerFailureInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse

from onward.demo import audit, refactor, script
from onward.demo.audit import Evidence
from onward.demo.history import Activity
from onward.demo.killer import Struck
from onward.demo.protected import failing
from onward.demo.report import Bill, lines, report
from onward.demo.script import Kill
from onward.names import CALL_CLAUDE
from onward.testing import payments
from onward.testing.messages_api import Entry

Change = Callable[[Evidence], Evidence]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """A run that went as it should, with a kill at each kind of place."""
    workspace = tmp_path_factory.mktemp("workspace")
    plan = refactor.plan()
    refactor.copy_package(plan, workspace)
    for edit in plan.edits:
        file = workspace / edit.path
        file.write_text(file.read_text().replace(edit.old_string, edit.new_string))
    made = script.build(plan, kills=4, seed=2)
    struck = [
        Struck(kill, f"place {kill.step}", kill.step, 1000 + kill.step, -9, at=float(kill.step))
        for kill in made.kills
    ]
    requests = [
        payments.Arrival(n, n + 0.5, effect.endpoint, f"key-{n}", None, "whole", "", "", 201)
        for n, effect in enumerate(made.effects, 1)
    ]
    effects = [
        payments.Effect(n, n + 0.6, n, None, effect.order, effect.amount_cents)
        for n, effect in enumerate(made.effects, 1)
    ]
    return Evidence(
        script=made,
        refactor=plan,
        workspace=workspace,
        struck=struck,
        claude=[Entry(n=step, t=step + 0.25, step=step - 1) for step in range(1, 47)],
        requests=requests,
        effects=effects,
        outcome="completed",
        activities=[_again(kill) for kill in made.kills],
    )


def test_a_good_run_passes_and_is_counted(good: Evidence) -> None:
    """No problem is found, and the numbers are the ones of the books."""
    assert audit.problems(good) == []
    assert vars(audit.count_effects(good)) == {
        "expected": len(good.script.effects),
        "applied": len(good.script.effects),
        "duplicate": 0,
        "missing": 0,
        "in_doubt": 0,
    }
    assert audit.count_claude_calls(good).wasted == 46 - len(good.script.steps)
    assert audit.resume_seconds(good) == [0.25] * 4


def _one_effect_twice(run: Evidence) -> Evidence:
    return replace(run, effects=[*run.effects, replace(run.effects[0], n=99)])


def _one_effect_missing(run: Evidence) -> Evidence:
    return replace(run, effects=run.effects[1:])


def _another_amount(run: Evidence) -> Evidence:
    return replace(run, effects=[replace(run.effects[0], amount_cents=1), *run.effects[1:]])


def _doubt_without_a_kill(run: Evidence) -> Evidence:
    return replace(run, in_doubt=("2.1",))


def _a_kill_that_never_struck(run: Evidence) -> Evidence:
    return replace(run, struck=run.struck[1:])


def _a_kill_that_killed_nothing(run: Evidence) -> Evidence:
    return replace(run, struck=[replace(run.struck[0], exit_status=0), *run.struck[1:]])


def _not_between_steps(run: Evidence) -> Evidence:
    struck = [
        replace(kill, step=kill.step - 2) if kill.kill.place == "between" else kill
        for kill in run.struck
    ]
    return replace(run, struck=struck)


def _nobody_went_on(run: Evidence) -> Evidence:
    return replace(run, struck=[*run.struck[:-1], replace(run.struck[-1], at=1e12)])


def _no_second_attempt(run: Evidence) -> Evidence:
    return replace(run, activities=[replace(a, attempt=1) for a in run.activities or ()])


def _the_same_worker(run: Evidence) -> Evidence:
    return replace(
        run, activities=[replace(a, identity=f"10{int(a.step):02}@h") for a in run.activities or ()]
    )


def _a_keyed_request_without_a_key(run: Evidence) -> Evidence:
    return replace(run, requests=[replace(r, key=None) for r in run.requests])


def _a_refused_request(run: Evidence) -> Evidence:
    refused = run.claude[3].model_copy(update={"violations": ["prefix"]})
    return replace(run, claude=[*run.claude[:3], refused, *run.claude[4:]])


def _claude_asked_for_nothing(run: Evidence) -> Evidence:
    more = [entry.model_copy(update={"n": entry.n + 100}) for entry in run.claude]
    return replace(run, claude=[*run.claude, *more])


def _steps_left_out(run: Evidence) -> Evidence:
    return replace(run, claude=run.claude[:40])


def _another_outcome(run: Evidence) -> Evidence:
    return replace(run, outcome="limit_steps")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_one_effect_twice, "too many"),
        (_one_effect_missing, "no refund was made"),
        (_another_amount, "too many"),
        (_doubt_without_a_kill, "2.1 is in doubt although no kill"),
        (_a_kill_that_never_struck, "4 kills were planned and 3 struck"),
        (_a_kill_that_killed_nothing, "exit status 0, not -9"),
        (_not_between_steps, "had been asked for before the kill"),
        (_nobody_went_on, "nobody went on"),
        (_no_second_attempt, "no second attempt by another worker"),
        (_the_same_worker, "no second attempt by another worker"),
        (_a_keyed_request_without_a_key, "without an idempotency key"),
        (_a_refused_request, "was refused: prefix"),
        (_claude_asked_for_nothing, "requests were wasted"),
        (_steps_left_out, "steps were asked for"),
        (_another_outcome, "limit_steps"),
    ],
)
def test_whatever_goes_wrong_fails_the_audit(good: Evidence, change: Change, said: str) -> None:
    """Each planted fault is found and said in words."""
    assert any(said in problem for problem in audit.book_problems(change(good)))


def test_a_doubt_that_a_kill_explains_is_honest_and_no_failure(good: Evidence) -> None:
    """A kill inside an at_most_once call may leave its one effect undone, if it says so."""
    struck = next(struck for struck in good.struck if struck.kill.place == "plain")
    undone = [effect for effect in good.effects if effect.order != struck.kill.order]
    doubted = replace(good, effects=undone, in_doubt=(f"{struck.step}.1",))
    assert audit.book_problems(doubted) == []
    assert audit.count_effects(doubted).in_doubt == 1
    assert audit.book_problems(replace(good, effects=undone)) != []


def test_a_plain_loop_has_no_history_and_is_judged_by_all_the_rest(good: Evidence) -> None:
    """Without Temporal there are no second attempts to ask for; a duplicate still counts."""
    plain = replace(good, activities=None)
    assert audit.book_problems(plain) == []
    assert audit.book_problems(_one_effect_twice(plain)) != []


def test_a_report_of_a_bad_run_is_not_ok(good: Evidence) -> None:
    """The exit status follows the audit."""
    assert not _report(_one_effect_twice(good))["ok"]


def test_the_report_has_the_promised_keys_and_reads_as_text(good: Evidence) -> None:
    """`--json` keeps its keys, and people are told the same facts."""
    found = _report(good)
    assert found.keys() >= {
        *("steps", "kills", "resume_seconds", "effects", "claude_calls", "spend"),
        *("history_bytes", "workflow_id", "ui_url", "ok"),
    }
    assert found["ok"]
    bill = Bill(45, {}, ui_url="http://127.0.0.1:8233")
    text = "\n".join(lines(report(good, bill, seed=2, unprotected=False, seconds=9.0)))
    assert "The audit holds." in text
    assert "exit status -9, next request after 0.25 s" in text
    assert "http://" not in text, "the servers end with the demo, unless somebody is looking"


def test_a_run_that_stopped_early_wasted_nothing(good: Evidence) -> None:
    """Fewer requests than steps are a problem of their own, no negative waste."""
    stopped = replace(good, claude=good.claude[:1])
    assert audit.count_claude_calls(stopped).wasted == 0
    assert "only 1 of 45 steps were asked for" in audit.book_problems(stopped)


def test_what_holds_an_open_run_up_is_said() -> None:
    """An activity that fails again and again is named with its reason; one that waits is not."""
    description = DescribeWorkflowExecutionResponse()
    description.pending_activities.add().activity_type.name = "read"
    stuck = description.pending_activities.add(attempt=7)
    stuck.activity_type.name = "grep"
    stuck.last_failure.message = "list indices must be integers"
    assert failing(description) == ["grep fails, attempt 7: list indices must be integers"]
    raised = Failure(message="no key for Claude's API")
    cut = Failure(
        message="Failure exceeds size limit.", server_failure_info=ServerFailureInfo(), cause=raised
    )
    stuck.last_failure.CopyFrom(cut)
    assert failing(description) == ["grep fails, attempt 7: no key for Claude's API"]


def test_a_workspace_without_the_edits_fails_the_audit(good: Evidence, tmp_path: Path) -> None:
    """Files are looked at where the agent worked."""
    refactor.copy_package(good.refactor, tmp_path)
    assert len(audit.problems(replace(good, workspace=tmp_path))) > len(good.refactor.edits)


def _report(run: Evidence) -> dict[str, Any]:
    return report(run, Bill(45, {}), seed=2, unprotected=False, seconds=9.0).to_json()


def _again(kill: Kill) -> Activity:
    call = f"{kill.step}.1" if kill.order else ""
    kind = "refund" if kill.order else CALL_CLAUDE
    return Activity(kind, str(kill.step), call, attempt=2, identity="7@host", closed=True)
