"""Judge the calls that a reply asks for, once, in the activity that received it.

The workflow then decides from history alone: every call carries its class, fingerprint and key.
"""

from collections.abc import Mapping
from typing import Any, cast

from onward import json_text
from onward.agents import Agent
from onward.identity import business_position, downstream_key, fingerprint
from onward.messages import BusinessKey, Opening, PreparedCall, RunRef
from onward.stream import INVALID_JSON
from onward.tools import Tool, check
from onward.tools.options import Options
from onward.transcript import blocks_of

_SUMMARY_LENGTH = 100


def call_input(message: str, index: int) -> str:
    """Input of a reply's call by its position (ids may repeat), as the text that Claude wrote."""
    return json_text.dumps(_tool_uses(message)[index].get("input", {}))


def prepare_calls(
    run: RunRef, step: str, message: str, opening: Opening, agent: Agent
) -> tuple[PreparedCall, ...]:
    """Prepare every call of a reply that stopped for tool use, in Claude's order.

    `message` is the reply as JSON text. An unknown tool or an input that does not fit the frozen
    schema becomes a call with a `refusal`, which never runs.
    """
    schemas = _schemas(opening)
    asked = _tool_uses(message)
    return tuple(
        _prepare(run, f"{step}.{number}", block, opening, schemas, agent.tool(str(block["name"])))
        for number, block in enumerate(asked, start=1)
    )


def _tool_uses(message: str) -> list[dict[str, Any]]:
    return [block for block in blocks_of(message) if block.get("type") == "tool_use"]


def _prepare(  # noqa: PLR0917  (all of them are read)
    run: RunRef,
    call: str,
    block: dict[str, Any],
    opening: Opening,
    schemas: Mapping[str, dict[str, Any]],
    tool: Tool[..., Any] | None,
) -> PreparedCall:
    name, text = str(block["name"]), json_text.dumps(block.get("input", {}))
    fp, options = fingerprint(name, text), tool.options if tool else Options()
    given, refusal = _values(text)
    refusal = refusal or _refusal(name, given, schemas)
    business = None
    if refusal is None:
        business, refusal = _business_key(name, options, given)
    return PreparedCall(
        call=call,
        tool_use_id=str(block["id"]),
        tool=name,
        effect=opening.effects.get(name, "at_most_once"),
        fingerprint=fp,
        key=downstream_key(run, call, fp, business),
        summary=_summary(given),
        timeout_s=options.longest_s,
        refusal=refusal,
        ask="" if refusal else options.asks(given),
        in_doubt=options.settler,
        business=business,
    )


def _business_key(
    tool: str, options: Options, given: dict[str, Any]
) -> tuple[BusinessKey | None, str | None]:
    """Name what a call asks for; or say to Claude why it cannot be named, and so not be run."""
    if options.key_from is None:
        return None, None
    try:
        name = _named(options.key_from(dict(given)))
    except Exception as error:  # noqa: BLE001  (the author's code, on whatever Claude sent)
        said = f"{type(error).__name__}: {error}"
        return None, f"What the call asks for cannot be told ({said}). Nothing was done."[:500]
    everywhere = options.key_scope == "everywhere"
    return BusinessKey(position=business_position(tool, name), everywhere=everywhere), None


def _named(name: object) -> str:
    # None of an input that lacks a field would make one request of all that lack it.
    if isinstance(name, str) and name:
        return name
    raise TypeError(f"key_from returned {name!r}, expected a text that is not empty")


def _values(text: str) -> tuple[Any, str | None]:
    """Read a call's input; or say to Claude why it cannot be read. The reply is paid: keep it."""
    try:
        return json_text.values(text), None
    except ValueError as error:
        return None, f"The arguments cannot be used: {error}. Nothing was done."[:500]


def _schemas(opening: Opening) -> dict[str, dict[str, Any]]:
    frozen = json_text.values(opening.frozen)
    return {tool["name"]: tool.get("input_schema", {}) for tool in frozen.get("tools", [])}


def _refusal(name: str, given: Any, schemas: Mapping[str, dict[str, Any]]) -> str | None:
    if name not in schemas:
        return f"There is no tool {name!r}. The tools are: {', '.join(schemas) or 'none'}."
    if isinstance(given, dict) and set(cast("dict[str, Any]", given)) == {INVALID_JSON}:
        return "The arguments were not valid JSON. Nothing was done; send them again, whole."
    return check(cast("object", given), schemas[name])


def _summary(given: Any) -> str:
    fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    line = " ".join(f"{key}={_brief(value)}" for key, value in fields.items())
    clean = line.encode(errors="replace").decode()
    return clean if len(clean) <= _SUMMARY_LENGTH else f"{clean[: _SUMMARY_LENGTH - 1]}…"


def _brief(value: Any) -> str:
    text = value if isinstance(value, str) else json_text.dumps(value)
    return " ".join(text.split())[:60]
