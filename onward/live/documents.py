"""What happens in a run as JSON documents, a line each: `starter.py watch --json`.

docs/watching.md lists the kinds. Fields may be added, none is renamed or removed.
"""

from collections.abc import Callable, Mapping
from typing import Any

from onward.documents import result_document, run_document
from onward.live.happenings import (
    Asked,
    CallEnded,
    Decided,
    Happening,
    Replied,
    Restarted,
    RunEnded,
    Stopping,
    Trouble,
    Unanswered,
    Waits,
    Watched,
    Wrote,
)
from onward.messages import ClaudeReply
from onward.transcript import last_text


def document(happening: Happening) -> dict[str, Any]:
    """Describe what happened."""
    kind, fields = _DOCUMENTS[type(happening)]
    return {"kind": kind, **fields(happening)}


def _watched(watched: Watched) -> dict[str, Any]:
    return {**run_document(watched.run), "earlier_steps": watched.earlier_steps}


def _asked(asked: Asked) -> dict[str, Any]:
    said = [{"id": message_id, "text": text} for message_id, text in asked.said]
    return {"step": asked.step, "said": said}


def _wrote(wrote: Wrote) -> dict[str, Any]:
    piece = wrote.fragment
    return {"what": piece.what, "step": wrote.step, "block": piece.block, "text": piece.text}


def _replied(replied: Replied) -> dict[str, Any]:
    reply = replied.reply
    return {
        "step": replied.step,
        "text": last_text(reply.message),
        "stop_reason": reply.stop_reason,
        "calls": _calls(reply),
        "spend": reply.spend.model_dump(mode="json"),
        "total": replied.total.model_dump(mode="json"),
    }


def _calls(reply: ClaudeReply) -> list[dict[str, Any]]:
    shown = {"call", "tool", "effect", "summary"}
    return [call.model_dump(mode="json", include=shown) for call in reply.calls]


_DOCUMENTS: dict[type[Happening], tuple[str, Callable[[Any], Mapping[str, Any]]]] = {
    Watched: ("run", _watched),
    Asked: ("step", _asked),
    Wrote: ("piece", _wrote),
    Restarted: ("restarted", vars),
    Replied: ("reply", _replied),
    Unanswered: ("unanswered", vars),
    CallEnded: ("result", vars),
    Waits: ("waiting", lambda waits: waits.waiting.model_dump(mode="json")),
    Decided: ("decided", vars),
    Stopping: ("stopping", vars),
    Trouble: ("trouble", vars),
    RunEnded: ("end", lambda ended: result_document(ended.run, ended.how)),
}
KINDS = tuple(kind for kind, _ in _DOCUMENTS.values())
"""Every value of `kind`."""
