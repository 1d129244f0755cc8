"""What a request asks the payments service to do wrong, by query or by header.

`delay_s=2` and `Payments-Delay-S: 2` are the same. A value may be a list, `drop=1,0`: its k-th
entry is for the k-th arrival of the same request, and the last one for all after it.
"""

from dataclasses import dataclass
from typing import Self

from aiohttp import web


@dataclass(frozen=True)
class Trouble:
    """The trouble that one request asks for."""

    delay_s: float
    """Wait before acting."""
    delay_after_s: float
    """Wait after acting, before the answer."""
    drop: bool
    """Act, and cut the connection without an answer."""
    error: int
    """Act, and answer with this HTTP status, which hides it; 0: do not."""

    @classmethod
    def of(cls, request: web.Request, earlier: int) -> Self:
        """Read it for a request that `earlier` requests were the same as."""
        return cls(
            delay_s=_number(request, "delay_s", earlier),
            delay_after_s=_number(request, "delay_after_s", earlier),
            drop=bool(_number(request, "drop", earlier)),
            error=int(_number(request, "error", earlier)),
        )


def _number(request: web.Request, name: str, earlier: int) -> float:
    header = "Payments-" + name.replace("_", "-")
    text = request.query.get(name, request.headers.get(header, "0"))
    values = text.split(",")
    return float(values[min(earlier, len(values) - 1)])
