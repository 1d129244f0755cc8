"""The checks that the real API makes and a lenient fake does not.

Each yields violations with a short name for the journal and the API's own words (or, where no
public wording is known, plain ones). A request with any is answered 400 and changes nothing.
"""

from collections.abc import Iterator

from onward.testing.messages_api.block_checks import block_violations, tool_violations
from onward.testing.messages_api.cache_checks import mark_violations
from onward.testing.messages_api.images import image_violations
from onward.testing.messages_api.literal_json import Object, canonical, is_array
from onward.testing.messages_api.memory import (
    THINKING,
    Conversation,
    Sent,
    is_blank,
    prefix_digests,
)
from onward.testing.messages_api.refusals import Violation
from onward.testing.messages_api.request_shape import shape_violations
from onward.testing.messages_api.shapes import BLOCKS
from onward.testing.messages_api.summaries import summary_violations
from onward.testing.messages_api.turns import (
    blocks_of,
    calls_of,
    messages_of,
    results_of,
    role_of,
)


def check(body: Object, conversation: Conversation) -> list[Violation]:
    """Return everything that is wrong with a request, the gravest first; empty: accepted."""
    if malformed := list(shape_violations(body)):
        return malformed  # what follows relies on it
    return [
        *tool_violations(body.get("tools") or []),
        *summary_violations(body),
        *image_violations(body),
        *_blocks(body, conversation),
        *_empty(body),
        *_pairing(messages_of(body)),
        *_container(body),
        *mark_violations(body),
        *_end(body, conversation),
        *_unchanged(body, conversation),
    ]


def _blocks(body: Object, conversation: Conversation) -> Iterator[Violation]:
    system: object = body.get("system")
    if is_array(system):
        for index, block in enumerate(system):
            yield from block_violations(f"system.{index}", block, "system")
    for number, message in enumerate(messages_of(body)):
        role = str(role_of(message))
        for index, block in enumerate(blocks_of(message)):
            if role == "assistant" and _as_sent(block, conversation):
                continue
            yield from block_violations(f"messages.{number}.content.{index}", block, role)


def _as_sent(block: Object, conversation: Conversation) -> bool:
    """Tell whether a block may come back because it was sent: new types and fields too."""
    marked = "cache_control" in block and "cache_control" not in BLOCKS.get(str(block["type"]), ())
    return canonical(block) in conversation.blocks and not marked


def _empty(body: Object) -> Iterator[Violation]:
    for index, message in enumerate(messages_of(body)):
        if not message["content"]:
            yield Violation(
                "empty_content",
                f"messages.{index}: all messages must have non-empty content except for the "
                "optional final assistant message",
            )
            continue
        for block in blocks_of(message):
            yield from _blank("messages", block)
    system: object = body.get("system")
    for block in system if is_array(system) else ():
        yield from _blank("system", block)


def _blank(at: str, block: Object) -> Iterator[Violation]:
    if is_blank(block):
        what = "contain non-whitespace text" if block.get("text") else "be non-empty"
        yield Violation("empty_text", f"{at}: text content blocks must {what}")
    content: object = block.get("content")
    if block.get("type") != "tool_result":
        return
    if not content and block.get("is_error") is True:
        yield Violation("empty_error", f"{at}: content cannot be empty if `is_error` is true")
    for inner in content if is_array(content) else ():
        yield from _blank(at, inner)


def _pairing(messages: list[Object]) -> Iterator[Violation]:
    before: Object = {}
    for index, message in enumerate([*messages, {}]):
        calls = calls_of(before) if role_of(before) == "assistant" else []
        yield from _answered(index, calls, message)
        yield from _nothing_beside(index, before, message)
        before = message


def _answered(index: int, calls: list[str], message: Object) -> Iterator[Violation]:
    """Check that `message`, at `index`, answers each call before it once, results first."""
    blocks = blocks_of(message)
    first = next((i for i, b in enumerate(blocks) if b.get("type") != "tool_result"), len(blocks))
    leading = results_of({"content": blocks[:first]}) if role_of(message) == "user" else []
    if unanswered := [call for call in calls if call not in leading]:
        yield Violation(
            "unanswered_call",
            f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks "
            f"immediately after: {', '.join(unanswered)}. Each `tool_use` block must have a "
            "corresponding `tool_result` block in the next message.",
        )
    seen: set[str] = set()
    for place, block in enumerate(blocks):
        if block.get("type") == "tool_result":
            result = str(block.get("tool_use_id"))
            yield from _one_result(f"messages.{index}.content.{place}", result, calls, seen)
            seen.add(result)


