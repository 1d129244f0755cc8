"""What a user's app module defines: agents, each a model with a system prompt, tools and limits."""

import importlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, cast, get_args

from onward import json_text
from onward.errors import AppError, UsageError
from onward.messages import CachePolicy, EffectClass, Limits
from onward.models import capacity
from onward.names import READ_RESULT, RESERVED_ACTIVITIES
from onward.tools.decorator import NAME, Tool
from onward.tools.read_result import read_result

BUILT_IN = "onward.builtin:app"

_REFUSED_SETTINGS = {
    **dict.fromkeys(("model", "max_tokens", "system", "tools"), "give it as the agent's argument"),
    **dict.fromkeys(("messages", "stream"), "Onward sets it for every request"),
    "compaction": "give the agent context='compact'",
    **dict.fromkeys(("temperature", "top_p", "top_k"), "current models refuse it"),
    **dict.fromkeys(
        ("extra_headers", "extra_query", "extra_body", "timeout"), "it is not part of a body"
    ),
}
ContextPolicy = Literal["compact", "clear", "stop"]
_CLEARS = "clear_tool_uses_20250919"
_SPEC = re.compile(r"(?P<module>\w+(\.\w+)*):(?P<attribute>\w+)")


@dataclass(frozen=True)
class Agent:
    """One kind of agent. A run freezes it when it begins: later changes reach new runs only.

    Raises `AppError` if anything in it cannot work.
    """

    name: str
    """1 to 64 letters, digits, `_`, `-`; what `starter.py start --agent` names."""
    _: KW_ONLY
    model: str
    system: str = ""
    tools: Sequence[Tool[..., Any]] = ()
    limits: Limits = field(default_factory=Limits)
    max_tokens: int = 16_000
    """Output tokens of one reply."""
    context: ContextPolicy = "compact"
    """How room is made where the model's context window, or the 32 MB that a request may have, is
    nearly full. `compact`: Claude sums up the conversation, and goes on from that. `clear`: before
    it comes to that, the API leaves old tool results out of what Claude reads. `stop`: not at all.
    Where no room can be made, the run ends with outcome `context_exceeded`."""
    cache: CachePolicy = "auto"
    """How long the API keeps what every step sends again."""
    at_limit: Literal["stop", "wait"] = "stop"
    """`wait`: a run that meets a limit waits for a person who raises it."""
    betas: Sequence[str] = ()
    """Beta features that every request names in its header."""
    needs_workspace: bool = False
    """Its tools work in a folder: a run without one is refused at its beginning."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """More of a Messages API request's body, as plain JSON: `thinking`, `tool_choice`, …"""

    def __post_init__(self) -> None:
        _refuse_name(self.name)
        where = f"Agent {self.name!r}"
        _refuse_text(where, "model", self.model, empty=False)
        _refuse_text(where, "system", self.system, empty=True)
        object.__setattr__(self, "tools", tuple(self.tools))
        _refuse_tools(where, self.tools)
        _refuse_limits(where, self.limits)
        if type(self.max_tokens) is not int or self.max_tokens < 1:
            raise AppError(f"{where} has max_tokens {self.max_tokens!r}; use an integer above 0")
        _refuse_settings(where, self.settings)
        _refuse_context(where, self.context, self.settings)

    @property
    def offered(self) -> Sequence[Tool[..., Any]]:
        """What Claude may call: its tools, and the one that reads on in their long results."""
        return (*self.tools, read_result) if self.tools else ()

    @property
    def effects(self) -> dict[str, EffectClass]:
        """Effect class by name of what Claude may call."""
        return {tool.name: tool.effect for tool in self.offered}

    def compacts(self, model: str | None = None) -> bool:
        """Say whether Claude is asked for a summary where its window is nearly full.

        `model`: instead of the agent's own. One that is not known is asked; it may refuse.
        """
        known = capacity(model or self.model)
        return self.context != "stop" and (known is None or known.sums_up)

    def tool(self, name: str) -> Tool[..., Any] | None:
        """Find what Claude may call by name; None if there is none of that name (any more)."""
        return next((tool for tool in self.offered if tool.name == name), None)

    def definition(self, model: str | None = None) -> str:
        """Write what stays fixed for a run: JSON text of a Messages API request without messages.

        `model`: instead of the agent's own. Imports `anthropic`, for the tools' schemas. Raises
        `AppError` for a tool without a schema, and where the model cannot reply at such length.
        """
        body: dict[str, Any] = {"model": model or self.model, "max_tokens": self.max_tokens}
        _refuse_length(f"Agent {self.name!r}", **body)
        if self.context == "clear":
            body["context_management"] = {"edits": [{"type": _CLEARS}]}
        if self.system:
            body["system"] = self.system
        if self.tools:
            body["tools"] = [_definition(tool) for tool in self.offered]
        return json_text.dumps(body | dict(self.settings))


