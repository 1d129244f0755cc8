"""`@tool`: a typed function becomes something Claude can ask for, and stays a function."""

import copy
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from onward.errors import AppError
from onward.messages import EffectClass, Settler
from onward.tools.context import ToolContext
from onward.tools.inputs import Inputs, refuse_signature
from onward.tools.options import (
    TIMEOUT_S,
    Ask,
    AskDownstream,
    KeyFrom,
    KeyScope,
    Options,
    Summary,
)
from onward.tools.running import run_apart

P = ParamSpec("P")
R = TypeVar("R")

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What the Messages API accepts as a tool's name; agents are named alike."""


class Tool(Generic[P, R]):
    """A function that Claude may call; made by `@tool`. Called directly, it is that function."""

    __wrapped__: Callable[P, R]
    """The function itself, as `functools.update_wrapper` leaves it."""

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        refuse_function(function)
        options.refuse(function.__name__)
        functools.update_wrapper(cast("Callable[P, R]", self), function)
        self._function = function
        self.name: str = function.__name__
        self.options = options
        self.effect: EffectClass = options.effect
        self.timeout_s = float(options.timeout_s)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, as if it were not decorated."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name!r}, {self.effect}>"

    def definition(self) -> dict[str, Any]:
        """Build the API's tool definition: `name`, `description`, `input_schema`.

        Imports `anthropic` (a second or more). Raises `AppError` for types without a schema.
        """
        return copy.deepcopy(self._defined)

    # Once, not for every run: what `beta_tool` makes refers to itself through pydantic's own code,
    # where no garbage collector sees it, so a worker would grow with each run that it begins.
    @cached_property
    def _defined(self) -> dict[str, Any]:
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

    async def ask_downstream(self, given: Mapping[str, Any], context: ToolContext) -> object | None:
        """Ask, by the tool's `seal` or `check`, whether the effect happened: its result, or None.

        Raises whatever that function raises, and `TimeoutError` after `timeout_s` seconds.
        """
        asking = self.options.seal or self.options.check
        if asking is None:
            return None
        call = functools.partial(asking, dict(given), context)
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
    *,
    effect: EffectClass = "at_most_once",
    timeout_s: float = TIMEOUT_S,
    moves_money: bool = False,
    irreversible: bool = False,
    in_doubt: Settler | None = None,
    ask: Ask = "never",
    summary: Summary | None = None,
    key_from: KeyFrom | None = None,
    key_scope: KeyScope = "run",
    seal: AskDownstream | None = None,
    check: AskDownstream | None = None,
    settle_s: float | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None, /, **options: Any
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a function, sync or async, a tool; it stays callable as written.

    A tool with an effect should make one request: what an exception means is judged by the request
    that raised it, not by those before it. Name, description and schema come from the function's
    name, docstring and annotations.

    Args:
        function: what Claude may call.
        options: by name:

            - effect: what a repeated call would do (docs/guarantees.md). `read` changes nothing;
              `keyed` may be repeated with the same `ToolContext.idempotency_key`; `transactional`
              writes its effect and that key in one database transaction; `at_most_once`, the
              default, must not be repeated. Advanced: `sealed`, `timed`.
            - timeout_s: how long one call may take, seconds (120).
            - moves_money, irreversible: a call in doubt waits for a person, not for Claude.
            - in_doubt: who settles it all the same, `"person"` or `"model"`.
            - ask: a person approves a call first: `"always"`, `"never"` (the default), or a
              function of its input that says whether. An agent's rules may say otherwise.
            - summary: what a call would do, in one line for people, from its input: they see it
              where they approve it, and beside the whole input.
            - key_from: names what the call asks for, from its input. A second call with the same
              name is not run; it gets the first one's result and is told so.
            - key_scope: `"run"` (the default), or `"everywhere"`: also a call of another run.
            - seal: of `sealed`: `seal(call, ctx)` makes the other side refuse every fence but
              `ctx.fence`, and returns the effect's result if it has happened, else None.
            - check: of `timed`: `check(call, ctx)` returns the effect's result, or None.
            - settle_s: of `timed`: seconds after which nothing that an attempt sent can still
              take effect.

    Raises:
        AppError: the function cannot be a tool, or the options contradict each other.

    """

    def make(decorated: Callable[P, R]) -> Tool[P, R]:
        return Tool(decorated, Options(**options))

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
