"""What happens in a run as JSON documents, a line each: `onward watch --json`.

docs/watching.md lists the kinds. Fields may be added, none is renamed or removed.
"""

from collections.abc import Callable, Mapping
from typing import Any

from onward.documents import result_document, run_document
from onward.live import happenings
from onward.messages import ClaudeReply
from onward.transcript import last_text


def document(happening: happenings.Happening) -> dict[str, Any]:
    """Describe what happened."""
    kind, fields = _DOCUMENTS[type(happening)]
    return {"kind": kind, **fields(happening)}


def _watched(watched: happenings.Watched) -> dict[str, Any]:
    return {**run_document(watched.run), "earlier_steps": watched.earlier_steps}


def _asked(asked: happenings.Asked) -> dict[str, Any]:
    said = [{"id": message_id, "text": text} for message_id, text in asked.said]
    return {"step": asked.step, "said": said}


def _wrote(wrote: happenings.Wrote) -> dict[str, Any]:
    piece = wrote.fragment
    return {"what": piece.what, "step": wrote.step, "block": piece.block, "text": piece.text}


def _replied(replied: happenings.Replied) -> dict[str, Any]:
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


def _waits(waits: happenings.Waits) -> dict[str, Any]:
    told = waits.waiting.model_dump(mode="json")
    return {"asks_for": told.pop("kind"), **told}  # `kind` is what happened


_DOCUMENTS: dict[type[happenings.Happening], tuple[str, Callable[[Any], Mapping[str, Any]]]] = {
    happenings.Watched: ("run", _watched),
    happenings.Asked: ("step", _asked),
    happenings.Wrote: ("piece", _wrote),
    happenings.Restarted: ("restarted", vars),
    happenings.Replied: ("reply", _replied),
    happenings.Unanswered: ("unanswered", vars),
    happenings.CallEnded: ("result", vars),
    happenings.Waits: ("waiting", _waits),
    happenings.Decided: ("decided", vars),
    happenings.Messaged: ("message", vars),
    happenings.Paused: ("paused", vars),
    happenings.Resumed: ("resumed", vars),
    happenings.Stopping: ("stopping", vars),
    happenings.Trouble: ("trouble", vars),
    happenings.RunEnded: ("end", lambda ended: result_document(ended.run, ended.how)),
}
KINDS = tuple(kind for kind, _ in _DOCUMENTS.values())
"""Every value of `kind`."""
