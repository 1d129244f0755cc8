"""What was aimed at, and what the committed figures say of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Found = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Aim:
    """A ratio, and where it should be."""

    says: str
    at_most: float | None
    at_least: float | None
    reached: float | None
    """None: the figures do not tell."""

    @property
    def met(self) -> bool:
        """Whether the figures reach it."""
        if self.reached is None:
            return False
        above = self.at_most is None or self.reached <= self.at_most
        return above and (self.at_least is None or self.reached >= self.at_least)


def aims(peers: Found, throughput: Found) -> list[Aim]:
    """Hold the figures of both benchmarks against what was aimed at."""
    return [
        Aim(
            "`look`, 50 steps: time per step, to the usual pattern's",
            *(0.8, None, _time_ratio(peers, "look", 50, "usual_pattern")),
        ),
        Aim(
            "`look`, 150 steps: time per step, to pydantic-ai's",
            *(0.5, None, _time_ratio(peers, "look", 150, "pydantic_ai")),
        ),
        Aim(
            "`look`, 500 steps: time per step over the bare client's, last tenth to first",
            *(1.3, None, _growth(peers)),
        ),
        Aim(
            "`book`, where both live: time per step, to the usual pattern's, at worst",
            *(1.2, None, _worst_effect(peers)),
        ),
        Aim(
            "`look`, 50 runs at once: steps per second, to the usual pattern's",
            *(None, 1.3, _throughput_ratio(throughput)),
        ),
    ]


def table(peers: Found, throughput: Found) -> str:
    """Make the table of `docs/performance.md`, as Markdown."""
    lines = ["| | aim | reached | |", "|---|---|---|---|"]
    for aim in aims(peers, throughput):
        wanted = f"≥ {aim.at_least}" if aim.at_most is None else f"≤ {aim.at_most}"
        reached = "not measured" if aim.reached is None else f"{aim.reached:.2f}"
        lines.append(f"| {aim.says} | {wanted} | {reached} | {'yes' if aim.met else 'no'} |")
    return "\n".join(lines) + "\n"


def _time_ratio(peers: Found, tool: str, steps: int, other: str) -> float | None:
    ours, theirs = (
        _one(peers, contender=contender, tool=tool, steps=steps, value="ms_per_step")
        for contender in ("onward", other)
    )
    return _ratio(ours, theirs)


def _worst_effect(peers: Found) -> float | None:
    counts = {cell["steps"] for cell in peers}
    ratios = [_time_ratio(peers, "book", count, "usual_pattern") for count in counts]
    return max((ratio for ratio in ratios if ratio is not None), default=None)


def _growth(peers: Found) -> float | None:
    def over_bare(tenth: str) -> float | None:
        ours, bare = (
            _one(peers, contender=contender, tool="look", steps=500, value=tenth)
            for contender in ("onward", "bare_client")
        )
        return None if ours is None or bare is None else ours - bare

    return _ratio(over_bare("ms_per_step_last_tenth"), over_bare("ms_per_step_first_tenth"))


def _throughput_ratio(throughput: Found) -> float | None:
    ours, theirs = (
        _one(throughput, contender=contender, tool="look", runs=50, value="steps_per_s")
        for contender in ("onward", "usual_pattern")
    )
    return _ratio(ours, theirs)


def _one(found: Found, *, value: str, **fields: Any) -> float | None:
    def fits(row: dict[str, Any]) -> bool:
        return all(row[name] == wanted for name, wanted in fields.items())

    return next((row[value] for row in found if fits(row)), None)


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or not theirs else round(ours / theirs, 2)
