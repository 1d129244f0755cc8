"""Is anything left behind? The flow's late part against its early one, and what is at rest."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from chaos.audit import Evidence, audit
from chaos.conversations import PlannedCall
from chaos.soak.flow import Ended
from chaos.soak.samples import Process, Sample
from chaos.soak.work import Kind, Work
from chaos.traffic import Run
from onward.redis_server.keys import KINDS

_OUTCOMES: dict[Kind, str] = {"cancelled": "cancelled", "terminated": "none", "cut off": "none"}
"""How runs of a kind end; all others are completed, and `none` have no result."""
_FOR_EVER = {kind.name for kind in KINDS if kind.expires == "never"}
_EARLY, _LATE = (0.2, 0.4), (0.8, 1.0)
"""Parts of the flow that are compared. Before them caches fill, and no key has expired yet."""
_ROUGHLY = 1.1
"""What may be off: of keys and runs, which come and expire, by the saw's teeth."""


@dataclass(frozen=True)
class Compared:
    """One thing early and late: medians over a fifth of the flow."""

    what: str
    early: float
    late: float
    most: float | None
    """None: only told."""

    @property
    def ok(self) -> bool:
        """It did not grow."""
        return self.most is None or self.late <= self.most


def compared(
    samples: Sequence[Sample], ended: Sequence[Ended], flow_s: float, rest: Sample
) -> list[Compared]:
    """Compare everything that may grow; `rest` is what there was at the end."""
    early, late = (_part(samples, flow_s, part) for part in (_EARLY, _LATE))

    def pair(
        what: str, of: Callable[[Sample], float | None], *, factor: float = 1.0, more: float = 0.0
    ) -> Compared:
        before, after = _median(early, of), _median(late, of)
        return Compared(what, before, after, round(before * factor + more, 1))

    return [
        # Not exactly: it keeps a few conversations of runs that ended elsewhere, and Temporal's
        # worker keeps runs that were terminated; both up to a bound.
        pair("steady worker, MB", lambda s: _of(s, "steady worker").rss_mb, factor=_ROUGHLY),
        pair("steady worker, open files", lambda s: _of(s, "steady worker").files, more=2),
        _threads(early, rest),
        pair("Redis, MB in use", lambda s: s.redis_mb, factor=_ROUGHLY, more=0.3),
        pair("Redis, open files", lambda s: _of(s, "redis").files, more=2),
        pair("Redis, keys that expire", lambda s: sum(_lasting(s)), factor=_ROUGHLY, more=5),
        pair("Redis, keys that stay", lambda s: sum(s.keys.staying.values()), more=5),
        pair("Temporal, open runs", lambda s: s.open_runs, more=2),
        pair("Temporal, ended runs it knows", lambda s: s.known_runs, factor=_ROUGHLY, more=5),
        pair("Temporal, tasks that wait", lambda s: s.backlog, more=1),
        *_told(early, late),
        *_histories(ended, flow_s),
    ]


def _threads(early: Sequence[Sample], rest: Sample) -> Compared:
    """Compare them at rest: the more the machine has to do, the more the SDK has for a while."""
    before = _median(early, lambda s: _of(s, "steady worker").threads)
    after = _of(rest, "steady worker").threads
    return Compared("steady worker, threads (late: at rest)", before, after, before + 1)


def _told(early: Sequence[Sample], late: Sequence[Sample]) -> Iterator[Compared]:
    """Tell of what is not ours to keep small, or is kept on purpose."""
    told: dict[str, Callable[[Sample], float | None]] = {
        # It talks to itself over loopback, and keeps those connections.
        "Temporal, open files": lambda s: _of(s, "temporal").files,
        "Temporal, MB": lambda s: _of(s, "temporal").rss_mb,
        "Temporal, database, MB": lambda s: s.temporal_db_mb,
        "payload folder, files": lambda s: s.payload_files,
        "Redis, business keys": lambda s: s.keys.expiring.get("business key", 0),
    }
    for what, of in told.items():
        yield Compared(what, _median(early, of), _median(late, of), None)


