"""The app of the crash test's workers: one agent with the one tool that is tested.

Imported by a worker (`ONWARD_APP`); which tool, and where to write its recording, the environment
says.
"""

import os
from pathlib import Path

from onward.agents import Agent, App
from onward.testing.crash_test.loading import load_tool
from onward.testing.crash_test.names import AGENT, MODEL, RECORDING_ENV, TOOL_ENV
from onward.testing.crash_test.watching import Watch, watched


def _app() -> App:
    tool = load_tool(os.environ[TOOL_ENV])
    watch = Watch(tool, Path(os.environ[RECORDING_ENV]), os.environ)
    return App(Agent(AGENT, model=MODEL, tools=[watched(tool, watch)]))


app = _app()
