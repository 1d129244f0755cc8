"""What makes an agent unusable whatever its model, said where it is made; each raises `AppError`.

`where` names the agent, and `what` the option, in the error.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, get_args

from onward.errors import AppError
from onward.messages import Limits
from onward.models.table import ThinkingKind, ThinkingName
from onward.names import READ_RESULT, RESERVED_ACTIVITIES
from onward.tools.decorator import NAME, Tool

_NOT_EXTRA = {
    **dict.fromkeys(
        (
            *("model", "system", "max_tokens", "tools", "thinking", "context_management"),
            *("metadata", "service_tier", "speed", "betas"),
        ),
        "give it as the agent's argument",
    ),
    **dict.fromkeys(("messages", "stream"), "Onward sets it for every request"),
    "compaction": "give the agent context='compact'",
    "cache_control": "give the agent cache='auto', '5m', '1h' or 'off'",
    "thread": "Onward keeps the conversation and sends all of it",
    **dict.fromkeys(("temperature", "top_p", "top_k"), "the API refuses it"),
    **dict.fromkeys(
        ("extra_headers", "extra_query", "extra_body", "timeout"), "it is not part of a body"
    ),
}
_CLIENT_RUN = ("bash_2", "text_editor_", "memory_", "computer_", "browser_")
"""Tools that the API defines and leaves to the client to run."""
_BETA = re.compile(r"[a-z0-9][a-z0-9.-]*")
_LONGEST_S = 10 * 365 * 24 * 3600
_MOST_STEPS = 1_000_000
_LEAST_BUDGET = 1024


def refuse_name(name: object) -> None:
    """Refuse what cannot name an agent."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise AppError(f"An agent cannot be named {name!r}: use 1 to 64 letters, digits, '_', '-'")


def refuse_text(where: str, what: str, text: object, *, empty: bool) -> None:
    """Refuse what is no text that can be sent; `empty`: it may be empty."""
    if not isinstance(text, str):
        raise AppError(f"{where} has {what} {text!r}; use a string")
    if not empty and not text.strip():
        raise AppError(f"{where} has an empty {what}")
    refuse_surrogates(f"The {what} of {where.lower()}", text)


def refuse_surrogates(what: str, text: str) -> None:
    """Refuse text that no encoder takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise AppError(
            f"{what} holds half a surrogate pair at character {error.start}, which cannot be sent;"
            " remove it"
        ) from error


def refuse_choice(where: str, what: str, given: object, known: Iterable[object]) -> None:
    """Refuse what is none of the choices."""
    choices = [*known]
    if not any(given is choice or given == choice for choice in choices):
        raise AppError(f"{where} has {what} {given!r}; use one of {', '.join(map(repr, choices))}")


def refuse_max_tokens(where: str, given: object) -> None:
    """Refuse what is no number of tokens."""
    if type(given) is not int or given < 1:
        raise AppError(f"{where} has max_tokens {given!r}; use an integer above 0")


def refuse_tools(where: str, tools: Sequence[object]) -> None:
    """Refuse what is no tool, and names that tools cannot have."""
    names: list[str] = []
    for tool in tools:
        if not isinstance(tool, Tool):
            raise AppError(f"{where} has {tool!r} as a tool; decorate the function with @tool")
        names.append(tool.name)
        if tool.name in {*RESERVED_ACTIVITIES, READ_RESULT}:
            raise AppError(f"{where} has a tool {tool.name!r}, a name that Onward uses; rename it")
    _refuse_doubled(where, names)


def refuse_server_tools(where: str, given: object, tools: Sequence[Tool[..., Any]]) -> None:
    """Refuse what is no definition of a tool that the API runs by itself."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise AppError(f"{where} has server_tools {given!r}; use a list of dicts")
    defined = cast("Sequence[object]", given)
    for tool in defined:
        refuse_json(where, "server_tools", tool)
        _refuse_server_tool(where, cast("Mapping[str, Any]", tool))
    named = [str(tool["name"]) for tool in cast("Sequence[Any]", defined) if "name" in tool]
    _refuse_doubled(where, [*(tool.name for tool in tools), READ_RESULT, *named])


def refuse_limits(where: str, limits: object) -> None:
    """Refuse what limits nothing."""
    if not isinstance(limits, Limits):
        raise AppError(f"{where} has limits {limits!r}; use onward.Limits(…)")
    for name, most in (("max_steps", _MOST_STEPS), ("max_wall_time", _LONGEST_S)):
        value = getattr(limits, name)
        if value > most:
            raise AppError(f"{where} has {name} {value:,} in its limits; use {most:,} at most")


