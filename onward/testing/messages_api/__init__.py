"""A Messages API on your own machine that says what its scripts say.

    scripts = {"hello": Script(steps=[Step(content=[{"type": "text", "text": "Hello."}])])}
    async with ScriptedAPI(scripts) as api:
        claude = AsyncAnthropic(base_url=api.url, api_key="any", max_retries=0)
        …  # a first message with "[script:hello]" in it

It streams real event orders, refuses what the real API refuses, keeps rate limits if it is given
some, fails in the ways that the real one fails, and writes a journal of every request. What a reply
says depends only on script, step and request body; what it cost also on what is in its prompt
cache. As a process: `python -m onward.testing.messages_api --scripts FILE.json`.
"""

from onward.testing.messages_api.journal import Entry, Journal, read_journal
from onward.testing.messages_api.script import (
    Asked,
    ErrorDetail,
    Fault,
    Script,
    Scripted,
    Step,
    load_scripts,
    scripts_from,
)
from onward.testing.messages_api.server import ScriptedAPI

__all__ = [
    "Asked",
    "Entry",
    "ErrorDetail",
    "Fault",
    "Journal",
    "Script",
    "Scripted",
    "ScriptedAPI",
    "Step",
    "load_scripts",
    "read_journal",
    "scripts_from",
]