def _histories(ended: Sequence[Ended], flow_s: float) -> Iterator[Compared]:
    events = defaultdict[str, tuple[list[int], list[int]]](lambda: ([], []))
    for each in ended:
        for at, part in enumerate((_EARLY, _LATE)):
            if _in(part, each.at_s, flow_s):
                events[each.kind][at].append(each.events)
    for kind, (early, late) in sorted(events.items()):
        if early and late:
            before = median(early)
            # A call that was killed and done again costs a workflow task.
            yield Compared(f"history of {kind!r}, events", before, median(late), before + 6)


def _part(samples: Sequence[Sample], flow_s: float, part: tuple[float, float]) -> list[Sample]:
    return [sample for sample in samples if _in(part, sample.at_s, flow_s)]


def _in(part: tuple[float, float], at_s: float, flow_s: float) -> bool:
    return part[0] * flow_s <= at_s < part[1] * flow_s


def _median(samples: Sequence[Sample], of: Callable[[Sample], float | None]) -> float:
    return round(median(value for each in samples if (value := of(each)) is not None), 2)


def _of(sample: Sample, name: str) -> Process:
    return sample.processes[name]


def _lasting(sample: Sample) -> Iterator[int]:
    """Count the keys that go within minutes; business keys are remembered for 90 days."""
    return (n for kind, n in sample.keys.expiring.items() if kind != "business key")


# ---- what must hold


def problems(
    compared: Sequence[Compared], samples: Sequence[Sample], rest: Sample, evidence: Evidence
) -> list[str]:
    """Say in a sentence each what is not as it should be; `rest` is what there was at the end."""
    return [
        *(f"grew: {c.what}: {c.early} early, {c.late} late" for c in compared if not c.ok),
        *(f"left behind: {key}" for key in {k for s in samples for k in s.keys.left_behind}),
        *_at_rest(rest),
        *_books(evidence),
    ]


def _at_rest(rest: Sample) -> Iterator[str]:
    for kind, number in rest.keys.staying.items():
        if kind not in _FOR_EVER:
            yield f"at rest: {number} keys of kind {kind!r} have no expiry"
    waits = {
        "runs are open": rest.open_runs,
        "ended runs are known to Temporal": rest.known_runs,
        "tasks wait": rest.backlog,
        "keys of runs are left": sum(rest.keys.expiring.get(k, 0) for k in ("run", "result")),
    }
    yield from (f"at rest: {number} {what}" for what, number in waits.items() if number)


def _books(evidence: Evidence) -> Iterator[str]:
    told = [run for run in evidence.runs if _work(run).kind not in _OUTCOMES]
    whole = Evidence(told, evidence.refunds, evidence.spans, evidence.struck)
    yield from audit(whole).problems
    for run in evidence.runs:
        yield from _ended_otherwise(run)
        if _work(run).kind in _OUTCOMES:
            yield from _made_too_often(run, evidence.refunds)


def _ended_otherwise(run: Run) -> Iterator[str]:
    found = run.result.outcome if run.result else "none"
    meant = _OUTCOMES.get(_work(run).kind, "completed")
    if found != meant or run.trouble:
        yield f"run {run.conversation.name} should end {meant!r}, not {found!r}: {run}"


def _made_too_often(run: Run, refunds: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A call that nobody approved must not happen, one that was cut off may have, once."""
    for call in run.conversation.calls:
        made, most = len(refunds.get(call.order, ())), _most(call)
        if made > most:
            yield f"{call.order}: {made} refunds, at most {most}"


def _most(call: PlannedCall) -> int:
    return 0 if call.tool == "approved_refund" else 1


def _work(run: Run) -> Work:
    assert isinstance(run.conversation, Work), "the soak's runs do the soak's work"
    return run.conversation
