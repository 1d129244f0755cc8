"""A step whose request would be too full, or that asks Claude for a summary to make room."""

from collections.abc import Sequence
from typing import Any

from onward import transcript
from onward.caching import lifetime_of
from onward.claude_request import Request, reply_request, summary_request
from onward.context_window import nearly_full
from onward.messages import ClaudeInput, Spend
from onward.transcript import Turn

from .before import Before
from .failures import stop


def request_of(given: ClaudeInput, found: Before, turn: Turn) -> Request:
    """Make the step's request: for a reply to `turn`, or for a summary of what is before it.

    Raises the error that stops the step where the request is too full, or nothing can be summed up.
    """
    opening, earlier, container = found.opening, found.earlier.messages, found.earlier.container
    lifetime = lifetime_of(opening.cache, long_cache=given.long_cache)
    if given.compact == "now":
        return summary_request(opening.frozen, _summed_up(earlier), opening.betas, lifetime)
    new = map(str.encode, transcript.user_message(turn))
    request = reply_request(opening.frozen, [*earlier, *new], opening.betas, lifetime)
    request = request.in_container(container) if container else request
    if given.compact == "if_full" and given.context:
        why = nearly_full(given.context, turn.content, len(request.body), request.max_tokens)
        if why:
            raise stop("context_full", f"{why}: a summary comes first")
    return request


def refuse_no_summary(message: dict[str, Any], spend: Spend) -> None:
    """Raise the error that stops the step if `message` is not what was asked for: a summary."""
    blocks: list[dict[str, Any]] = message.get("content") or []
    kinds = [block.get("type") for block in blocks if block.get("content")]
    if kinds != ["compaction"]:
        why = f"it stopped for {message.get('stop_reason')!r}"
        raise stop("no_summary", f"Claude made no summary of the conversation: {why}", spend)


def _summed_up(earlier: Sequence[bytes]) -> list[bytes]:
    asked, _ = transcript.parted(earlier)
    if not asked:
        raise stop("no_summary", "there is nothing that a summary could take the place of")
    return asked
