"""The long run of the kill matrix: many trials of every cell, to be stopped and resumed at will.

    python tests/kill_matrix_long.py --state DIR --minutes 60
    python tests/kill_matrix_long.py --state DIR --cells f6:keyed:kill --seed 123     one trial

Each trial is a line in DIR/trials.jsonl; what is there is not done again. Exit code 1: one failed.
"""
# ruff: noqa: T201  (a command prints)

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import cyclopts
from agent_runs import Bench, connected
from kill_cells import ACTIONS, Action, Cell
from kill_trial import Stage, Trial
from kill_victim import Servers
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from onward.local_services import redis_server, temporal_server
from onward.testing import payments_service
from onward.testing.messages_api import ScriptedAPI

_TRIALS_PER_STAGE = 432
"""Then the servers are made anew, so that what they hold does not grow."""


@dataclass
class Diary:
    """What was tried so far: a line for each trial in a file."""

    file: Path
    done: Counter[Cell] = field(default_factory=Counter[Cell])
    failed: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def __post_init__(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.touch()
        for line in self.file.read_text().splitlines():
            told = json.loads(line)
            self._count(Trial(Cell.parse(told["cell"]), told["seed"]), told["problems"])

    def note(self, trial: Trial, problems: list[str]) -> None:
        """Keep how a trial ended."""
        self._count(trial, problems)
        told = {"cell": str(trial.cell), "seed": trial.seed, "problems": problems}
        with self.file.open("a") as lines:
            lines.write(json.dumps(told) + "\n")

    def _count(self, trial: Trial, problems: list[str]) -> None:
        self.done[trial.cell] += 1
        if problems:
            self.failed[str(trial)] = problems

    def left(self, wanted: dict[Action, int], cells: list[Cell]) -> list[Cell]:
        """Return the cells to strike next: a round of all that still lack trials, and so on."""
        lacking = {cell: max(0, wanted[cell.action] - self.done[cell]) for cell in cells}
        rounds = range(max(lacking.values(), default=0))
        return [cell for n in rounds for cell in cells if n < lacking[cell]]

    def figures(self) -> dict[str, object]:
        """Return the totals, and the bounds that they support (rule of three, at 95 %)."""
        by_action = {action: self._of(action) for action in ACTIONS}
        return {"trials": self.done.total(), "failed": len(self.failed), **by_action}

    def _of(self, action: Action) -> dict[str, float]:
        counts = [self.done[cell] for cell in Cell.all() if cell.action == action]
        fewest, total = min(counts), sum(counts)
        return {
            "cells": len(counts),
            "trials": total,
            "fewest_in_a_cell": fewest,
            "bound_of_a_cell": round(3 / fewest, 4) if fewest else 1.0,
            "bound_of_the_mix": round(3 / total, 6) if total else 1.0,
        }


@asynccontextmanager
async def open_stage() -> AsyncGenerator[Stage]:
    """Start servers for some hundred trials."""
    with TemporaryDirectory(prefix="kill-matrix-") as made:
        folder = Path(made)
        async with (
            temporal_server(None, ui=False) as temporal,
            redis_server(None) as redis,
            payments_service(folder / "payments.db") as payments,
            ScriptedAPI({}) as api,
            connected(redis.url) as client,
        ):
            converter = pydantic_data_converter
            connection = await Client.connect(temporal.address, data_converter=converter)
            bench = Bench(connection, client, api)
            stage = Stage(bench, Servers(temporal.address, redis.url, api.url), payments, folder)
            os.environ.update(stage.env)
            yield stage


async def strike(trials: Iterator[Trial], diary: Diary, jobs: int, ends: float) -> None:
    """Run trials, `jobs` at a time, until there are no more or the time is over."""
    async with open_stage() as stage, asyncio.TaskGroup() as group:
        for _ in range(jobs):
            group.create_task(_lane(stage, trials, diary, ends))


async def _lane(stage: Stage, trials: Iterator[Trial], diary: Diary, ends: float) -> None:
    for trial in trials:
        if time.monotonic() > ends:
            return
        problems = await trial.problems(stage)
        diary.note(trial, problems)
        if problems:
            print(f"FAILED {trial}: {'; '.join(problems)}", flush=True)


def main(
    *,
    state: Path,
    cells: list[str] | None = None,
    kills: int = 100,
    pauses: int = 20,
    raises: int = 20,
    minutes: float = 60.0,
    jobs: int = 24,
    seed: int | None = None,
    figures: Path | None = None,
) -> int:
    """Strike every cell so many times.

    Args:
        state: Folder with what was tried so far.
        cells: Only these, as `f6:keyed:kill`.
        kills: Trials wanted of each cell that kills.
        pauses: Of each that pauses.
        raises: Of each that raises.
        minutes: Stop after so long; the same command goes on.
        jobs: Trials beside each other: most of a trial is waiting.
        seed: Of one trial to be done again.
        figures: File for the totals.

    """
    diary, ends = Diary(state / "trials.jsonl"), time.monotonic() + minutes * 60
    chosen = [Cell.parse(text) for text in cells or []] or Cell.all()
    wanted: dict[Action, int] = {"kill": kills, "pause": pauses, "raise": raises}
    seeds: Callable[[], int] = (lambda: random.getrandbits(32)) if seed is None else lambda: seed
    left = diary.left(wanted, chosen) if seed is None else chosen
    began = time.monotonic()
    for start in range(0, len(left), _TRIALS_PER_STAGE):
        if time.monotonic() > ends:
            break
        batch = left[start : start + _TRIALS_PER_STAGE]
        asyncio.run(strike((Trial(cell, seeds()) for cell in batch), diary, jobs, ends))
        spent = (time.monotonic() - began) / 60
        print(
            f"{diary.done.total()} trials, {len(diary.failed)} failed, {spent:.1f} min", flush=True
        )
    text = json.dumps(diary.figures(), indent=2)
    print(text)
    if figures:
        figures.write_text(text + "\n")
    return 1 if diary.failed else 0


if __name__ == "__main__":
    app = cyclopts.App(result_action="return_value")
    app.default(main)
    sys.exit(app())
