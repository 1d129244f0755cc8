"""What the long run of the kill matrix has tried so far, and what that supports."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kill_cells import ACTIONS, Action, Cell
from kill_trial import Trial


@dataclass
class Diary:
    """A file with a line for each trial; read when it is opened."""

    file: Path
    earlier: Path | None = None
    """Figures of a run whose file is gone: its trials count too."""
    done: Counter[Cell] = field(default_factory=Counter[Cell])
    commits: set[str] = field(default_factory=set[str])
    failed: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By trial: what was not as it must be."""

    def __post_init__(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.touch()
        if self.earlier is not None:
            told = json.loads(self.earlier.read_text())
            self.done.update({Cell.parse(cell): count for cell, count in told["done"].items()})
            self.commits.update(told["commits"])
            self.failed.update(told["failed"])
        for line in self.file.read_text().splitlines():
            self._count(**json.loads(line))

    def __str__(self) -> str:
        return f"{self.done.total()} trials, {len(self.failed)} failed"

    def note(self, trial: Trial, problems: list[str], commit: str) -> None:
        """Keep how a trial of a commit ended."""
        told: dict[str, Any] = {"cell": str(trial.cell), "seed": trial.seed, "commit": commit}
        told["problems"] = problems
        self._count(**told)
        with self.file.open("a") as lines:
            lines.write(json.dumps(told) + "\n")

    def _count(self, cell: str, seed: int, commit: str, problems: list[str]) -> None:
        self.done[Cell.parse(cell)] += 1
        self.commits.add(commit)
        if problems:
            self.failed[f"{cell} seed {seed}"] = problems

    def left(self, wanted: dict[Action, int], cells: list[Cell]) -> list[Cell]:
        """Return the cells to strike next: a round of all that still lack trials, and so on."""
        lacking = {cell: max(0, wanted[cell.action] - self.done[cell]) for cell in cells}
        rounds = range(max(lacking.values(), default=0))
        return [cell for n in rounds for cell in cells if n < lacking[cell]]

    def figures(self) -> dict[str, Any]:
        """Return the totals, and the bounds that they support (rule of three, at 95 %)."""
        figures: dict[str, Any] = {
            "commits": sorted(self.commits),
            "trials": self.done.total(),
            "failed": self.failed,
            "done": {str(cell): count for cell, count in self.done.items()},
        }
        return figures | {action: self._of(action) for action in ACTIONS}

    def _of(self, action: Action) -> dict[str, Any]:
        counts = [self.done[cell] for cell in Cell.all() if cell.action == action]
        return {
            "cells": len(counts),
            "trials": sum(counts),
            "fewest_in_a_cell": min(counts),
            "bound_of_a_cell": self._bound(min(counts)),
            "bound_of_the_mix": self._bound(sum(counts)),
        }

    def _bound(self, trials: int) -> float | None:
        """Return the share that goes wrong at most; None where that cannot be said."""
        return None if self.failed or not trials else round(min(1, 3 / trials), 6)
