"""Ten thousand steps, once: `make test-long`, or with its figures kept in ONWARD_FIGURES."""

import os
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.bed import as_json, bed
from benchmarks.long_run import LongRun, measure

STEPS, RESULT_BYTES = 10_000, 1024
STEP_BYTES = 2_500
"""Of history that a step may add beside what was said."""


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
async def test_ten_thousand_steps_end_well_and_cost_what_is_said() -> None:
    """A run has no wall: history and what is carried over are linear, and memory is bounded."""
    async with bed() as servers:
        found = await measure(servers, STEPS, RESULT_BYTES, bare=False)
    _keep(found)
    assert (found.steps, found.finished, found.died) == (STEPS, True, "")
    assert found.requests == STEPS
    assert found.history_bytes <= found.content_bytes + STEP_BYTES * STEPS
    assert found.carried_bytes <= found.content_bytes
    # The conversation as text, the request made of it, and what a worker needs at rest.
    assert found.worker_peak_mb * 1e6 <= 300e6 + 10 * found.content_bytes


def _keep(found: LongRun) -> None:
    if folder := os.environ.get("ONWARD_FIGURES"):
        Path(folder, "long-run-10000.json").write_text(as_json(asdict(found)), encoding="utf-8")
