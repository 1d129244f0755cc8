"""The installed commands, `onward` and `onward-worker`; `python -m onward` is the first."""

import sys
from types import ModuleType
from typing import NoReturn

from onward.errors import AppError
from onward.own_code import own


def starter() -> NoReturn:
    """Run the command line of `onward`, and end this process."""
    _own("starter").main()
    raise AssertionError("starter.main has ended the process")


def worker() -> NoReturn:
    """Run the command line of `onward-worker`, and end this process."""
    _own("worker").process()
    raise AssertionError("worker.process has ended the process")


def _own(name: str) -> ModuleType:
    try:
        return own(name)
    except AppError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201  (a command prints)
        raise SystemExit(2) from error


if __name__ == "__main__":
    starter()