def _one_result(at: str, result: str, calls: list[str], seen: set[str]) -> Iterator[Violation]:
    if result not in calls:
        yield Violation(
            "stray_result",
            f"{at}: unexpected `tool_use_id` found in `tool_result` blocks: {result}. Each "
            "`tool_result` block must have a corresponding `tool_use` block in the previous "
            "message.",
        )
    if result in seen:
        yield Violation(
            "double_result",
            f"{at}: each tool_use must have a single result. Found multiple `tool_result` "
            f"blocks with id: {result}",
        )


def _nothing_beside(index: int, before: Object, message: Object) -> Iterator[Violation]:
    blocks = blocks_of(before) if role_of(before) == "assistant" else []
    asked = {b.get("id") for b in blocks if b.get("type") in ("server_tool_use", "mcp_tool_use")}
    pending = asked - {b.get("tool_use_id") for b in blocks}
    beside = any(b.get("type") != "tool_result" for b in blocks_of(message))
    if pending and role_of(message) == "user" and beside:
        yield Violation(
            "beside_server_call",
            f"messages.{index}: only `tool_result` blocks may follow a turn whose server tool "
            f"calls have no result yet: {', '.join(map(str, sorted(pending, key=str)))}",
        )


def _container(body: Object) -> Iterator[Violation]:
    """Check that results for code that waits for them name the container it waits in."""
    before = messages_of(body)[-2:-1]
    callers: list[Object] = [
        block.get("caller") or {} for message in before for block in blocks_of(message)
    ]
    waiting = any(caller.get("type", "direct") != "direct" for caller in callers)
    if waiting and results_of(messages_of(body)[-1]) and not body.get("container"):
        yield Violation(
            "container",
            "container_id is required when there are pending tool uses generated by code "
            "execution with tools.",
        )


def _end(body: Object, conversation: Conversation) -> Iterator[Violation]:
    messages = messages_of(body)
    if role_of(messages[-1]) != "assistant":
        return
    before = list(prefix_digests(body))[-2]
    if not any(sent.may_continue for sent in conversation.replies.get(before, ())):
        yield Violation(
            "prefill",
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message.",
        )


def _unchanged(body: Object, conversation: Conversation) -> Iterator[Violation]:
    """Check that each assistant turn, and all before it, is what it was when it was made."""
    if not conversation.begun:
        yield from _strangers(body, conversation)
        return
    pairs = zip(messages_of(body), prefix_digests(body), strict=False)
    for index, (message, digest) in enumerate(pairs):
        if role_of(message) != "assistant" or digest in conversation.unreadable:
            continue
        sent = conversation.replies.get(digest)
        if sent is None:
            yield _bound(index, message, conversation.changed_part(body))
            return
        blocks = [canonical(block) for block in blocks_of(message)]
        if not any(turn.is_echoed_by(blocks) for turn in sent):
            yield _altered(index, message, sent[-1])
            return


def _strangers(body: Object, conversation: Conversation) -> Iterator[Violation]:
    # The first message is part of what tells conversations apart, so a client that changes it
    # seems to open a new one; its replies give it away.
    for index, message in enumerate(messages_of(body)):
        if role_of(message) == "assistant" and conversation.is_of_another(blocks_of(message)):
            yield _bound(index, message, "messages.0")
            return


def _bound(index: int, message: Object, changed: str) -> Violation:
    kinds = [block.get("type") for block in blocks_of(message)]
    place = next((i for i, kind in enumerate(kinds) if kind in THINKING), 0)
    return Violation(
        "prefix",
        f"messages.{index}.content.{place}: Invalid `signature` in `thinking` block. The block is "
        f"bound to a different conversation ({changed} is not what was sent before)",
    )


def _altered(index: int, message: Object, sent: Sent) -> Violation:
    blocks = blocks_of(message)
    texts = [canonical(block) for block in blocks]
    place = next((i for i, text in enumerate(texts) if text not in sent.blocks), len(texts) - 1)
    at = f"messages.{index}.content.{place}"
    thinking = [t for block, t in zip(blocks, texts, strict=True) if block.get("type") in THINKING]
    if tuple(thinking) != sent.thinking:
        return Violation(
            "thinking",
            f"{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message "
            "cannot be modified. These blocks must remain as they were in the original response.",
        )
    return Violation("altered", f"{at}: this block, or the blocks around it, are not as sent")
