"""What a user's app module defines: agents, each a model with a system prompt, tools and limits."""

import importlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

from pydantic import ValidationError

from onward import agent_checks as checks
from onward import json_text, own_code
from onward.errors import AppError, UsageError
from onward.messages import CachePolicy, EffectClass, Limits, Otherwise
from onward.models.fit import refuse_unfit
from onward.models.table import Capacity, Effort, ThinkingName, capacity
from onward.notices import OnWaiting, refuse_no_hook
from onward.rules import Rule, refuse_rules
from onward.tools.decorator import Tool
from onward.tools.read_result import read_result

BUILT_IN = "onward.builtin:app"

ContextPolicy = Literal["compact", "clear", "stop"]
AtLimit = Literal["stop", "wait"]
ServiceTier = Literal["auto", "standard_only"]
Speed = Literal["standard", "fast"]
_CLEARS = "clear_tool_uses_20250919"
_SPEC = re.compile(r"(?P<module>\w+(\.\w+)*):(?P<attribute>\w+)")


@dataclass(frozen=True)
class Agent:
    """One kind of agent. A run freezes it when it begins: later changes reach new runs only.

    Raises `AppError` if anything in it cannot work.
    """

    name: str
    """1 to 64 letters, digits, `_`, `-`; what `onward start --agent` names."""
    _: KW_ONLY
    model: str
    system: str = ""
    tools: Sequence[Tool[..., Any]] = ()
    server_tools: Sequence[Mapping[str, Any]] = ()
    """Tools that the API runs by itself, as it defines them; Claude sees them after `tools`."""
    rules: Sequence[Rule] = ()
    """Which calls run at once, which a person approves first, and which never run."""
    ask_timeout_s: float | None = None
    """Seconds that an approval is waited for; None: as long as it takes."""
    at_ask_timeout: Otherwise = "deny"
    """What counts as said where nobody answered by then. Never a yes to a call of which a rule, or
    the tool's `ask`, could not be decided."""
    limits: Limits = field(default_factory=Limits)
    max_tokens: int = 16_000
    """Output tokens of one reply."""
    effort: Effort | None = None
    """How much Claude puts into a reply; None: the model's own default."""
    thinking: ThinkingName | Mapping[str, Any] | None = None
    """A kind, or a dict as the API defines it; None: the model's own default."""
    context: ContextPolicy = "compact"
    """How room is made where the model's context window, or the 32 MB that a request may have, is
    nearly full. `compact`: Claude sums up the conversation, and goes on from that. `clear`: before
    it comes to that, the API leaves old tool results out of what Claude reads. `stop`: not at all.
    Where no room can be made, the run ends with outcome `context_exceeded`."""
    context_management: Mapping[str, Any] | None = None
    """Edits of the API's own, in place of what `clear` asks for."""
    cache: CachePolicy = "auto"
    """How long the API keeps what every step sends again."""
    at_limit: AtLimit = "stop"
    """`wait`: a run that meets a limit waits for a person who raises it."""
    needs_workspace: bool = False
    """Its tools work in a folder: a run without one is refused at its beginning."""
    metadata: Mapping[str, Any] | None = None
    """What the API is told about the request: `{"user_id": …}`, an id that names no person."""
    service_tier: ServiceTier | None = None
    speed: Speed | None = None
    """`fast`: a reply comes up to 2.5 times as fast, for twice the price."""
    betas: Sequence[str] = ()
    """Beta features that every request names, beside those that Onward sees it needs."""
    extra_body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """More of a Messages API request's body, as plain JSON: `tool_choice`, `mcp_servers`, …"""

    def __post_init__(self) -> None:
        checks.refuse_name(self.name)
        where = f"Agent {self.name!r}"
        checks.refuse_text(where, "model", self.model, empty=False)
        checks.refuse_text(where, "system", self.system, empty=True)
        object.__setattr__(self, "tools", tuple(self.tools))
        checks.refuse_tools(where, self.tools)
        refuse_rules(where, self.rules, self.tools)
        object.__setattr__(self, "rules", tuple(self.rules))
        checks.refuse_ask_timeout(where, self.ask_timeout_s, self.at_ask_timeout)
        checks.refuse_server_tools(where, self.server_tools, self.tools)
        checks.refuse_limits(where, self.limits)
        checks.refuse_max_tokens(where, self.max_tokens)
        checks.refuse_betas(where, self.betas)
        for what, given, known in self._choices():
            checks.refuse_choice(where, what, given, known)
        self._refuse_dicts(where)

    def _choices(self) -> Sequence[tuple[str, object, Sequence[object]]]:
        return (
            ("effort", self.effort, (None, *get_args(Effort))),
            ("context", self.context, get_args(ContextPolicy)),
            ("cache", self.cache, get_args(CachePolicy)),
            ("at_limit", self.at_limit, get_args(AtLimit)),
            ("at_ask_timeout", self.at_ask_timeout, get_args(Otherwise)),
            ("service_tier", self.service_tier, (None, *get_args(ServiceTier))),
            ("speed", self.speed, (None, *get_args(Speed))),
        )

    def _refuse_dicts(self, where: str) -> None:
        if self.thinking is not None:
            checks.refuse_thinking(where, self.thinking, self.max_tokens, self.betas)
        if self.metadata is not None:
            checks.refuse_json(where, "metadata", self.metadata)
        if self.context_management is not None:
            managed = self.context_management
            checks.refuse_context_management(where, self.context, managed)
        checks.refuse_extra_body(where, self.extra_body)

    @property
    def offered(self) -> Sequence[Tool[..., Any]]:
        """What Claude may call: its tools, and the one that reads on in their long results."""
        return (*self.tools, read_result) if self.tools else ()

    @property
    def effects(self) -> dict[str, EffectClass]:
        """Effect class by name of what Claude may call."""
        return {tool.name: tool.effect for tool in self.offered}

    @property
    def cached(self) -> CachePolicy:
        """`cache`, but for an hour where a person is asked, who takes more than five minutes."""
        asks = any(tool.options.ask != "never" for tool in self.tools)
        asks = asks or any(rule.decision == "ask" for rule in self.rules)
        return "1h" if self.cache == "auto" and asks else self.cache

    def compacts(self, model: str | None = None) -> bool:
        """Say whether Claude is asked for a summary where its window is nearly full.

        `model`: instead of the agent's own. One that is not known is asked; it may refuse.
        """
        known = capacity(model or self.model)
        return self.context != "stop" and (known is None or known.sums_up)

    def tool(self, name: str) -> Tool[..., Any] | None:
        """Find what Claude may call by name; None if there is none of that name (any more)."""
        return next((tool for tool in self.offered if tool.name == name), None)

    def definition(self, model: str | None = None, known: Capacity | None = None) -> str:
        """Write what stays fixed for a run: JSON text of a Messages API request without messages.

        `model`: instead of the agent's own. `known`: what it can; None: what our table knows of it.
        Imports `anthropic`, for the tools' schemas. Raises `AppError` for a tool without a schema,
        and where the model is known to refuse what the agent asks for.
        """
        body = self._body(model or self.model, self.tool_definitions())
        self._refuse_unfit(body, known)
        return json_text.dumps(body)

    def tool_definitions(self) -> Sequence[Mapping[str, Any]]:
        """Write its tools as the API takes them.

        Imports `anthropic` where it has any of our own. Raises `AppError` for one without a schema.
        """
        return [*map(_definition, self.offered), *map(dict, self.server_tools)]

    def refuse_unfit(self) -> None:
        """Raise `AppError` where the agent's model is known to refuse what the agent asks for."""
        self._refuse_unfit(self._body(self.model, ()), None)

    def _refuse_unfit(self, body: Mapping[str, Any], known: Capacity | None) -> None:
        refuse_unfit(f"Agent {self.name!r}", body, known or capacity(body["model"]))

    def _body(self, model: str, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        extra = dict(self.extra_body)
        effort = {"effort": self.effort} if self.effort else {}
        options: dict[str, Any] = {
            "context_management": self._edits(),
            "system": self.system,
            "tools": tools,
            "thinking": self._thinking(),
            "output_config": effort | extra.pop("output_config", {}),
            "metadata": self.metadata,
            "service_tier": self.service_tier,
            "speed": self.speed,
        }
        # The API refuses an empty system prompt.
        given = {name: value for name, value in options.items() if value}
        return {"model": model, "max_tokens": self.max_tokens} | given | extra

    def _edits(self) -> Mapping[str, Any] | None:
        if self.context_management is None and self.context == "clear":
            return {"edits": [{"type": _CLEARS}]}
        return self.context_management

    def _thinking(self) -> Mapping[str, Any] | None:
        return {"type": self.thinking} if isinstance(self.thinking, str) else self.thinking


class App:
    """The agents of one worker: `App(Agent(…), Agent(…))`.

    `on_waiting` is called, at least once and on a thread of its own, with each thing for which a
    run begins to wait for a person. It has ten seconds. One that fails is called again for about a
    minute, and never harms the run.

    Raises `AppError` for a doubled name, and for an `on_waiting` that is no async function.
    """

    def __init__(self, *agents: Agent, on_waiting: OnWaiting | None = None) -> None:
        for agent in agents:
            if not isinstance(agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise AppError(f"App takes agents, not {agent!r}; make one with onward.Agent(…)")
        if not agents:
            raise AppError("App has no agents; give it at least one onward.Agent(…)")
        self.agents: dict[str, Agent] = {}
        for agent in agents:
            if agent.name in self.agents:
                raise AppError(f"App has two agents named {agent.name!r}; rename one")
            self.agents[agent.name] = agent
        if on_waiting is not None:
            refuse_no_hook(on_waiting)
        self.on_waiting = on_waiting

    def agent(self, name: str) -> Agent:
        """Find an agent by name. Raises `UsageError` that names those there are."""
        if name not in self.agents:
            known = ", ".join(repr(other) for other in self.agents)
            raise UsageError(f"There is no agent {name!r} in this app; it has {known}")
        return self.agents[name]

    def check(self) -> None:
        """Raise `AppError` for what would fail every run of an agent, as a tool without a schema.

        Imports `anthropic`.
        """
        for agent in self.agents.values():
            agent.definition()

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
    what = "no such name" if found is None else f"{found!r:.80}, which is no onward.App"
    # The file too: a name of the standard library's, or of what is imported already, leads there.
    where = f"module {parts['module']!r} ({getattr(module, '__file__', None) or 'a folder'})"
    raise AppError(f"{spec!r}: looked for {parts['attribute']!r} in {where} and found {what}{hint}")


def _import(name: str) -> ModuleType:
    own_code.refuse_ours(name)
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        own_code.refuse_ours(error.name or "")
        raise AppError(_not_found(name, error, here)) from error
    except AppError as error:
        raise AppError(f"App module {name!r} is not valid: {error}") from error
    except ValidationError as error:
        raise AppError(f"App module {name!r} is not valid: {_refused(error)}") from error
    except (Exception, SystemExit) as error:  # importing runs whatever the module holds
        raise AppError(
            f"App module {name!r} failed to import: {type(error).__name__}: {error};"
            f" try `python -c 'import {name}'` to see where"
        ) from error


def _refused(error: ValidationError) -> str:
    """Say in a line what pydantic refused, such as a limit of zero."""
    problems = (
        f"{'.'.join(map(str, problem['loc']))} is {problem['input']!r}: {problem['msg']}"
        for problem in error.errors()
    )
    return f"in {error.title}, {'; '.join(problems)}"


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
    text = json.dumps(definition, ensure_ascii=False)
    checks.refuse_surrogates(f"The definition of tool {tool.name!r}", text)
    return definition
