"""The soak itself: its flow plays every part, and its verdict sees what it must."""

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import chaos.run
from benchmarks.bed import as_json
from chaos.audit import Evidence
from chaos.evidence import refunds_made
from chaos.soak.__main__ import main
from chaos.soak.driver import Options, soaked
from chaos.soak.flow import Ended, Flow
from chaos.soak.samples import Keys, Process, Sample, Sampler
from chaos.soak.stage import stage
from chaos.soak.verdict import compared, problems
from chaos.soak.work import ROUND, Work, work
from chaos.traffic import Run
from onward.console import Output
from onward.messages import RunResult
from onward.tools.orphans import guard

MINUTES = 60.0
NAMES = ["steady worker", "killed worker", "redis", "temporal"]


@pytest.mark.long
@pytest.mark.timeout(2 * 3600)
async def test_an_hour_of_runs_and_kills_leaves_nothing_behind(tmp_path: Path) -> None:
    """Memory, files, keys and histories return to where they were, and every effect is once."""
    guard()
    found = await soaked(Options(minutes=MINUTES), tmp_path, Output(as_json=True))
    _keep(asdict(found))
    assert found.problems == []
    assert found.kills == MINUTES
    assert found.at_rest["keys_that_stay"] == {}


def _keep(found: dict[str, Any]) -> None:
    if folder := os.environ.get("ONWARD_FIGURES"):
        Path(folder, "soak.json").write_text(as_json(found), encoding="utf-8")


@pytest.mark.long
@pytest.mark.timeout(120)
async def test_each_kind_of_run_ends_as_it_should(tmp_path: Path) -> None:
    """The flow plays the people's parts, so an hour of it has every kind of run."""
    async with stage(tmp_path) as here:
        flow = Flow(here)
        await flow.go_on(minutes=0.02, per_minute=len(ROUND) / 0.02)
        seen = await Sampler(here).take()
        refunds = refunds_made(here.payments, here.transactions_db)
    assert problems([], [seen], _at_rest(), Evidence(flow.runs, refunds, flow.spans, [])) == []
    assert {each.kind for each in flow.ended} == {*ROUND}
    assert {"run", "result", "business key", "rate limit"} <= {*seen.keys.expiring}
    assert (set(seen.processes), seen.payload_files > 0) == ({*here.pids}, True)


# ---- the verdict


def _sample(at_s: float = 0.0, **changes: Any) -> Sample:
    process = Process(rss_mb=100, files=20, threads=10, cpu_s=1)
    processes = dict.fromkeys(NAMES, process)
    keys = Keys({"run": 50, "business key": 5}, {"run": 1}, ())
    same = Sample(at_s, processes, 2.0, keys, 1, 100, 0, 5.0, 10)
    return replace(same, **changes)


def _at_rest(**changes: Any) -> Sample:
    keys = Keys({"business key": 5}, {"paused agents": 1}, ())
    return _sample(100, **({"keys": keys, "open_runs": 0, "known_runs": 0} | changes))


NOTHING = Evidence([], {}, {}, [])


def test_what_stays_as_it_was_is_no_problem() -> None:
    """A verdict that always complains would show nothing either."""
    samples = [_sample(at) for at in range(100)]
    ended = [Ended(at, "short", 40) for at in range(100)]
    seen = compared(samples, ended, 100, _at_rest())
    assert problems(seen, samples, _at_rest(), NOTHING) == []


@pytest.mark.parametrize(
    ("late", "what"),
    [
        ({"processes": {**_sample().processes, "steady worker": Process(111, 20, 10, 1)}}, "MB"),
        ({"processes": {**_sample().processes, "steady worker": Process(100, 23, 10, 1)}}, "files"),
        ({"redis_mb": 3.0}, "Redis, MB"),
        ({"keys": Keys({"run": 70}, {}, ())}, "keys that expire"),
        ({"keys": Keys({"run": 50}, {"run": 9}, ())}, "keys that stay"),
        ({"known_runs": 120}, "ended runs it knows"),
        ({"open_runs": 5}, "open runs"),
        ({"backlog": 3}, "tasks that wait"),
    ],
)
def test_whatever_grows_is_seen(late: dict[str, Any], what: str) -> None:
    """Of a soak that cannot fail nobody learns anything."""
    samples = [_sample(at, **(late if at >= 60 else {})) for at in range(100)]
    seen = compared(samples, [], 100, _at_rest())
    (problem,) = problems(seen, samples, _at_rest(), NOTHING)
    assert problem.startswith("grew: ")
    assert what in problem