class App:
    """The agents of one worker: `App(Agent(…), Agent(…))`. Raises `AppError` for a doubled name."""

    def __init__(self, *agents: Agent) -> None:
        for agent in agents:
            if not isinstance(agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise AppError(f"App takes agents, not {agent!r}; make one with onward.Agent(…)")
        if not agents:
            raise AppError("App has no agents; give it at least one onward.Agent(…)")
        doubled = _doubled([agent.name for agent in agents])
        if doubled:
            raise AppError(f"App has two agents named {doubled!r}; rename one")
        self.agents: dict[str, Agent] = {agent.name: agent for agent in agents}

    def agent(self, name: str) -> Agent:
        """Find an agent by name. Raises `UsageError` that names those there are."""
        if name not in self.agents:
            known = ", ".join(repr(other) for other in self.agents)
            raise UsageError(f"There is no agent {name!r} in this app; it has {known}")
        return self.agents[name]

    def __repr__(self) -> str:
        return f"<app of {', '.join(self.agents)}>"


def load_app(spec: str) -> App:
    """Import the app named by `module:attribute`; an empty name is the built-in app.

    The current directory is importable. Raises `AppError` that says what failed and what to do.
    """
    parts = _SPEC.fullmatch(spec or BUILT_IN)
    if parts is None:
        raise AppError(
            f"The app {spec!r} is not of the form 'module:attribute', as in 'refunds:app'"
        )
    module = _import(parts["module"])
    found = getattr(module, parts["attribute"], None)
    if isinstance(found, App):
        return found
    apps = [name for name, value in vars(module).items() if isinstance(value, App)]
    hint = f"; it has {', '.join(apps)}" if apps else "; write `app = App(Agent(…))` in it"
    what = "no such name" if found is None else f"{found!r}, which is no onward.App"
    raise AppError(
        f"{spec!r}: looked for {parts['attribute']!r} in module {parts['module']!r} and found "
        f"{what}{hint}"
    )


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise AppError(_not_found(name, error, here)) from error
    except AppError as error:
        raise AppError(f"App module {name!r} is not valid: {error}") from error
    except (Exception, SystemExit) as error:  # importing runs whatever the module holds
        raise AppError(
            f"App module {name!r} failed to import: {type(error).__name__}: {error};"
            f" try `python -c 'import {name}'` to see where"
        ) from error


def _not_found(name: str, error: ModuleNotFoundError, here: str) -> str:
    if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
        return (
            f"There is no module {error.name!r} for the app {name!r}; looked in {here!r} and in"
            " what is installed. Set ONWARD_APP to 'module:attribute', or change the directory"
        )
    return (
        f"App module {name!r} needs {error.name!r}, which is not installed in {sys.prefix!r};"
        " install it there"
    )


def _definition(tool: Tool[..., Any]) -> dict[str, Any]:
    definition = tool.definition()
    _refuse_surrogates(
        f"The definition of tool {tool.name!r}", json.dumps(definition, ensure_ascii=False)
    )
    return definition


def _refuse_name(name: object) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise AppError(f"An agent cannot be named {name!r}: use 1 to 64 letters, digits, '_', '-'")


def _refuse_text(where: str, what: str, text: object, *, empty: bool) -> None:
    if not isinstance(text, str):
        raise AppError(f"{where} has {what} {text!r}; use a string")
    if not empty and not text.strip():
        raise AppError(f"{where} has an empty {what}")
    _refuse_surrogates(f"The {what} of {where.lower()}", text)


def _refuse_surrogates(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise AppError(
            f"{what} holds half a surrogate pair at character {error.start}, which cannot be sent;"
            " remove it"
        ) from error


def _refuse_tools(where: str, tools: Sequence[object]) -> None:
    names: list[str] = []
    for tool in tools:
        if not isinstance(tool, Tool):
            raise AppError(f"{where} has {tool!r} as a tool; decorate the function with @tool")
        names.append(tool.name)
        if tool.name in {*RESERVED_ACTIVITIES, READ_RESULT}:
            raise AppError(f"{where} has a tool {tool.name!r}, a name that Onward uses; rename it")
    doubled = _doubled(names)
    if doubled:
        raise AppError(f"{where} has two tools named {doubled!r}; rename one")


def _refuse_limits(where: str, limits: object) -> None:
    if not isinstance(limits, Limits):
        raise AppError(f"{where} has limits {limits!r}; use onward.Limits(…)")


def _refuse_settings(where: str, given: object) -> None:
    if not isinstance(given, Mapping):
        raise AppError(f"{where} has settings {given!r}; use a dict")
    settings = cast("Mapping[str, Any]", given)
    for name in settings:
        if name in _REFUSED_SETTINGS:
            raise AppError(f"{where} has {name!r} in its settings: {_REFUSED_SETTINGS[name]}")
    try:
        text = json.dumps(dict(settings), allow_nan=False, ensure_ascii=False)
        plain = json.loads(text) == dict(settings)
    except (TypeError, ValueError, RecursionError) as error:
        raise AppError(f"{where} has settings that are not plain JSON: {error}") from error
    if not plain:
        raise AppError(f"{where} has settings that change as JSON: use lists and string keys")
    _refuse_surrogates(f"The settings of {where.lower()}", text)


def _refuse_context(where: str, context: object, settings: Mapping[str, Any]) -> None:
    if context not in get_args(ContextPolicy):
        known = ", ".join(map(repr, get_args(ContextPolicy)))
        raise AppError(f"{where} has context {context!r}; use one of {known}")
    # The API takes one kind of summary: it would refuse every request after the first of ours.
    if context != "stop" and "compact_" in json.dumps(settings.get("context_management")):
        raise AppError(
            f"{where} lets the API compact by its settings, and Onward by context {context!r}; use "
            "context='stop' with such settings"
        )


def _refuse_length(where: str, *, model: str, max_tokens: int) -> None:
    known = capacity(model)
    if known and max_tokens > known.max_output:
        raise AppError(
            f"{where} has max_tokens {max_tokens:,}; {model!r} replies with {known.max_output:,} "
            "at most"
        )


def _doubled(names: Sequence[str]) -> str | None:
    return next((name for name in names if names.count(name) > 1), None)
