"""From a function's signature to what Claude must send, and from what it sent to typed values."""

import functools
import inspect
import json
import typing
from collections.abc import Callable, Mapping
from typing import Any

import pydantic

from onward.errors import AppError, Rejected
from onward.tools.context import ToolContext

_SHOWN_ERRORS = 5
_SHOWN_LENGTH = 300


class Inputs:
    """The parameters of one tool: those that Claude fills, and the context that Onward does."""

    def __init__(self, function: Callable[..., Any]) -> None:
        hints = _hints(function)
        contexts = [name for name, hint in hints.items() if name != "return" and _is_context(hint)]
        if len(contexts) > 1:
            raise AppError(
                f"Tool {function.__name__!r} has {len(contexts)} parameters annotated ToolContext"
                f" ({', '.join(contexts)}); keep one"
            )
        self.context_name = contexts[0] if contexts else None
        self.shown = _shown(function, hints, self.context_name)
        self._validated = _validated(self.shown)

    def convert(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Turn Claude's JSON values into what the function's annotations ask for.

        Raises `Rejected` for whatever goes wrong here: the function certainly did not run.
        """
        try:
            typed: dict[str, Any] = self._validated(**given)
        except pydantic.ValidationError as error:
            raise Rejected(f"Invalid input: {_reasons(error)}. Nothing was done.") from error
        except Exception as error:  # a validator of the tool's author may raise anything
            raise Rejected(
                f"Invalid input ({type(error).__name__}: {error}). Nothing was done."
            ) from error
        return typed


def refuse_signature(function: Callable[..., Any]) -> None:
    """Raise `AppError` for a signature that no JSON object can fill."""
    for name, parameter in inspect.signature(function).parameters.items():
        if name in {"self", "cls"}:
            raise _unfit(function, name, "belongs to a class; make the tool a plain function")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise _unfit(function, name, "is positional-only; remove the '/'")
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise _unfit(function, f"*{name}", "has no name for Claude to use; take a list")
        if parameter.kind is parameter.VAR_KEYWORD:
            raise _unfit(function, f"**{name}", "has no schema; name each parameter")


def check(given: object, schema: Mapping[str, Any]) -> str | None:
    """Say to Claude why an input does not fit a tool's frozen schema; None if it does."""
    try:
        validator = _validator(json.dumps(schema))
        errors = list(validator.iter_errors(given)) if validator else []
    except RecursionError:
        return "Input is nested too deeply."
    shown = [_clip(f"{_where(error.absolute_path)}{error.message}") for error in errors]
    if not shown:
        return None
    more = f"; and {len(shown) - _SHOWN_ERRORS} more" if len(shown) > _SHOWN_ERRORS else ""
    return f"Input does not fit the schema: {'; '.join(shown[:_SHOWN_ERRORS])}{more}."


# To judge a schema takes several times as long as to judge an input by it.
@functools.lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    """Make the validator of a schema, JSON text; None where nobody can judge by it.

    That must not make the tool useless: the conversion to typed values, before the function runs,
    refuses what does not fit.
    """
    # Imported here: it costs a tenth of a second, and only the worker checks inputs.
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415

    known = json.loads(schema)
    try:
        Draft202012Validator.check_schema(known)
    except SchemaError:
        return None
    return Draft202012Validator(known)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise AppError(
            f"Annotations of tool {function.__name__!r} cannot be resolved ({error});"
            " import the names that they use at the top of its module"
        ) from error


def _is_context(hint: Any) -> bool:
    return hint is ToolContext or any(_is_context(part) for part in typing.get_args(hint))


def _shown(
    function: Callable[..., Any], hints: dict[str, Any], hidden: str | None
) -> Callable[..., dict[str, Any]]:
    """Make a function with the signature that Claude sees; it returns its own arguments."""

    def shown(**arguments: Any) -> dict[str, Any]:
        return arguments

    parameters = [
        parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints.get(name, Any))
        for name, parameter in inspect.signature(function).parameters.items()
        if name != hidden
    ]
    shown.__name__ = shown.__qualname__ = function.__name__
    shown.__module__ = function.__module__
    shown.__doc__ = function.__doc__
    shown.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    shown.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return shown


def _validated(shown: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    try:
        return pydantic.validate_call(shown)
    except Exception as error:  # pydantic has several unrelated kinds for a type it cannot use
        raise AppError(
            f"Parameters of tool {shown.__name__!r} cannot be turned into a schema ({error});"
            " use types that pydantic knows"
        ) from error


def _reasons(error: pydantic.ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [_clip(f"{_where(entry['loc'])}{entry['msg']}") for entry in found]
    return "; ".join(shown[:_SHOWN_ERRORS])


def _where(path: typing.Iterable[str | int]) -> str:
    joined = ".".join(str(part) for part in path)
    return f"{joined}: " if joined else ""


def _clip(text: str) -> str:
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}…"


def _unfit(function: Callable[..., Any], name: str, why: str) -> AppError:
    return AppError(f"Parameter {name!r} of tool {function.__name__!r} {why}")
