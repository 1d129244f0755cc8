"""What a soak says at its end: one JSON object, or the same for people."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from chaos.soak.samples import Process, Sample
from chaos.soak.verdict import Compared
from onward.console import Output

_SHOWN_PROBLEMS = 20


@dataclass(frozen=True)
class Report:
    """The fields are the keys of `--json`."""

    minutes: float
    runs: int
    runs_by_kind: Mapping[str, int]
    kills: int
    effects: int
    """Refunds in the books."""
    doubts: int
    ok: bool
    problems: Sequence[str]
    compared: Sequence[Mapping[str, Any]]
    at_rest: Mapping[str, Any]
    """What was there when no run was left, and Temporal had forgotten all of them."""
    curve: Sequence[Mapping[str, float]]
    """Medians of each minute."""


def told(compared: Sequence[Compared]) -> list[dict[str, Any]]:
    """Return what was compared as it is told."""
    return [asdict(each) | {"ok": each.ok} for each in compared]


def at_rest(sample: Sample) -> dict[str, Any]:
    """Return what is left of a sample that is worth telling."""
    return {
        "after_s": sample.at_s,
        "keys_that_expire": dict(sorted(sample.keys.expiring.items())),
        "keys_that_stay": dict(sorted(sample.keys.staying.items())),
        "redis_mb": sample.redis_mb,
        "open_runs": sample.open_runs,
        "known_runs": sample.known_runs,
        "processes": {name: asdict(each) for name, each in sample.processes.items()},
    }


def curve(samples: Sequence[Sample]) -> list[dict[str, float]]:
    """Take the medians of each minute."""
    minutes = sorted({int(sample.at_s // 60) for sample in samples})
    return [
        {"minute": minute}
        | _point([sample for sample in samples if int(sample.at_s // 60) == minute])
        for minute in minutes
    ]


def _point(samples: Sequence[Sample]) -> dict[str, float]:
    return {
        "steady_worker_mb": median(_of(each, "steady worker").rss_mb for each in samples),
        "steady_worker_files": median(_of(each, "steady worker").files for each in samples),
        "steady_worker_threads": median(_of(each, "steady worker").threads for each in samples),
        "redis_mb": median(each.redis_mb for each in samples),
        "temporal_mb": median(_of(each, "temporal").rss_mb for each in samples),
        "temporal_db_mb": median(each.temporal_db_mb for each in samples),
        "keys": median(sum(each.keys.expiring.values()) for each in samples),
        "keys_that_stay": median(sum(each.keys.staying.values()) for each in samples),
        "known_runs": median(each.known_runs for each in samples),
        "open_runs": median(each.open_runs for each in samples),
    }


def _of(sample: Sample, name: str) -> Process:
    return sample.processes[name]


def by_kind(kinds: Sequence[str]) -> dict[str, int]:
    """Count the runs of each kind."""
    return dict(sorted(Counter(kinds).items()))


def table(found: Mapping[str, Any]) -> str:
    """Make the table of `docs/performance.md` of what `--json` prints."""
    rows = [
        f"| {each['what']} | {each['early']:,} | {each['late']:,} | {_most(each['most'])} |"
        for each in found["compared"]
    ]
    lines = [
        _sentence(found),
        "",
        "| | early | late | at most |",
        "|---|---:|---:|---:|",
        *rows,
        "",
        _rest(found["at_rest"]),
    ]
    return "\n".join(lines) + "\n"


def _sentence(found: Mapping[str, Any]) -> str:
    wrong = len(found["problems"])
    return (
        f"{found['runs']:,} runs in {found['minutes']:g} minutes, {found['kills']} kills, "
        f"{found['effects']:,} effects, {found['doubts']} runs with a call in doubt; {wrong} wrong."
    )


def _rest(rest: Mapping[str, Any]) -> str:
    stay = sum(rest["keys_that_stay"].values())
    expire = ", ".join(f"{number} {kind}" for kind, number in rest["keys_that_expire"].items())
    return (
        f"At rest: {rest['open_runs']} open runs, {rest['known_runs']} that Temporal still knows; "
        f"keys in Redis without an expiry: {stay}; with one: {expire}."
    )


def _most(most: float | None) -> str:
    return "" if most is None else f"{most:,}"


def show(found: Report, output: Output) -> None:
    """Say it for people."""
    output.facts(
        [
            ("runs", f"{found.runs:,} in {found.minutes:g} minutes: {found.runs_by_kind}"),
            ("kills", f"{found.kills}"),
            ("effects", f"{found.effects:,}, {found.doubts} runs with doubts"),
        ]
    )
    for each in found.compared:
        most = "" if each["most"] is None else f" (at most {each['most']})"
        output.result(f"{each['what']:40} {each['early']:>10} -> {each['late']:>10}{most}")
    output.result(f"at rest: {found.at_rest}")
    for problem in found.problems[:_SHOWN_PROBLEMS]:
        output.result(f"WRONG  {problem}")
    output.result("Nothing is left behind." if found.ok else "The soak FAILS.")
