"""What a tool gets when a unit test calls it as the plain function that it is."""

from pathlib import Path

from onward.tools.context import ToolContext


def tool_context(
    *,
    idempotency_key: str = "onw_test",
    call: str = "1.1",
    run: str = "test-run",
    fence: int = 1,
    workspace: Path | None = None,
) -> ToolContext:
    """Make a `ToolContext` for calling a tool in a unit test.

    await refund("A-17", 500, tool_context())
    """
    return ToolContext(
        idempotency_key=idempotency_key, call=call, run=run, fence=fence, workspace=workspace
    )
