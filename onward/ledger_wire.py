"""How the ledger and its script talk: an operation's arguments, and names and values in answer."""

import hashlib
from collections.abc import Mapping
from typing import Any, cast

from onward.messages import Witness
from onward.records import Restored, Verdict, unreadable

INLINE_BYTES = 64 * 1024
"""Longer results live in a key of their own beside the run's hash."""

Reply = Mapping[str, str | int]


def arguments(op: str, args: Mapping[str, str | int | bool | None]) -> list[bytes]:
    """Make the script's ARGV; what is None is left out, and a flag is 0 or 1."""
    argv = [op.encode()]
    for name, value in args.items():
        if value is not None:
            argv += [name.encode(), _encoded(int(value) if isinstance(value, bool) else value)]
    return argv


def _encoded(value: str | int) -> bytes:
    # Python text may hold a lone surrogate; the record must come back as it went in.
    return str(value).encode(errors="surrogatepass")


def _decoded(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode(errors="surrogatepass")


def parse_reply(flat: Any) -> dict[str, str | int]:
    """Read an answer by name. Raises LedgerUnreadable where a record cannot be understood."""
    items = [item if isinstance(item, int) else _decoded(item) for item in flat]
    reply = {str(name): value for name, value in zip(items[::2], items[1::2], strict=True)}
    if reply["verdict"] == "unreadable":
        raise unreadable("asked for", str(reply["why"]))
    return reply


def number(reply: Reply, name: str) -> int:
    """Return a number of an answer; 0 where it has none."""
    return int(reply.get(name, 0))


def string(reply: Reply, name: str) -> str:
    """Return a text of an answer; empty where it has none."""
    return str(reply.get(name, ""))


def optional_string(reply: Reply, name: str) -> str | None:
    """Return a text of an answer; None where it has none."""
    return str(reply[name]) if name in reply else None


def verdict_of(
    reply: Reply,
    result: str = "",
    turn: str | None = None,
    witness: Witness | None = None,
) -> Verdict:
    """Make a Verdict; `result` and `turn` are what the caller brought."""
    ended = reply["verdict"] in ("done", "failed")
    mine = ended and "result" not in reply  # what is recorded is what was just brought
    return Verdict(
        verdict=cast("Any", reply["verdict"]),
        result=result if mine else string(reply, "result"),
        why=string(reply, "why"),
        at_ms=number(reply, "at"),
        turn=turn if mine else optional_string(reply, "turn"),
        witness=witness,
    )


def result_fields(result: str) -> dict[str, str]:
    """Return the arguments for a result, with the name of its own key if it is long."""
    raw = _encoded(result)
    if len(raw) <= INLINE_BYTES:
        return {"result": result}
    return {"result": result, "sha": hashlib.sha256(raw).hexdigest()}


def restore_call(step: str, record: Restored, turn: str | None) -> tuple[str, dict[str, Any]]:
    """Return operation and arguments that write back how a step ended."""
    result = {} if record.result is None else result_fields(record.result)
    named = {"step": step, "fp": record.fp, "cls": record.cls, "st": record.st, "turn": turn}
    return "restore", {**named, "why": record.why or None, "at": record.at_ms, **result}
