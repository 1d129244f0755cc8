"""Judge the calls that a reply asks for, once, in the activity that received it.

The workflow then decides from history alone: every call carries its class, fingerprint and key.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from onward import json_text
from onward.agents import Agent
from onward.identity import business_position, downstream_key, fingerprint
from onward.messages import BusinessKey, Opening, PreparedCall, RunRef
from onward.stream import INVALID_JSON
from onward.tools import Tool, check
from onward.tools.options import Options
from onward.transcript import tool_uses

_SUMMARY_LENGTH, _KEY_LENGTH = 160, 40
_BARE = re.compile(r"[\w.:/@+-]+")
"""Text that needs no quotes: nothing in it looks like another field."""
_ESCAPED = re.compile(r"\\.")


def call_input(message: str, index: int) -> str:
    """Input of a reply's call by its position (ids may repeat), as the text that Claude wrote."""
    return json_text.dumps(tool_uses(message)[index].get("input", {}))


def prepare_calls(
    run: RunRef, step: str, message: str, opening: Opening, agent: Agent
) -> tuple[PreparedCall, ...]:
    """Prepare every call of a reply that stopped for tool use, in Claude's order.

    `message` is the reply as JSON text. An unknown tool or an input that does not fit the frozen
    schema becomes a call with a `refusal`, which never runs.
    """
    schemas = _schemas(opening)
    asked = tool_uses(message)
    return tuple(
        _prepare(run, f"{step}.{number}", block, opening, schemas, agent.tool(str(block["name"])))
        for number, block in enumerate(asked, start=1)
    )


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
        failed = f"The tool's key_from failed, so what the call asks for cannot be told ({said})"
        return None, f"{failed[:480]}. Nothing was done."
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
    # A tool of the API's own has none, and a call of it that is left to us cannot be run.
    ours = [tool for tool in frozen.get("tools", []) if "input_schema" in tool]
    return {tool["name"]: tool["input_schema"] for tool in ours}


def _refusal(name: str, given: Any, schemas: Mapping[str, dict[str, Any]]) -> str | None:
    if name not in schemas:
        return f"There is no tool {name!r}. The tools are: {', '.join(schemas) or 'none'}."
    if isinstance(given, dict) and set(cast("dict[str, Any]", given)) == {INVALID_JSON}:
        return "The arguments were not valid JSON. Nothing was done; send them again, whole."
    return check(cast("object", given), schemas[name])


def _summary(given: Any) -> str:
    """Show an input in one line, from which a person decides: Claude can hide and forge nothing."""
    fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    keys = [_cut(_text(key), _KEY_LENGTH) for key in fields]
    values = [_text(value) for value in fields.values()]
    room = _room([*map(len, values)], _SUMMARY_LENGTH - sum(len(key) + 2 for key in keys))
    line = " ".join(f"{k}={_cut(v, room)}" for k, v in zip(keys, values, strict=True))
    return _cut(line, _SUMMARY_LENGTH)


def _text(value: Any) -> str:
    bare = isinstance(value, str) and _BARE.fullmatch(value)
    return value if bare else json_text.printable(json_text.dumps(value))


def _room(lengths: Sequence[int], total: int) -> int:
    """Say how long each text may be: short ones stay whole, long ones share what they leave."""
    left = total
    for done, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - done)
        if length > share:
            return share
        left -= length
    return total


def _cut(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    kept = f"{text[: max(length - 2, 0)]}…"
    # A quote left open would make the next field look like a part of this one.
    is_open = _ESCAPED.sub("", kept).count('"') % 2
    return f'{kept}"' if is_open else kept
