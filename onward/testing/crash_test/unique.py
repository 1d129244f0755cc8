"""The placeholder that makes every trial's input its own."""

from typing import Any, TypeVar, cast
from uuid import uuid4

UNIQUE = "{unique}"

T = TypeVar("T")


def new_unique() -> str:
    """Make what `{unique}` stands for in one trial: letters and digits, always as many."""
    return f"t{uuid4().hex[:15]}"


def filled(value: T, unique: str) -> T:
    """Return a JSON value with `{unique}` replaced wherever a string holds it, keys included."""
    return cast("T", _filled(value, unique))


def _filled(value: Any, unique: str) -> Any:
    match value:
        case str():
            return value.replace(UNIQUE, unique)
        case [*parts]:
            return [_filled(part, unique) for part in parts]
        case {**fields}:
            return {_filled(name, unique): _filled(part, unique) for name, part in fields.items()}
        case _:
            return value
