"""The long run of the kill matrix: many trials of every cell, to be stopped and resumed at will.

    python tests/kill_matrix_long.py --state DIR --minutes 60
    python tests/kill_matrix_long.py --state DIR --cells f6:keyed:kill --seed 123     one trial
    python tests/kill_matrix_long.py --state DIR --earlier docs/figures/kill-matrix.json …

Each trial is a line in DIR/trials.jsonl; what is there is not done again. Exit code 1: one failed.
"""
# ruff: noqa: T201  (a command prints)

import asyncio
import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import cyclopts
from agent_runs import Bench, connected
from kill_cells import Action, Cell
from kill_diary import Diary
from kill_trial import Stage, Trial
from kill_victim import Servers
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from onward.local_services import redis_server, temporal_server
from onward.testing import payments_service
from onward.testing.messages_api import ScriptedAPI

_TRIALS_PER_STAGE = 432
"""Then the servers are made anew, so that what they hold does not grow."""
_DEADLINE_S = 900.0
"""The run has time, and may be the last that its machine has time for."""


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
            servers = Servers(temporal.address, redis.url, api.url)
            stage = Stage(bench, servers, payments, folder, _DEADLINE_S)
            os.environ.update(stage.env)
            yield stage


async def strike(trials: Iterator[Trial], diary: Diary, jobs: int, ends: float) -> None:
    """Run trials, `jobs` at a time, until there are no more, the time is over, or SIGTERM comes.

    Raises asyncio.CancelledError at SIGTERM, when no server and no folder is left.
    """
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with open_stage() as stage, asyncio.TaskGroup() as group:
        for _ in range(jobs):
            group.create_task(_lane(stage, trials, diary, ends))


async def _lane(stage: Stage, trials: Iterator[Trial], diary: Diary, ends: float) -> None:
    commit = _commit()
    for trial in trials:
        if time.monotonic() > ends:
            return
        problems = await trial.problems(stage)
        diary.note(trial, problems, commit)
        if problems:
            print(f"FAILED {trial}: {'; '.join(problems)}", flush=True)


def _commit() -> str:
    """Return which commit this is."""
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def _strike_all(trials: list[Trial], diary: Diary, jobs: int, ends: float) -> None:
    for start in range(0, len(trials), _TRIALS_PER_STAGE):
        if time.monotonic() < ends:
            batch = iter(trials[start : start + _TRIALS_PER_STAGE])
            asyncio.run(strike(batch, diary, jobs, ends))
            print(f"{time.ctime()}: {diary}", flush=True)


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
    earlier: Path | None = None,
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
        earlier: Figures of a run whose state is gone: what it tried is not done again.
        figures: File for the totals.

    """
    logging.disable()  # attempts that fail are what the trials are made of
    diary, ends = Diary(state / "trials.jsonl", earlier), time.monotonic() + minutes * 60
    chosen = [Cell.parse(text) for text in cells or []] or Cell.all()
    wanted: dict[Action, int] = {"kill": kills, "pause": pauses, "raise": raises}
    seeds: Callable[[], int] = (lambda: random.getrandbits(32)) if seed is None else lambda: seed
    left = diary.left(wanted, chosen) if seed is None else chosen
    with suppress(asyncio.CancelledError):
        _strike_all([Trial(cell, seeds()) for cell in left], diary, jobs, ends)
    print(diary)
    if figures:
        figures.write_text(json.dumps(diary.figures(), indent=2) + "\n")
    return 1 if diary.failed else 0


if __name__ == "__main__":
    app = cyclopts.App(result_action="return_value")
    app.default(main)
    sys.exit(app())
