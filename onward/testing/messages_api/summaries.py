"""Summaries: a request with `compaction` gets one, and a later request begins with it.

A summary says which script it is of and how many replies it stands for, so that what follows is
still answered from the request alone; its signature is made of its text, so that a server that
was started anew can check it.
"""

import hashlib
from collections.abc import Iterator

from onward.testing.messages_api.literal_json import Object, canonical, is_object
from onward.testing.messages_api.refusals import Violation
from onward.testing.messages_api.script import Step
from onward.testing.messages_api.turns import blocks_of, messages_of, step_number
from onward.testing.messages_api.usage import tokens

_REFUSED = ("context_management", "stop_sequences")
_FORCED = ("any", "tool")


def summary_of(script: str, body: Object, scripted: Step, prompt: Object) -> Step:
    """Return the step that sums up a request's messages, billed as the API bills it.

    `prompt`: the counters that tell of it. Faults and delays are the ones of `scripted`. With a
    stop reason of its own that is all there is: Claude made no summary.
    """
    digest = hashlib.sha256(canonical(messages_of(body)).encode()).hexdigest()[:12]
    text = f"A summary of {step_number(body)} replies of [script:{script}], {digest}."
    block = {"type": "compaction", "content": text, "signature": _signature(text)}
    iteration = {"type": "compaction", **prompt, "output_tokens": tokens(text)}
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    nothing = {**dict.fromkeys((*names, "output_tokens"), 0), "cache_creation": None}
    usage = {**nothing, "iterations": [iteration]}
    made = {} if scripted.stop_reason else {"content": [block], "stop_reason": "compaction"}
    return scripted.model_copy(update={**made, "usage": {**usage, **scripted.usage}})


def summary_violations(body: Object) -> Iterator[Violation]:
    """Yield what is wrong with a request for a summary, and with the ones that it holds."""
    if body.get("compaction") is not None:
        yield from _beside(body)
    places = [
        (number, index, block)
        for number, message in enumerate(messages_of(body))
        for index, block in enumerate(blocks_of(message))
        if block.get("type") == "compaction" and block.get("signature")
    ]
    if len(places) > 1:
        text = "messages: found more than one `compaction` block; send only the newest"
        yield Violation("compaction_block_ambiguous", text)
    for number, index, block in places:
        at = f"messages.{number}.content.{index}"
        if (number, index) != (0, 0):
            text = f"{at}: a `compaction` block must be the first block of the conversation"
            yield Violation("compaction_block_misplaced", text)
        if block["signature"] != _signature(str(block.get("content"))):
            yield Violation("compaction_signature_invalid", f"{at}: Invalid `signature`")


def _beside(body: Object) -> Iterator[Violation]:
    """Check that nothing beside `compaction` shapes a reply, because there will be none."""
    named = [name for name in _REFUSED if body.get(name)]
    choice: object = body.get("tool_choice")
    if is_object(choice) and choice.get("type") in _FORCED:
        named.append("tool_choice")
    output: object = body.get("output_config")
    if is_object(output) and output.get("format"):
        named.append("output_config.format")
    for name in named:
        yield Violation("compaction", f"compaction: cannot be combined with `{name}`")


def _signature(text: str) -> str:
    return hashlib.sha256(f"summary\0{text}".encode()).hexdigest()
