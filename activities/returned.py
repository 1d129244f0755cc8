"""What a tool returned, as its call's result: the effect has happened, so nothing here fails."""

from typing import Any, cast

from onward.messages import CallResult
from onward.tools import show
from onward.tools.running import run_apart

_LONGEST_S = 20.0
_FEW, _SHORT = 500, 64 * 1024
_PLAIN = frozenset({int, float, bool, type(None)})


async def result_of(value: object, call: str, tool: str) -> CallResult:
    """Make the result of a call that is done, whatever it returned.

    On a thread apart: it runs the value's own code, on as much as the tool returned. What is plain
    and small has no code and takes no time, and most results are.
    """
    if _is_plain(value):
        return _done(value, call)
    try:
        made = await run_apart(lambda: _done(value, call), name=tool, timeout_s=_LONGEST_S)
    except TimeoutError:
        return _done(f"The call is done. Its result took over {_LONGEST_S:g} s to show.")
    return cast("CallResult", made)


def _done(value: object, call: str = "") -> CallResult:
    shown = show(value, call)
    return CallResult(status="done", content=shown.content, whole=shown.whole)


def _is_plain(value: object) -> bool:
    """Say whether it is JSON values of Python's own types, and few and short."""
    left: list[Any] = [value]
    seen = characters = 0
    while left:
        part = left.pop()
        if type(part) is str:
            characters += len(part)
        elif type(part) in {dict, list}:
            seen += len(part)
            left += [*part, *part.values()] if type(part) is dict else part
        elif type(part) not in _PLAIN:
            return False
        if seen > _FEW or characters > _SHORT:
            return False
    return True
