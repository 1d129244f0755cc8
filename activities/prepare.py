"""Judge the calls that a reply asks for, once, in the activity that received it.

The workflow then decides from history alone: every call carries its class, fingerprint and key.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

from onward import json_text
from onward.agents import Agent
from onward.identity import business_position, downstream_key, fingerprint
from onward.messages import BusinessKey, Opening, PreparedCall, RunRef
from onward.rules import Judgement, judge
from onward.stream import INVALID_JSON
from onward.tools import check
from onward.tools.options import Options
from onward.tools.results import error_words
from onward.tools.running import run_apart
from onward.transcript import tool_uses

from .summary import summary_of

T = TypeVar("T")

_LONGEST_S = 600.0
"""For an app's functions to judge all calls of a reply; then its step is tried again."""


def call_input(message: str, index: int) -> str:
    """Input of a reply's call by its position (ids may repeat), as the text that Claude wrote."""
    return json_text.dumps(tool_uses(message)[index].get("input", {}))


def prepare_calls(
    run: RunRef, step: str, message: str, opening: Opening, agent: Agent
) -> tuple[PreparedCall, ...]:
    """Prepare every call of a reply that stopped for tool use, in Claude's order.

    `message` is the reply as JSON text. An unknown tool, an input that does not fit the frozen
    schema and one that a rule denies become calls with a `refusal`, which never run.
    """
    preparing = _Preparing(run, opening, agent)
    asked = enumerate(tool_uses(message), start=1)
    return tuple(preparing.prepared(f"{step}.{number}", block) for number, block in asked)


def prepare_edited(
    run: RunRef, call: PreparedCall, edit: str, opening: Opening, agent: Agent
) -> PreparedCall:
    """Prepare a call anew with the input that a person gives it, JSON text of an object.

    Who edits it approves it, so what it asks for stays. An edit that changes nothing is none. It
    has a `refusal` where Claude's own input would get one.
    """
    block = {"id": call.tool_use_id, "name": call.tool, "input": json_text.load_object(edit)}
    made = _Preparing(run, opening, agent).prepared(call.call, block)
    own = call.asked or call.fingerprint
    stays = {name: getattr(call, name) for name in ("ask", "expires_s", "otherwise")}
    return made.model_copy(update={**stays, "asked": "" if made.fingerprint == own else own})


async def prepared_apart(preparing: Callable[[], T]) -> T:
    """Judge calls where nothing waits for it.

    An app's `ask` that blocks would let the lease run out: Claude is paid again, by each worker in
    turn, and the claims of other runs are lost as well.
    """
    return cast("T", await run_apart(preparing, name="rules", timeout_s=_LONGEST_S))


@dataclass(frozen=True)
class _Preparing:
    """Prepares calls of one run, one by one."""

    run: RunRef
    opening: Opening
    agent: Agent

    def prepared(self, call: str, block: dict[str, Any]) -> PreparedCall:
        """Judge what the `tool_use` block asks for, at the position `call`."""
        name, text = str(block["name"]), json_text.dumps(block.get("input", {}))
        tool = self.agent.tool(name)
        fp, options = fingerprint(name, text), tool.options if tool else Options()
        given, refusal = _values(text)
        refusal = refusal or _refusal(name, given, self._schemas)
        judged = Judgement(refusal) if refusal else judge(self.agent.rules, options, name, given)
        business, refusal = None, judged.refusal
        if refusal is None:
            business, refusal = _business_key(name, options, given)
        return PreparedCall(
            call=call,
            tool_use_id=str(block["id"]),
            tool=name,
            effect=self.opening.effects.get(name, "at_most_once"),
            fingerprint=fp,
            key=downstream_key(self.run, call, fp, business),
            summary=summary_of(given, options),
            timeout_s=options.longest_s,
            refusal=refusal,
            in_doubt=options.settler,
            business=business,
            **({} if refusal else self._asks(judged)),
        )

    def _asks(self, judged: Judgement) -> dict[str, Any]:
        """Say why a person is asked first, and for how long."""
        if not judged.ask:
            return {}
        # Where nobody could tell whether it may run, nobody's silence lets it.
        otherwise = self.agent.at_ask_timeout if judged.sure else "deny"
        timeout_s = self.agent.ask_timeout_s or 0.0
        return {"ask": judged.ask, "expires_s": timeout_s, "otherwise": otherwise}

    @cached_property
    def _schemas(self) -> dict[str, dict[str, Any]]:
        frozen = json_text.values(self.opening.frozen)
        # A tool of the API's own has none, and a call of it that is left to us cannot be run.
        ours = [tool for tool in frozen.get("tools", []) if "input_schema" in tool]
        return {tool["name"]: tool["input_schema"] for tool in ours}


def _business_key(
    tool: str, options: Options, given: dict[str, Any]
) -> tuple[BusinessKey | None, str | None]:
    """Name what a call asks for; or say to Claude why it cannot be named, and so not be run."""
    if options.key_from is None:
        return None, None
    try:
        name = _named(options.key_from(dict(given)))
    except BaseException as error:  # noqa: BLE001  (the author's code, on whatever Claude sent)
        failed = "The tool's key_from failed, so what the call asks for cannot be told"
        return None, f"{failed} ({error_words(error)}). Nothing was done."
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


def _refusal(name: str, given: Any, schemas: Mapping[str, dict[str, Any]]) -> str | None:
    if name not in schemas:
        return f"There is no tool {name!r}. The tools are: {', '.join(schemas) or 'none'}."
    if isinstance(given, dict) and set(cast("dict[str, Any]", given)) == {INVALID_JSON}:
        return "The arguments were not valid JSON. Nothing was done; send them again, whole."
    return check(cast("object", given), schemas[name])
