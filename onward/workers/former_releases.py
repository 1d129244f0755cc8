"""Workers of releases before 0.6, which do not tell Redis that they live: Temporal knows them."""

import asyncio
from collections.abc import Callable
from importlib.metadata import version
from time import monotonic

from temporalio.client import Client

from onward.errors import UsageError
from onward.workers.pollers import LONGEST_POLL, Poller, polled

_FIRST_TO_TELL = (0, 6)
_LOOK_EVERY_S = 1.0


async def refuse_former(client: Client, task_queue: str, say: Callable[[str], None]) -> None:
    """Return once no worker of a release before 0.6 polls the task queue.

    Temporal names who polled for minutes after they are gone. So where it names one, this waits for
    75 seconds at most, which it says, for another poll of theirs.

    Raises:
        UsageError: one polls.
        ConnectError: Temporal does not answer.

    """
    before = await _former(client, task_queue)
    if not before:
        return
    names = ", ".join(f"{each.identity} ({each.build_id})" for each in before.values())
    say(f"{names} polled {task_queue!r} in the last minutes; waiting to see whether that goes on")
    ends = monotonic() + LONGEST_POLL.total_seconds()
    while monotonic() < ends:
        for identity, poller in (await _former(client, task_queue)).items():
            if identity not in before or poller.last > before[identity].last:
                raise UsageError(_refusal(poller, task_queue))
        await asyncio.sleep(_LOOK_EVERY_S)


async def _former(client: Client, task_queue: str) -> dict[str, Poller]:
    found = await polled(client, task_queue)
    return {each.identity: each for each in found if each.release and _is_former(each.release)}


def _is_former(release: str) -> bool:
    return tuple(map(int, release.split(".")[:2])) < _FIRST_TO_TELL


def _refusal(poller: Poller, task_queue: str) -> str:
    return (
        f"the worker {poller.identity} polls the task queue {task_queue!r} too, and is of release "
        f"{poller.release}; this one is of {version('onward')}. Releases "
        "of different minor numbers cannot take over each other's runs: stop the old workers "
        "first, or give the new ones a task queue of their own (ONWARD_TASK_QUEUE)"
    )
