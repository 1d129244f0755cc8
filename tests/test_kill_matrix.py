"""Twelve points x six classes x kill, pause, raise: each cell is struck once, a point at a time.

`kill_trial.py` is one trial, `kill_matrix_long.py` the run that strikes every cell often.
"""

import asyncio
import random
from pathlib import Path

import pytest
from agent_runs import Bench
from kill_cells import Cell
from kill_trial import Stage, Trial
from kill_victim import Servers

from onward.failpoints import POINTS
from onward.local_services import TemporalServer
from onward.testing import PaymentsProcess

pytestmark = [pytest.mark.crash, pytest.mark.timeout(240)]


@pytest.fixture
def servers(bench: Bench, temporal: TemporalServer, redis_url: str) -> Servers:
    """Say where a victim finds its servers."""
    return Servers(temporal.address, redis_url, bench.api.url)


@pytest.fixture
def stage(
    bench: Bench,
    servers: Servers,
    payments: PaymentsProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Stage:
    """Lay out what trials share; the successors run in this process."""
    stage = Stage(bench, servers, payments, tmp_path)
    for name, value in stage.env.items():
        monkeypatch.setenv(name, value)
    return stage


@pytest.mark.field("D06")
@pytest.mark.parametrize("point", POINTS)
async def test_no_fault_repeats_or_loses_an_effect(stage: Stage, point: str) -> None:
    """The run completes, and every call ends as its class promises.

    The effect happened once and Claude has its result; or, of `at_most_once`, the fault struck
    between claim and record, the call is in doubt, and it happened at most once.
    """
    trials = [Trial(cell, random.getrandbits(32)) for cell in Cell.all() if cell.point == point]
    found = await asyncio.gather(*(trial.problems(stage) for trial in trials))
    ends = dict(zip(trials, found, strict=True))
    wrong = {str(trial): problems for trial, problems in ends.items() if problems}
    assert not wrong, f"one alone: tests/kill_matrix_long.py --cells CELL --seed SEED\n{wrong}"