def refuse_ask_timeout(where: str, seconds: object, otherwise: object) -> None:
    """Refuse a time that never comes, and an answer for a time that is not set."""
    if seconds is None:
        if otherwise != "deny":
            raise AppError(
                f"{where} has at_ask_timeout {otherwise!r} and no ask_timeout_s; give it both"
            )
    elif type(seconds) not in {int, float} or not 0 < cast("float", seconds) <= _LONGEST_S:
        raise AppError(
            f"{where} has ask_timeout_s {seconds!r}; use seconds, more than 0 and at most"
            f" {_LONGEST_S:,}"
        )


def refuse_betas(where: str, betas: object) -> None:
    """Refuse what cannot stand in the header `anthropic-beta`."""
    if not isinstance(betas, Sequence) or isinstance(betas, str):
        raise AppError(f"{where} has betas {betas!r}; use a list of names")
    for beta in cast("Sequence[object]", betas):
        if not isinstance(beta, str) or not _BETA.fullmatch(beta):
            raise AppError(
                f"{where} has the beta {beta!r}; use the name as the API's pages give it, such as"
                " 'context-1m-2025-08-07'"
            )


def refuse_json(where: str, what: str, given: object) -> None:
    """Refuse what is not a dict of plain JSON."""
    if not isinstance(given, Mapping):
        raise AppError(f"{where} has {what} {given!r}; use a dict")
    plain = dict(cast("Mapping[str, Any]", given))
    try:
        text = json.dumps(plain, allow_nan=False, ensure_ascii=False)
        same = json.loads(text) == plain
    except (TypeError, ValueError, RecursionError) as error:
        raise AppError(f"{where} has {what} that is not plain JSON: {error}") from error
    if not same:
        raise AppError(f"{where} has {what} that changes as JSON: use lists and string keys")
    refuse_surrogates(f"The {what} of {where.lower()}", text)


def refuse_thinking(where: str, given: object, max_tokens: int, betas: Sequence[str]) -> None:
    """Refuse what does not say how Claude thinks."""
    if isinstance(given, str):
        refuse_choice(where, "thinking", given, get_args(ThinkingName))
        return
    refuse_json(where, "thinking", given)
    thinking = cast("Mapping[str, Any]", given)
    refuse_choice(where, "thinking of type", thinking.get("type"), get_args(ThinkingKind))
    if thinking["type"] == "enabled":
        # With thinking between calls, the budget is for all of a turn's replies together.
        interleaved = any(beta.startswith("interleaved-thinking-") for beta in betas)
        most = None if interleaved else max_tokens
        _refuse_budget(where, thinking.get("budget_tokens"), most)


def refuse_extra_body(where: str, given: object) -> None:
    """Refuse what is not plain JSON, and what belongs elsewhere."""
    refuse_json(where, "extra_body", given)
    extra = cast("Mapping[str, Any]", given)
    for name in extra:
        if name in _NOT_EXTRA:
            raise AppError(f"{where} has {name!r} in its extra_body: {_NOT_EXTRA[name]}")
    output: object = extra.get("output_config", {})
    if not isinstance(output, Mapping) or "effort" in output:
        raise AppError(
            f"{where} has output_config {output!r} in its extra_body; use a dict, and the agent's"
            " argument for its effort"
        )


def refuse_context_management(where: str, context: str, given: object) -> None:
    """Refuse edits that cannot go with what Onward does where little room is left."""
    refuse_json(where, "context_management", given)
    # The API takes one kind of summary: it would refuse every request after the first of ours.
    if context != "stop" and "compact_" in json.dumps(given):
        raise AppError(
            f"{where} lets the API compact by its context_management, and Onward by context"
            f" {context!r}; use context='stop' with it"
        )


def _refuse_budget(where: str, budget: object, below: int | None) -> None:
    if type(budget) is not int or budget < _LEAST_BUDGET:
        raise AppError(
            f"{where} has thinking with budget_tokens {budget!r}; use {_LEAST_BUDGET} or more"
        )
    if below is not None and budget >= below:
        raise AppError(
            f"{where} has thinking with budget_tokens {budget:,}, which leaves nothing of its"
            f" max_tokens, {below:,}, for a reply; use less"
        )


def _refuse_server_tool(where: str, tool: Mapping[str, Any]) -> None:
    kind = tool.get("type")
    if not isinstance(kind, str) or kind in {"", "custom"}:
        raise AppError(
            f"{where} has {dict(tool)!r} in server_tools, without the type of a tool that the API"
            " runs; for a tool of your own decorate a function with @tool"
        )
    if kind.startswith(_CLIENT_RUN):
        raise AppError(
            f"{where} has {kind!r} in server_tools, which the API leaves to the client to run;"
            " decorate a function with @tool instead"
        )
    if "cache_control" in tool:
        raise AppError(f"{where} has cache_control in server_tools: {_NOT_EXTRA['cache_control']}")


def _refuse_doubled(where: str, names: Sequence[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise AppError(f"{where} has two tools named {name!r}; rename one")
