"""What the declarations of commands share."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from onward.console import Output

RunId = Annotated[str, Parameter(name="RUN")]
RunOrNone = Annotated[str | None, Parameter(name="RUN")]
CallId = Annotated[str, Parameter(name="CALL")]
Tags = Annotated[tuple[str, ...], Parameter(name="--tag", show_default=False)]
By = Annotated[str, Parameter(name="--by")]
AsJson = Annotated[bool, Parameter(name="--json")]


def perform(command: "Callable[[Output], Coroutine[Any, Any, int]]", *, as_json: bool) -> int:
    """Run a command to its exit code. The Temporal client is loaded only now."""
    from onward.commands import perform  # noqa: PLC0415

    return perform(command, as_json=as_json)
