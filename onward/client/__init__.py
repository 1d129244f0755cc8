"""Runs from your own code: start them, look at them, say something to them, follow them.

    import onward.client

    client = await onward.client.connect()
    run = await client.start("Refund order A-17.", agent="support", run_id="refund-a-17")
    async for event in run.events():
        print(event.happening)
    print((await run.result()).text)

`onward` is made of the same. Every error is one of `onward.errors`.
"""

from onward.client.connecting import Client, StartedRun, connect
from onward.client.events import Event
from onward.client.handle import Decision, RunHandle
from onward.errors import ConnectError, NoSuchRun, OnwardError, RedisFull, UsageError
from onward.live import happenings
from onward.messages import LimitOverrides, Limits, RunResult, RunStatus, Sent, Spend, Waiting
from onward.reports import Report, Spent
from onward.runs import Run

__all__ = [
    "Client",
    "ConnectError",
    "Decision",
    "Event",
    "LimitOverrides",
    "Limits",
    "NoSuchRun",
    "OnwardError",
    "RedisFull",
    "Report",
    "Run",
    "RunHandle",
    "RunResult",
    "RunStatus",
    "Sent",
    "Spend",
    "Spent",
    "StartedRun",
    "UsageError",
    "Waiting",
    "connect",
    "happenings",
]
