"""The key for Claude's API: whether there is one, and whether it works, which costs a little."""

import json
import os
from collections.abc import AsyncIterator
from typing import Any

from onward.checks import Check, State
from onward.claude_errors import Posture
from onward.claude_key import key_trouble
from onward.doctor.site import Site
from onward.figures import spend_line
from onward.invoked import typed
from onward.messages import Attempt
from onward.pricing import spend_of

_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_QUESTION = b'{"role":"user","content":"Say: well."}'
_MOST_TOKENS = 16


async def look(site: Site) -> AsyncIterator[Check]:
    """Look for a key; nothing is sent."""
    del site
    # The SDK knows too, but loading it takes longer than all the rest.
    name = next((each for each in _VARIABLES if os.environ.get(each)), None)
    if name and (trouble := key_trouble(os.environ[name])):
        yield Check("key", "wrong", trouble, f"Correct {name}, where workers are started too")
    elif name:
        found = f"{name} is set; `{typed('doctor', '--call')}` tries it, which costs a little"
        yield Check("key", "ok", found)
    else:
        found = "no key for Claude's API is set here. A worker needs one"
        yield Check("key", "note", found, "Set ANTHROPIC_API_KEY where workers are started")


async def call(site: Site) -> AsyncIterator[Check]:
    """Ask Claude something, of the app's first agent's model, and say what it cost."""
    from onward import claude  # noqa: PLC0415  (as above)
    from onward.claude_request import reply_request  # noqa: PLC0415

    model = next(iter(site.app.agents.values())).model
    request = reply_request(json.dumps({"model": model, "max_tokens": _MOST_TOKENS}), [_QUESTION])
    async with claude.client(silence_s=30.0) as anthropic:
        try:
            reply = await claude.ask(anthropic, request, _ignored, _ignored)
        except Exception as error:  # noqa: BLE001  (`posture` tells which ones are the API's)
            yield _failed(claude.posture(error), error)
            return
    yield _answered(model, reply)


def _ignored(*told: object) -> None:
    del told


def _failed(posture: Posture | None, error: Exception) -> Check:
    if posture is None:
        raise error
    state: State = "away" if posture.then == "retry" and not posture.misconfigured else "wrong"
    return Check("call", state, posture.message)


def _answered(model: str, reply: dict[str, Any]) -> Check:
    spend = spend_of([Attempt(model=model, usage=reply["usage"], whole=True)])
    figures = {"model": model, "cost_usd": spend.cost_usd, "tokens": spend.tokens}
    return Check("call", "ok", f"{model} answered: {spend_line(spend)}", figures=figures)
