"""Write the committed figures into docs/performance.md: its tables, and the plots it shows.

python -m benchmarks.document            # the plots need matplotlib: make peers
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import aims, long_run, peers, plots, throughput

DOCS = Path(__file__).parent.parent / "docs"
PAGE, FIGURES = DOCS / "performance.md", DOCS / "figures"

_TABLES: Mapping[str, Callable[[], str]] = {
    "aims": lambda: aims.table(figures("peers"), figures("throughput")),
    "peers": lambda: peers.table(figures("peers")),
    "throughput": lambda: throughput.table(figures("throughput")),
    "long-run": lambda: long_run.table([figures("long-run")]),
}


def documented(page: str) -> str:
    """Return the page with each marked table made anew from its figures."""
    for name, table in _TABLES.items():
        before, _, rest = page.partition(f"<!-- {name} -->\n")
        _, _, after = rest.partition(f"<!-- /{name} -->\n")
        page = f"{before}<!-- {name} -->\n{table()}<!-- /{name} -->\n{after}"
    return page


def figures(name: str) -> Any:
    """Read committed figures."""
    return json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8"))


def main() -> None:
    """Write page and plots."""
    PAGE.write_text(documented(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    plots.peers(figures("peers"), FIGURES)


if __name__ == "__main__":
    main()