@pytest.mark.parametrize(("late", "at_rest", "grown"), [(14, 10, 0), (10, 12, 1)])
def test_threads_that_stay_are_seen(late: int, at_rest: int, grown: int) -> None:
    """More of them while the machine is busy are none that leak; any that are left at rest are."""

    def threads(number: int) -> dict[str, Any]:
        steady = Process(rss_mb=100, files=20, threads=number, cpu_s=1)
        return {"processes": {**_sample().processes, "steady worker": steady}}

    samples = [_sample(at, **(threads(late) if at >= 60 else {})) for at in range(100)]
    rest = _at_rest(**threads(at_rest))
    found = problems(compared(samples, [], 100, rest), samples, rest, NOTHING)
    assert (len(found), all("steady worker, threads" in each for each in found)) == (grown, True)


def test_histories_that_grow_are_seen() -> None:
    """A run of the hour's end is as long as one of its beginning."""
    ended = [Ended(at, "short", 40 if at < 60 else 60) for at in range(100)]
    seen = compared([_sample(at) for at in range(100)], ended, 100, _at_rest())
    assert [each.what for each in seen if not each.ok] == ["history of 'short', events"]


@pytest.mark.parametrize(
    ("rest", "what"),
    [
        ({"keys": Keys({}, {"business key": 3}, ())}, "3 keys of kind 'business key'"),
        ({"keys": Keys({"result": 2}, {}, ())}, "2 keys of runs are left"),
        ({"known_runs": 1}, "1 ended runs are known to Temporal"),
        ({"open_runs": 1}, "1 runs are open"),
    ],
)
def test_what_is_there_at_rest_is_seen(rest: dict[str, Any], what: str) -> None:
    """Once no run is left, only what is listed may be."""
    (problem,) = problems([], [], _at_rest(**rest), NOTHING)
    assert what in problem


def test_a_key_that_leaks_for_a_moment_only_is_seen() -> None:
    """Every sample counts, not the last one alone."""
    leak = _sample(keys=Keys({}, {}, ("onward:{a:b}:live",)))
    assert problems([], [leak, _sample()], _at_rest(), NOTHING) == [
        "left behind: onward:{a:b}:live"
    ]


def _of(kind: str) -> Work:
    return work(next(number for number, each in enumerate(ROUND) if each == kind))


def test_an_effect_that_nobody_approved_and_a_second_one_are_seen() -> None:
    """Runs that were cancelled or terminated tell nothing, so the books alone judge them."""
    waited, cut = _of("terminated"), _of("cut off")
    (asked,), (under_way,) = waited.calls, cut.calls
    books = {asked.order: ["re_1"], under_way.order: ["re_2", "re_3"]}
    evidence = Evidence([Run(waited), Run(cut)], books, {}, [])
    assert problems([], [], _at_rest(), evidence) == [
        f"{asked.order}: 1 refunds, at most 0",
        f"{under_way.order}: 2 refunds, at most 1",
    ]


def test_a_run_that_ends_otherwise_is_seen() -> None:
    """A cancelled run that completes, or one that never ends, is a fault."""
    run = Run(_of("cancelled"), RunResult(outcome="completed", text="", steps=1))
    lost = Run(_of("approved"), trouble="TimeoutError: ")
    said = problems([], [], _at_rest(), Evidence([run, lost], {}, {}, []))
    assert any("should end 'cancelled', not 'completed'" in each for each in said)
    assert any("should end 'completed', not 'none'" in each for each in said)


# ---- the command


def test_kills_leave_the_second_half_of_each_interval_in_peace() -> None:
    """What a kill leaves behind is over before the next one; the same seed kills alike."""
    plan = Options(minutes=60, kill_every_s=60).plan
    assert len(plan) == 60
    assert all(60 * n <= fault.at_s < 60 * n + 30 for n, fault in enumerate(plan))
    assert plan == Options(minutes=60, kill_every_s=60).plan


def test_wrong_use_is_refused_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing starts where the data of another soak is."""
    (tmp_path / "faults.jsonl").touch()
    assert main(["--out", str(tmp_path)]) == 2
    assert "expected an empty folder" in capsys.readouterr().err
    assert main(["--minutes", "0"]) == 2


@pytest.mark.parametrize("command", [main, chaos.run.main])
def test_help_is_shown(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    """It ends with 0, as every command's help does."""
    assert command(["--help"]) == 0
    assert "Exit codes" in capsys.readouterr().out
