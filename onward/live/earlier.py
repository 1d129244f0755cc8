"""The steps of a run that its newest history no longer tells: they were carried over."""

from collections.abc import Collection, Iterator

from temporalio.client import Client

from onward import json_text
from onward.errors import HistoryGap, PayloadError, UsageError
from onward.live.happenings import Asked, CallEnded, Happening, Replied, Trouble
from onward.messages import Spend
from onward.retelling.pieces import content_text
from onward.retelling.steps import Retelling, Step, retell
from onward.runs import Run


async def carried_steps(client: Client, run: Run, own: Collection[str]) -> list[Happening]:
    """Tell the steps before the first of `own`, those that the run's newest history tells.

    Raises NoSuchRun, ConnectError.
    """
    try:
        retelling = await retell(client, run)
    except (HistoryGap, PayloadError, UsageError) as error:
        return [Trouble(f"earlier steps cannot be told: {error}")]
    return [*_told(run, retelling, own)]


def _told(run: Run, retelling: Retelling, own: Collection[str]) -> Iterator[Happening]:
    total = Spend()
    for step in retelling.steps:
        if step.id in own:
            return
        total += step.reply.spend
        yield Asked(run.run_id, step.id, tuple(step.said))
        yield Replied(step.id, step.reply, total)
        yield from _results(retelling, step)


def _results(retelling: Retelling, step: Step) -> Iterator[Happening]:
    for number, call in enumerate(step.reply.calls):
        if result := retelling.result(call.call):
            text = content_text(json_text.loads(result.content))
            yield CallEnded(call.call, call.tool, result.status, text, result.took_s)
        elif step.answers:
            text = content_text(step.answers[number].get("content"))
            yield CallEnded(call.call, call.tool, "not_run", text)
