"""An app whose `on_waiting` writes down what it is told, and hangs at first: to be killed in it."""

import asyncio
import os
from pathlib import Path

from onward import Agent, App, WaitingNotice, tool

FOLDER = Path(os.environ.get("NOTICES", "."))


@tool(ask="always")
async def act() -> str:
    """Act, once a person has approved it."""
    return "acted"


async def tell(notice: WaitingNotice) -> None:
    """Tell, in a file of this process."""
    first = not os.listdir(FOLDER)  # noqa: PTH208  (as short)
    (FOLDER / f"{os.getpid()}-{notice.run}-{notice.call}").touch()
    await asyncio.sleep(3600 if first else 0)


app = App(Agent("tester", model="claude-sonnet-5-5", tools=[act]), on_waiting=tell)
