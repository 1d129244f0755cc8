"""What steps, calls and business keys are called in ledger and history, and their order."""

import re

_PART = re.compile(r"([rc]?)(\d+)")
_STEP = re.compile(r"\d+(\.[rc]\d+)?")
"""`12`, `12.r1` where it was asked again, or `12.c1` where a summary came first."""
_CALL = re.compile(r"\d+(\.r\d+)?\.\d+")
"""`12.1` or `12.r1.1`; a step has no number after its last dot, a business key begins with `k:`."""


def is_step(position: str) -> bool:
    """Say whether that is a request to Claude."""
    return _STEP.fullmatch(position) is not None


def is_call(position: str) -> bool:
    """Say whether that is a call that Claude asked for."""
    return _CALL.fullmatch(position) is not None


def step_number(position: str) -> int:
    """Return the number of the step that a step or call belongs to."""
    return int(position.partition(".")[0])


def order(position: str) -> tuple[bool, list[tuple[str, int]]]:
    """Order `12.2` before `12.10`, a step's redo after its first calls, business keys last."""
    if not (is_step(position) or is_call(position)):
        return True, []
    return False, [(kind, int(number)) for kind, number in _PART.findall(position)]
