"""What a tool's author declares about it, beside the function itself."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from onward.errors import AppError
from onward.messages import EffectClass, Settler
from onward.tools.context import ToolContext

TIMEOUT_S = 120.0

Ask = Literal["never", "always"] | Callable[[dict[str, Any]], bool]
KeyFrom = Callable[[dict[str, Any]], str]
Summary = Callable[[dict[str, Any]], str]
KeyScope = Literal["run", "everywhere"]
AskDownstream = Callable[[dict[str, Any], ToolContext], Any]
"""`seal` or `check`, sync or async: the effect's result, or None if it did not happen."""

_WORDS = ("never", "always")
_FUNCTIONS = {
    "ask": ("the call",),
    "summary": ("the call",),
    "key_from": ("the call",),
    "seal": ("the call", "its context"),
    "check": ("the call", "its context"),
}
"""Options that are functions, and what each is given."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Everything but the function. See `onward.tool` for what each means."""

    effect: EffectClass = "at_most_once"
    timeout_s: float = TIMEOUT_S
    moves_money: bool = False
    irreversible: bool = False
    in_doubt: Settler | None = None
    ask: Ask = "never"
    summary: Summary | None = None
    key_from: KeyFrom | None = None
    key_scope: KeyScope = "run"
    seal: AskDownstream | None = None
    check: AskDownstream | None = None
    settle_s: float | None = None

    @property
    def longest_s(self) -> float:
        """Seconds that one attempt may take: waiting, asking the other side, and the tool."""
        asking = self.seal is not None or self.check is not None
        return float((2 if asking else 1) * self.timeout_s + (self.settle_s or 0))

    @property
    def settler(self) -> Settler:
        """Who settles a call in doubt."""
        serious = self.moves_money or self.irreversible
        return self.in_doubt or ("person" if serious else "model")

    def refuse(self, name: str) -> None:
        """Raise `AppError` for options that cannot be meant."""
        where = f"Tool {name!r}"
        _refuse_other(where, "effect", self.effect, get_args(EffectClass))
        if not _is_time(self.timeout_s):
            raise AppError(f"{where} has timeout_s {self.timeout_s!r}; use seconds, more than 0")
        if self.in_doubt is not None:
            _refuse_other(where, "in_doubt", self.in_doubt, get_args(Settler))
        if not callable(self.ask) and self.ask not in _WORDS:
            words = "use one of 'never', 'always', or a function of the call"
            raise AppError(f"{where} has ask {self.ask!r}; {words}")
        _refuse_other(where, "key_scope", self.key_scope, get_args(KeyScope))
        if self.key_scope != "run" and self.key_from is None:
            raise AppError(f"{where} has a key_scope and no key_from; give it both, or neither")
        self._refuse_no_functions(where)
        self._refuse_verifying(where)
        self._refuse_serious_read(where)

    def _refuse_no_functions(self, where: str) -> None:
        for option, given in _FUNCTIONS.items():
            found = getattr(self, option)
            unset = found is None or (isinstance(found, str) and option == "ask")
            if not unset and not takes(found, len(given)):
                wanted = " and ".join(given)
                raise AppError(f"{where} has {option} {found!r}; give it a function of {wanted}")
        for option in ("ask", "summary", "key_from"):
            # Nobody awaits it: what it returns would be taken for yes, for words or for a name.
            if inspect.iscoroutinefunction(getattr(self, option)):
                raise AppError(f"{where} has an async {option}; make it a plain function")

    def _refuse_verifying(self, where: str) -> None:
        needs = {"seal": "sealed", "check": "timed", "settle_s": "timed"}
        for option, effect in needs.items():
            if (getattr(self, option) is not None) != (self.effect == effect):
                has = "no " if self.effect == effect else ""
                raise AppError(
                    f"{where} has effect {self.effect!r} and {has}{option}; "
                    f"{option} belongs to {effect!r}, which needs it"
                )
        if self.settle_s is not None and not _is_time(self.settle_s):
            raise AppError(f"{where} has settle_s {self.settle_s!r}; use seconds, more than 0")

    def _refuse_serious_read(self, where: str) -> None:
        for option in ("moves_money", "irreversible", "in_doubt"):
            if self.effect == "read" and getattr(self, option):
                raise AppError(
                    f"{where} has effect 'read' and {option}; what changes nothing is never in "
                    f"doubt. Leave {option} out, or declare the effect that it has"
                )


def takes(function: object, count: int) -> bool:
    """Say whether it can be called with so many arguments by position."""
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # some built-in functions do not say what they take
        return True
    return True


def _refuse_other(where: str, option: str, found: object, allowed: tuple[str, ...]) -> None:
    if found not in allowed:
        known = ", ".join(repr(value) for value in allowed)
        raise AppError(f"{where} has {option} {found!r}; use one of {known}")


def _is_time(seconds: object) -> bool:
    return isinstance(seconds, int | float) and 0 < seconds < math.inf
