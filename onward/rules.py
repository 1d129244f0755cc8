"""An agent's rules: which calls run at once, which a person approves first, which never run."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, cast, get_args

from onward import agent_checks as checks
from onward import json_text
from onward.errors import AppError
from onward.names import READ_RESULT
from onward.tools.decorator import Tool
from onward.tools.options import Options, takes
from onward.tools.results import error_words
from onward.wording import UNDECIDED

RuleDecision = Literal["allow", "ask", "deny"]
Where = Mapping[str, str] | Callable[[dict[str, Any]], bool]

_LONGEST_ERROR = 300
_NO_REASON = "a rule of this agent asks a person first"


@dataclass(frozen=True)
class Rule:
    """What becomes of some calls of an agent, whatever their tools' own `ask` says.

    Of the rules that fit a call the strictest counts, wherever it stands: deny, ask, allow.
    Raises `AppError` for a rule that cannot be meant.
    """

    decision: RuleDecision
    """`allow`: nobody is asked. `ask`: a person approves it first. `deny`: it never runs, and
    Claude is told so."""
    tool: str = "*"
    """Name of the tools it is about: a shell pattern, in which `*` stands for anything."""
    where: Where | None = None
    """Which of their calls; None: all. Shell patterns by the input's fields, all of which must be
    there and fit (a value that is no text is taken as JSON); or a function of the input."""
    why: str = ""
    """Told to the person who is asked, or to Claude."""

    def __post_init__(self) -> None:
        where = f"The rule {self!r}"
        checks.refuse_choice(where, "decision", self.decision, get_args(RuleDecision))
        checks.refuse_text(where, "tool", self.tool, empty=False)
        checks.refuse_text(where, "why", self.why, empty=True)
        _refuse_where(where, self.where)

    def fits(self, tool: str, given: Mapping[str, Any]) -> bool:
        """Say whether it is about this call; raises whatever a function of the author's raises."""
        if not fnmatchcase(tool, self.tool):
            return False
        if self.where is None or callable(self.where):
            return self.where is None or bool(self.where(dict(given)))
        return all(
            name in given and fnmatchcase(_text(given[name]), pattern)
            for name, pattern in self.where.items()
        )


@dataclass(frozen=True)
class Judgement:
    """What rules and tool together say of one call."""

    refusal: str | None = None
    """Why it may not run, told to Claude."""
    ask: str = ""
    """Why a person must approve it first, every reason there is; empty: nobody need."""
    sure: bool = True
    """False: something could not be decided, so nobody's silence may count as a yes."""


@dataclass(frozen=True)
class _Word:
    """What one rule says of a call that it fits."""

    decision: RuleDecision
    why: str
    sure: bool = True


def judge(
    rules: Iterable[Rule], options: Options, tool: str, given: Mapping[str, Any]
) -> Judgement:
    """Judge a call of `tool`, which has these `options`, by its input as plain JSON values."""
    # It only shows Claude the rest of what another call returned.
    about = () if tool == READ_RESULT else rules
    words = [word for rule in about if (word := _word(rule, tool, given))]
    for word in words:
        if word.decision == "deny":
            return Judgement(refusal=_denied(word.why))
    allowed = any(word.decision == "allow" for word in words)
    asking = [word for word in words if word.decision == "ask"]
    if not allowed and (own := _own_rule(options)) and (word := _word(own, tool, given)):
        asking.append(word)
    # All of them: a person who lets one reason pass for the rest of a run knows no other.
    reasons = dict.fromkeys(word.why or _NO_REASON for word in asking)
    return Judgement(ask="; ".join(reasons), sure=all(word.sure for word in asking))


def _word(rule: Rule, tool: str, given: Mapping[str, Any]) -> _Word | None:
    try:
        return _Word(rule.decision, rule.why) if rule.fits(tool, given) else None
    except BaseException as error:  # noqa: BLE001  (the author's code; when in doubt, ask)
        if rule.decision == "allow":
            return None
        why = f"whether to {rule.decision} {UNDECIDED}: {error_words(error)}"[:_LONGEST_ERROR]
        return _Word("ask", why, sure=False)


def _own_rule(options: Options) -> Rule | None:
    """Return a tool's own `ask` as a rule."""
    if callable(options.ask):
        why = "the tool asks a person first for such an input"
        return Rule("ask", where=options.ask, why=why)
    return Rule("ask", why="this tool always asks first") if options.ask == "always" else None


def _denied(why: str) -> str:
    said = f": {why.rstrip('.')}" if why else ""
    return f"A rule of this agent denies this call{said}. Nothing was done."


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_text.dumps(value)


# ---- what cannot be meant


def refuse_rules(where: str, rules: object, tools: Sequence[Tool[..., Any]]) -> None:
    """Raise `AppError` for what is no list of rules, and for a rule that is about no tool."""
    if not isinstance(rules, Sequence) or isinstance(rules, str):
        raise AppError(f"{where} has rules {rules!r}; use a list of onward.Rule(…)")
    names = [tool.name for tool in tools]
    for rule in cast("Sequence[object]", rules):
        if not isinstance(rule, Rule):
            raise AppError(f"{where} has {rule!r} as a rule; make one with onward.Rule(…)")
        if not any(fnmatchcase(name, rule.tool) for name in names):
            known = ", ".join(map(repr, names)) or "none"
            raise AppError(
                f"{where} has a rule about {rule.tool!r}, which is none of its tools ({known}). "
                "Name one of them, or a pattern that fits one: a misspelt rule protects nothing"
            )


def _refuse_where(rule: str, where: object) -> None:
    if isinstance(where, Mapping):
        fields = cast("Mapping[object, object]", where)
        texts = all(isinstance(each, str) for each in (*fields, *fields.values()))
        if not fields or not texts:
            raise AppError(f"{rule} has where {where!r}; use field names with a text for each")
    elif where is not None and not takes(where, 1):
        raise AppError(f"{rule} has where {where!r}; use a dict, or a function of the call")
    elif inspect.iscoroutinefunction(where):
        # Nobody awaits it: what it returns would be taken for yes.
        raise AppError(f"{rule} has an async where; make it a plain function")
