"""Names on the wire: written in every history, so they never change and no file's place matters."""

from typing import Literal

TASK_QUEUE = "onward"
WORKFLOW = "agent"
"""The workflow type that people see in the Temporal UI."""

BEGIN, CALL_CLAUDE, REFILL, RESOLVE, END = "begin", "call_claude", "refill", "resolve", "end"
CARRY, FORK, EDIT, NOTIFY = "carry", "fork", "edit_call", "notify_people"
RESERVED_ACTIVITIES = frozenset(
    {BEGIN, CALL_CLAUDE, REFILL, RESOLVE, CARRY, FORK, EDIT, NOTIFY, END}
)
"""Names of Onward's own activities; a tool's activity type is the tool's name."""
FORK_OWNER = "fork:"
"""Begins the name of the owner of a record that a fork wrote into its parent's ledger."""
CANCEL_OWNER = "cancel:"
"""Likewise of one that the end of a cancelled run wrote, for a call that it had cut off."""
FORK_NOTICE = "fork"
"""Id of the message that tells Claude of a fork what its parent did since: no person said it."""
GO_ON_NOTICE = "continue:"
"""Begins the id of a message that tells Claude to go on where it was cut off: likewise."""
STATUS, AGENT, MODEL, TAGS = "OnwardStatus", "OnwardAgent", "OnwardModel", "OnwardTags"
STEP, TOKENS, COST, WAITING = "OnwardStep", "OnwardTokens", "OnwardCostUsd", "OnwardWaiting"
AttributeType = Literal["Keyword", "KeywordList", "Int", "Double"]
ATTRIBUTES: dict[str, AttributeType] = {
    STATUS: "Keyword",
    AGENT: "Keyword",
    MODEL: "Keyword",
    WAITING: "Keyword",
    TAGS: "KeywordList",
    STEP: "Int",
    TOKENS: "Int",
    COST: "Double",
}
"""Search attributes, and their types as Temporal names them. `OnwardStatus` is `RunStatus.state`,
and of an ended run its outcome; `OnwardWaiting` is what a run waits for: a `WaitKind`, or nothing;
an element of `OnwardTags` is `name=value`."""
RULES = 5
"""`Opening.rules` of the runs that this release begins."""
AGAIN = "Say it again"
"""In a run's refusal of what it can take in a moment: clients then say it again by themselves."""
MAX_SAID_BYTES = 100_000
"""Of a message to Claude, and of an input that a person gives a call. What is longer is better put
where a tool can read it."""
READ_RESULT = "read_result"
"""The tool that every agent with tools has beside its own."""

StopType = Literal[
    "app",
    "cancelled",
    "claude",
    "context_exceeded",
    "context_full",
    "ledger_gap",
    "limit",
    "mismatch",
    "no_summary",
    "not_settled",
]
"""Types of the errors with which an activity stops a step for good.

`ledger_gap`: refill and ask again. `mismatch`: another branch used this position. `cancelled`: the
workflow asked for it. `context_full`: nothing was sent yet, and a summary should come first.
`context_exceeded`: the API refused the request for its length. `limit`: the run met a limit, which
its details name. `no_summary`: Claude made none.
`not_settled`: what a person said of a doubt was refused. The others end the run.
"""
