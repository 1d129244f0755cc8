"""Tell the app what began to wait for a person, by its own `on_waiting`."""

import asyncio
from datetime import timedelta
from functools import partial

from temporalio import activity

from onward.messages import Notified, NotifyInput
from onward.names import NOTIFY
from onward.notices import OnWaiting, WaitingNotice, notice_of
from onward.tools.running import run_apart

from .failures import again
from .pulse import Pulse
from .services import Services

_LONGEST_S = 10.0
"""Seconds that the app's function may take for one notice."""


class NotifyActivity:
    """The activity `notify_people`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=NOTIFY)
    async def notify(self, given: NotifyInput) -> Notified:
        """Call the app's function once for each that waits, all at once.

        Raises what Temporal retries where it fails for one; the others are not told again.
        """
        hook = self._services.app.on_waiting
        if hook is None:  # a deploy took it away
            return Notified()
        beat = activity.info().heartbeat_timeout or timedelta(seconds=self._services.takeover_s)
        async with Pulse(beat.total_seconds()) as pulse:
            pulse.details = told = _told_before()
            notices = [
                notice_of(given.run.workflow_id, given.agent, each) for each in given.waiting
            ]
            telling = [_tell(hook, notice, told) for notice in notices if notice.call not in told]
            failures = [text for text in await asyncio.gather(*telling) if text]
            if failures:
                pulse.beat()
                raise again("on_waiting", f"the app's on_waiting failed for {'; '.join(failures)}")
        return Notified()


async def _tell(hook: OnWaiting, notice: WaitingNotice, told: list[str]) -> str:
    """Call the app's function, apart from the worker's loop; says why it failed, if it did."""
    try:
        await run_apart(partial(hook, notice), name="on_waiting", timeout_s=_LONGEST_S)
    except Exception as error:  # noqa: BLE001  (an app's code may raise anything at all)
        return f"{notice.call}: {error!r}"
    told.append(notice.call)
    return ""


def _told_before() -> list[str]:
    """Return the calls of which an earlier attempt has told the app."""
    details = activity.info().heartbeat_details
    return list(details[0]) if details else []
