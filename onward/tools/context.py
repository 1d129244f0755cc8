"""What a tool may know about the call that it serves."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Given to a tool that has a parameter annotated `ToolContext`; never in the tool's schema."""

    idempotency_key: str
    """The same at every attempt of this call, `onw_…`; hand it to whoever makes the effect."""
    call: str
    """`12.1`: step 12, call 1."""
    run: str
    """Workflow id of the run."""
    fence: int = 0
    """Of a `sealed` tool: higher than that of every attempt before; hand it on with the request."""
    workspace: Path | None = None
    """The run's folder on this host, checked to be the right one; None: the run has none."""
