"""Judge the input that a person gives a call in place of Claude's, before the call is approved.

Everything that was taken from Claude's input is taken from this one anew: schema, rules,
fingerprint, keys. What Claude said is not touched, and the ledger is only read.
"""

from temporalio import activity

from onward import json_text
from onward.agents import Agent
from onward.messages import Edited, EditInput, Opening
from onward.names import EDIT
from onward.transcript import BEGINNING

from .failures import again, translated
from .prepare import prepare_edited, prepared_apart
from .pulse import Pulse
from .records import opening_of
from .services import Services

_MOST_DEEP = 200


class EditActivity:
    """The activity `edit_call`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=EDIT)
    async def edit_call(self, given: EditInput) -> Edited:
        """Return the call as it would run with the edit, or why it may not."""
        async with Pulse(given.takeover_s):
            with translated():
                return await self._edited(given)

    async def _edited(self, given: EditInput) -> Edited:
        if unfit := _unfit(given.edit):
            return Edited(refusal=unfit)
        agent, opening = self._agent(given), await self._opening(given)
        made = await prepared_apart(
            lambda: prepare_edited(given.run, given.call, given.edit, opening, agent)
        )
        return Edited(refusal=made.refusal) if made.refusal else Edited(call=made)

    def _agent(self, given: EditInput) -> Agent:
        agent = self._services.app.agents.get(given.agent)
        if agent is None:
            text = f"this worker's app has no agent {given.agent!r}; start a worker that has it"
            raise again("no_agent", text, delay_s=1.0)
        if agent.tool(given.call.tool) is None:
            # Nobody here can tell what names a call of it, and in which words.
            text = f"agent {given.agent!r} of this worker's app lacks the tool {given.call.tool!r}"
            raise again("no_tool", f"{text}; start a worker that has it", delay_s=1.0)
        return agent

    async def _opening(self, given: EditInput) -> Opening:
        return opening_of(await self._services.ledger(given.run).records(BEGINNING))


def _unfit(edit: str) -> str:
    """Say to a person why their text is no tool's input; empty if it may be one."""
    if (depth := json_text.depth(edit)) > _MOST_DEEP:
        return f"the edit is nested {depth:,} deep, expected {_MOST_DEEP} at most"
    try:
        json_text.load_object(edit)
    except ValueError as error:
        return f"the edit is no JSON object, which a call's whole input is: {error}"
    return ""
