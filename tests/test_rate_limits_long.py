"""Minutes at an API's limits, in `make test-long`; the figures are kept in ONWARD_FIGURES."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.bed import as_json, bed
from benchmarks.rate_limits import LIMITS, Used, measure

MINUTES = 4
COMMITTED = Path(__file__).parent.parent / "docs" / "figures" / "rate-limits.json"


@pytest.mark.long
@pytest.mark.timeout(MINUTES * len(LIMITS) * 60 + 120)
async def test_after_the_first_minute_nothing_is_refused_and_95_percent_are_used() -> None:
    """Two worker processes, replies of all lengths, nothing configured: whichever is scarce."""
    async with bed() as servers:
        found = [await measure(servers, scarce, MINUTES) for scarce in LIMITS]
    _keep(found)
    assert [each.refused_later for each in found] == [0, 0, 0]
    assert min(each.used_share for each in found) >= 0.95


def _keep(found: Sequence[Used]) -> None:
    if folder := os.environ.get("ONWARD_FIGURES"):
        text = as_json([asdict(each) for each in found])
        Path(folder, "rate-limits.json").write_text(text, encoding="utf-8")


def test_the_committed_figures_are_those_that_are_promised() -> None:
    """What the page shows was measured for every limit, and keeps the promise."""
    found = json.loads(COMMITTED.read_text(encoding="utf-8"))
    assert [each["scarce"] for each in found] == list(LIMITS)
    assert all(each["refused_later"] == 0 and each["used_share"] >= 0.95 for each in found)
