"""`@tool`: a typed function becomes something Claude can ask for, and stays a function."""

import functools
import inspect
import math
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Generic, ParamSpec, TypeVar, cast, get_args, overload

from onward.errors import AppError
from onward.messages import EffectClass
from onward.tools.context import ToolContext
from onward.tools.inputs import Inputs, refuse_signature
from onward.tools.running import run_apart

P = ParamSpec("P")
R = TypeVar("R")

TIMEOUT_S = 120.0
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What the Messages API accepts as a tool's name; agents are named alike."""


class Tool(Generic[P, R]):
    """A function that Claude may call; made by `@tool`. Called directly, it is that function."""

    def __init__(self, function: Callable[P, R], *, effect: EffectClass, timeout_s: float) -> None:
        refuse_function(function)
        _refuse_options(function.__name__, effect, timeout_s)
        functools.update_wrapper(cast("Callable[P, R]", self), function)
        self._function = function
        self.name: str = function.__name__
        self.effect: EffectClass = effect
        self.timeout_s = float(timeout_s)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, as if it were not decorated."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name!r}, {self.effect}>"

    def definition(self) -> dict[str, Any]:
        """Build the API's tool definition: `name`, `description`, `input_schema`.

        Imports `anthropic` (a second or more). Raises `AppError` for types without a schema.
        """
        from anthropic import beta_tool  # noqa: PLC0415  (costs a second, only workers need it)

        try:
            made = dict(beta_tool(cast("Any", self._inputs.shown)).to_dict())
        except Exception as error:  # pydantic has several unrelated kinds
            if isinstance(error, AppError):
                raise
            raise AppError(
                f"Parameters of tool {self.name!r} cannot be turned into a schema ({error});"
                " use types that JSON can express"
            ) from error
        return made | {"description": made["description"] or self.name}

    async def run(self, given: Mapping[str, Any], context: ToolContext) -> object:
        """Run the function apart from the calling event loop, on values converted to its types.

        `given` is Claude's input. Raises `Rejected` if it cannot be converted (nothing ran),
        `TimeoutError` after `timeout_s` seconds, and whatever the function raises.
        """
        call = functools.partial(self._call, given, context)
        return await run_apart(call, name=self.name, timeout_s=self.timeout_s)

    def _call(self, given: Mapping[str, Any], context: ToolContext) -> Any:
        arguments = self._inputs.convert(given)
        if self._inputs.context_name is not None:
            arguments[self._inputs.context_name] = context
        return cast("Callable[..., Any]", self._function)(**arguments)

    @cached_property
    def _inputs(self) -> Inputs:
        # Late: annotations may name what the module defines further down.
        return Inputs(self._function)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *, effect: EffectClass = "at_most_once", timeout_s: float = TIMEOUT_S
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    effect: EffectClass = "at_most_once",
    timeout_s: float = TIMEOUT_S,
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a function, sync or async, a tool; it stays callable as written.

    `effect` says what a repeated call would do: `read` changes nothing, `keyed` may be repeated
    with the same `ToolContext.idempotency_key`, `at_most_once` must not be repeated. `timeout_s`
    is how long one call may take, in seconds. Name, description and schema come from the
    function's name, docstring and annotations. A tool with an effect should make one request: what
    an exception means is judged by the request that raised it, not by those before it. Raises
    `AppError` for a function that cannot be a tool.
    """

    def make(decorated: Callable[P, R]) -> Tool[P, R]:
        return Tool(decorated, effect=effect, timeout_s=timeout_s)

    return make if function is None else make(function)


def refuse_function(function: Callable[..., Any]) -> None:
    """Raise `AppError` for what cannot be a tool whatever its options."""
    if not inspect.isfunction(function):
        raise AppError(f"@tool decorates a function, not {function!r}")
    if not NAME.fullmatch(function.__name__):
        raise AppError(
            f"A tool cannot be named {function.__name__!r}: use 1 to 64 letters, digits, '_', '-'"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise AppError(f"Tool {function.__name__!r} yields; collect the values and return a list")
    refuse_signature(function)


def _refuse_options(name: str, effect: object, timeout_s: object) -> None:
    if effect not in get_args(EffectClass):
        allowed = ", ".join(repr(known) for known in get_args(EffectClass))
        raise AppError(f"Tool {name!r} has effect {effect!r}; use one of {allowed}")
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s < math.inf:
        raise AppError(f"Tool {name!r} has timeout_s {timeout_s!r}; use seconds, more than 0")
