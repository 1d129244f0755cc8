"""What a scripted conversation says: scripts of steps, and the faults on the way to them.

A script is a list of replies; which one is due is the number of assistant turns in the request,
so a repeated, delayed or reordered request gets the answer that its own content asks for.

    {"refund": {"steps": [
        {"content": [{"type": "tool_use", "name": "refund", "input": {"order": "o-1"}}],
         "stop_reason": "tool_use",
         "faults": [{"status": 529}, null, {"cut": true, "after_events": 4}]},
        {"content": [{"type": "text", "text": "Done."}]}
    ]}}
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from onward.testing.messages_api.literal_json import Object, is_array

Seconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ErrorDetail(_Part):
    """The `error` object of a refusal. Left out: what the status usually says."""

    type: str
    message: str
    details: Object | None = None
    """`{"error_code": …}`: how the API tells a spend limit from a rate limit."""


_KINDS = (
    *("status", "stream_error", "end_without_stop", "cut", "stall_s"),
    *("broken_json", "text_plain", "other_shape", "unknown_delta", "unstreamed"),
)


class Fault(_Part):
    """One way in which a request goes wrong. Exactly one kind; `hold_s` goes with any or alone."""

    status: int | None = None
    """HTTP status of a refusal, before any reply."""
    retry_after: float | None = None
    """Seconds, in the header `retry-after`; None: no such header."""
    error: ErrorDetail | None = None
    headers: Mapping[str, str] = {}
    html: bool = False
    """With `status`: the body is a proxy's HTML page, no JSON."""
    stream_error: str | None = None
    """Type of an `error` event in mid-stream (`overloaded_error`), after a 200."""
    end_without_stop: bool = False
    """The stream ends cleanly before `message_stop`."""
    cut: bool = False
    """The connection is aborted in mid-stream; with `after_events` 0 before any byte."""
    stall_s: Seconds = 0
    """Silence in mid-stream, after which the reply goes on."""
    after_events: Count | None = None
    """Events that are still sent; None: all but `message_stop`, or 3 before an error event.

    A reply without streaming counts as two events, the halves of its body.
    """
    hold_s: Seconds = 0
    """Silence before the first byte."""
    broken_json: bool = False
    """A 200 whose JSON ends in the middle."""
    text_plain: bool = False
    """A 200 of plain text, as a captive portal sends."""
    other_shape: bool = False
    """A 200 of well-formed JSON that is no message."""
    unknown_delta: bool = False
    """The stream holds a delta of a type that no client knows; a reply in one piece goes well."""
    unstreamed: bool = False
    """The reply comes in one piece where a stream was asked for, as some gateways send it."""

    @model_validator(mode="after")
    def _one_kind(self) -> "Fault":
        kinds = [name for name in _KINDS if getattr(self, name)]
        if len(kinds) > 1 or not (kinds or self.hold_s):
            raise ValueError(f"a fault has exactly one kind, found {kinds!r}")
        return self


class Step(_Part):
    """One reply of Claude, and what happens to the first attempts at getting it."""

    content: Sequence[Object] = ()
    """Blocks as the API sends them; a `tool_use` without `id` gets one derived from the request."""
    stop_reason: str | None = None
    """None: `tool_use` if the content holds one, else `end_turn`."""
    recording: str | Object | None = None
    """Instead of `content`: a file of recorded traffic (or its `response` inline), sent as is."""
    usage: Object = {}
    """Laid over the estimated usage."""
    model: str | None = None
    """None: the one that was asked for."""
    fields: Object = {}
    """More top-level fields of the message: `stop_details`, `container`, …"""
    needs_tokens: Count = 0
    """With a `max_tokens` below this the reply is cut off in its last block, as Claude's is."""
    delay_s: Seconds = 0
    """Before the first byte."""
    chunk_delay_s: Seconds = 0
    """Before each event of a stream."""
    chunk_chars: Annotated[int, Field(gt=0)] = 24
    """Characters of text or JSON in a delta."""
    faults: Sequence[Fault | None] = ()
    """By attempt at the same body, the first one first; None: this one goes well."""
    faults_forever: bool = False
    """The last fault goes on for ever."""

    def fault(self, attempt: int) -> Fault | None:
        """Return what goes wrong at this attempt (from 1), if anything."""
        if self.faults and self.faults_forever:
            attempt = min(attempt, len(self.faults))
        return self.faults[attempt - 1] if attempt <= len(self.faults) else None


class Script(_Part):
    """The replies of one conversation, in order."""

    steps: Sequence[Step] = ()
    default: Step | None = None
    """The reply to every step beyond the list."""
    summary: Step = Step()
    """How a request for a summary is answered: with one, unless this names another stop reason."""

    def step(self, number: int) -> Step | None:
        """Return the step (from 0), or None where the script has no answer."""
        return self.steps[number] if number < len(self.steps) else self.default


@dataclass(frozen=True)
class Asked:
    """What a script written as a function is asked with."""

    script: str
    step: int
    """Assistant turns in the request."""
    attempt: int
    """Of this identical body, from 1."""
    body: Object


Scripted: TypeAlias = Script | Callable[[Asked], Step]
"""A list of steps, or a function of the request. The function must answer a repeat alike."""


def _listed(value: object) -> object:
    return {"steps": value} if is_array(value) else value


class _File(BaseModel):
    scripts: dict[str, Annotated[Script, BeforeValidator(_listed)]]


def load_scripts(path: Path) -> dict[str, Script]:
    """Return the scripts of a JSON file `{key: script or list of steps}`.

    Recordings are named relative to that file. Raises `pydantic.ValidationError` naming the
    field that is wrong, `OSError`, and `json.JSONDecodeError`.
    """
    return scripts_from(json.loads(path.read_text(encoding="utf-8")), base=path.parent)


def scripts_from(value: Mapping[str, object], *, base: Path = Path()) -> dict[str, Script]:
    """Return the scripts of a parsed mapping, `recording` files resolved against `base`."""
    scripts = _File.model_validate({"scripts": value}).scripts
    return {key: _resolved(script, base) for key, script in scripts.items()}


def _resolved(script: Script, base: Path) -> Script:
    steps = [_with_recording(step, base) for step in script.steps]
    default = script.default and _with_recording(script.default, base)
    return script.model_copy(update={"steps": steps, "default": default})


def _with_recording(step: Step, base: Path) -> Step:
    if not isinstance(step.recording, str):
        return step
    return step.model_copy(update={"recording": str(base / step.recording)})
