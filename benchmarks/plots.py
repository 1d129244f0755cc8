"""The plots of docs/performance.md, from the figures that benchmarks print."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.contenders import EVERY
from onward.errors import UsageError

Found = Sequence[dict[str, Any]]
_SIZE_INCHES = (7.2, 3.6)
_TENTH = 10
_SOAK = {
    "MB": {
        "steady_worker_mb": "worker that is never killed",
        "temporal_mb": "Temporal",
        "redis_mb": "Redis, in use",
    },
    "number": {
        "keys": "keys in Redis that expire",
        "keys_that_stay": "keys in Redis that stay",
        "known_runs": "ended runs that Temporal knows",
    },
}
"""Curves of each plot: the names in the figures, and ours."""


def peers(found: Found, folder: Path) -> None:
    """Write `peers-time.svg` and `peers-history.svg`. Raises UsageError without matplotlib."""
    _refuse_missing()
    longest = max(cell["steps"] for cell in found)
    _draw(folder / "peers-time.svg", found, "ms per step", _time, steps=longest)
    _draw(folder / "peers-history.svg", found, "history, MB", _history, steps=None)


def soak(found: dict[str, Any], folder: Path) -> None:
    """Write `soak.svg`. Raises UsageError without matplotlib."""
    _refuse_missing()
    plt = _plt()
    figure, axes = plt.subplots(1, 2, figsize=_SIZE_INCHES, layout="constrained")
    for axis, (label, curves) in zip(axes, _SOAK.items(), strict=True):
        for name, title in curves.items():
            minutes = [point["minute"] for point in found["curve"]]
            axis.plot(minutes, [point[name] for point in found["curve"]], label=title)
        axis.axvline(found["minutes"], color="grey", linewidth=0.8, linestyle=":")
        axis.set(xlabel="minute; no new runs from the line on", ylabel=label, ylim=(0, None))
        axis.grid(visible=True, alpha=0.3)
        axis.legend(frameon=False)
    _write(figure, folder / "soak.svg")


def _refuse_missing() -> None:
    if find_spec("matplotlib") is None:
        raise UsageError("plots need the package 'matplotlib'; run `make peers`")


def _plt() -> Any:
    plt: Any = import_module("matplotlib.pyplot")
    # The same figures must make the same file, or each run would show in version control.
    plt.rcParams.update({"svg.hashsalt": "onward", "svg.fonttype": "none", "font.size": 9})
    return plt


def _write(figure: Any, file: Path) -> None:
    figure.savefig(file, metadata={"Date": None})
    _plt().close(figure)


def _draw(file: Path, found: Found, label: str, points: Any, *, steps: int | None) -> None:
    figure, axes = _plt().subplots(1, 2, figsize=_SIZE_INCHES, sharey=True, layout="constrained")
    for axis, tool in zip(axes, ("look", "book"), strict=True):
        for contender in EVERY:
            cells = [c for c in found if (c["tool"], c["contender"]) == (tool, contender.name)]
            points(axis, contender.title, [c for c in cells if steps in (None, c["steps"])])
        axis.set(title=f"tool `{tool}`", xlabel="step", yscale="log")
        axis.grid(visible=True, alpha=0.3)
    axes[0].set_ylabel(label)
    axes[1].legend(frameon=False)
    _write(figure, file)


def _time(axis: Any, title: str, cells: Found) -> None:
    for cell in cells:
        tenths = range(len(cell["curve_ms"]))
        at = [(tenth + 0.5) * cell["answered"] / _TENTH for tenth in tenths]
        (line,) = axis.plot(at, cell["curve_ms"], label=title)
        _mark_death(axis, cell, at[-1], cell["curve_ms"][-1], line)


def _history(axis: Any, title: str, cells: Found) -> None:
    grown = [cell for cell in cells if cell["history_bytes"]]
    if not grown:
        axis.plot([], [])  # the bare client has none; the others keep their colours
        return
    at = [cell["answered"] for cell in grown]
    megabytes = [cell["history_bytes"] / 1e6 for cell in grown]
    (line,) = axis.plot(at, megabytes, marker=".", label=title)
    _mark_death(axis, grown[-1], at[-1], megabytes[-1], line)


def _mark_death(axis: Any, cell: dict[str, Any], x: float, y: float, line: Any) -> None:
    if cell["died"]:
        axis.plot([x], [y], marker="x", markersize=9, color=line.get_color())
