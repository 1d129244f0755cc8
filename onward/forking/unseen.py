"""Messages that people sent to a run, and Claude never saw: a fork goes on with them."""

from temporalio.client import Client

from onward.forking.cut import Cut
from onward.messages import PersonSaid
from onward.runs import Run, ended


async def unseen(client: Client, run: Run, cut_off: Cut) -> tuple[PersonSaid, ...]:
    """Return the messages that a fork tells Claude, in the order they were sent.

    None where it is cut before the run's end: they were about what came after.
    Raises NoSuchRun, ConnectError.
    """
    at_end = len(cut_off.copied) == len(cut_off.retelling.steps)
    how = await ended(client, run) if at_end else None
    return how.result.unseen if how else ()
