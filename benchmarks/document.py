"""Write the committed figures into the docs: the tables of pages, and the plots they show.

python -m benchmarks.document            # the plots need matplotlib: make peers
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import aims, caching, long_run, peers, plots, rate_limits, throughput
from benchmarks.bed import say
from chaos.soak import report as soak
from onward.errors import OnwardError, UsageError

DOCS = Path(__file__).parent.parent / "docs"
PAGES = (DOCS / "performance.md", DOCS / "caching.md", DOCS / "rate-limits.md")
FIGURES = DOCS / "figures"

_MADE_ELSEWHERE = {"soak": "chaos.soak"}
_TABLES: Mapping[str, Callable[[], str]] = {
    "aims": lambda: aims.table(figures("peers"), figures("throughput")),
    "peers": lambda: peers.table(figures("peers")),
    "throughput": lambda: throughput.table(figures("throughput")),
    "long-run": lambda: long_run.table([figures("long-run"), figures("long-run-10000")]),
    "caching": lambda: caching.table(figures("caching")),
    "rate-limits": lambda: rate_limits.table(figures("rate-limits")),
    "soak": lambda: soak.table(figures("soak")),
}


def documented(page: str) -> str:
    """Return the page with each marked table made anew from its figures."""
    for name, table in _TABLES.items():
        before, begins, rest = page.partition(f"<!-- {name} -->\n")
        _, ends, after = rest.partition(f"<!-- /{name} -->\n")
        page = f"{before}{begins}{table()}{ends}{after}" if begins else page
    return page


def figures(name: str) -> Any:
    """Read committed figures. Raises UsageError where there are none."""
    file = FIGURES / f"{name}.json"
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        module = _MADE_ELSEWHERE.get(name, f"benchmarks.{name.replace('-', '_')}")
        raise UsageError(
            f"found no figures in {str(file)!r} ({error}). "
            f"Make them with `python -m {module} --json >{file}`"
        ) from error


def main(arguments: list[str] | None = None) -> int:
    """Write pages and plots; returns 1 where figures or matplotlib are missing."""
    words = (__doc__ or "").splitlines()[0]
    argparse.ArgumentParser("benchmarks.document", description=words).parse_args(arguments)
    try:
        pages = {page: documented(page.read_text(encoding="utf-8")) for page in PAGES}
        for page, text in pages.items():
            page.write_text(text, encoding="utf-8")
        plots.peers(figures("peers"), FIGURES)
        plots.soak(figures("soak"), FIGURES)
    except OnwardError as error:
        say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
