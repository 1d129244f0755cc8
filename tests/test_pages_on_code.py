"""The pages for who changes Onward are true: what takes minutes is planned, or done small."""

import asyncio
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pages import ROOT, Reader

PLANNED = {"make ": f"cd {ROOT} && make -n ", ".venv/bin/pytest": f"cd {ROOT} && pytest --co -q"}
"""What a plan is typed as."""


def those_in(command: str, changes: Mapping[str, str]) -> dict[str, str]:
    """Those changes that a command has a place for."""
    return {old: new for old, new in changes.items() if old in command}


async def test_contributing(tmp_path: Path) -> None:
    """Every target of make is there, every test that is named can be collected."""
    reader = Reader("CONTRIBUTING.md", tmp_path)
    commands = sorted(reader.untyped())
    said = await asyncio.gather(*(reader.types(c, those_in(c, PLANNED)) for c in commands))
    assert [each.status for each in said] == [0] * len(commands), said
    assert reader.untyped() == set()


SMALL = {
    "caching.py": "caching.py --steps 3",
    "peers.py": "peers.py --without pydantic_ai --without usual_pattern --steps 3 --rounds 1",
    "throughput.py": "throughput.py --runs 2 --steps 2 --rounds 1",
    "--minutes 60": "--minutes 0.5 --rest-minutes 3.6",
    "--steps 1000 --result-bytes 16384": "--steps 10 --result-bytes 1024",
}
"""Benchmarks with numbers that take seconds."""


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", ["docs/caching.md", "docs/performance.md"])
async def test_benchmarks(page: str, tmp_path: Path) -> None:
    """Each command measures and writes the figures that it names; then tables can be made of them.

    In a copy of the checkout: the committed figures stay.
    """
    for folder in ("benchmarks", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    reader = Reader(page, tmp_path, {"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    for command in [each for each in reader.untyped() if "benchmarks.document" not in each]:
        said = await reader.types(command, those_in(command, PLANNED | SMALL), 300)
        assert said.status == 0, said.output
        if " > docs/figures/" in command:
            assert json.loads((tmp_path / command.split(" > ")[1]).read_text())
    (document,) = (each for each in reader.untyped() if "benchmarks.document" in each)
    written = await reader.types(document)
    assert written.status == 0 or "matplotlib" in written.output, written.output
    assert reader.untyped() == set()
