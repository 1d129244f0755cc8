"""What a person gives for a run, texts and its id, checked before anything is started or said."""

import re
import secrets
import sys
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from onward.errors import UsageError
from onward.names import MAX_SAID_BYTES

MAX_PROMPT_BYTES = 1_000_000
MAX_PROMPT_JSON_BYTES = 1_900_000
"""Temporal refuses more than 2 MiB, and quotes or line ends take two bytes each as JSON."""
MAX_ID_BYTES = 200
STDIN = "-"
_AGENT_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True)
class Text:
    """What a person says to Claude."""

    name: str
    what_for: str
    most_bytes: int


PROMPT = Text("prompt", "Say what the agent is to do", MAX_PROMPT_BYTES)
MESSAGE = Text("message", "Say what Claude is to be told", MAX_SAID_BYTES)
EDIT = Text("edited input", "Give the call's whole input, a JSON object", MAX_SAID_BYTES)


def read_text(argument: str | None, file: Path | None, text: Text = PROMPT) -> str:
    """Take a text from the argument, from standard input if that is `-`, or from a file.

    Raises:
        UsageError: none or two are given, or it is unreadable, empty, too long or not text.

    """
    match argument, file:
        case None, None:
            raise UsageError(
                f'no {text.name} is given. Write it in quotes: "…", or use --file FILE, '
                "or - for standard input"
            )
        case str(), Path():
            raise UsageError(
                f"two {text.name}s are given: an argument, and --file {str(file)!r}. Leave one out"
            )
        case None, Path():
            data = _read_file(file, text)
            return checked_text(_decoded(data, f"the file {str(file)!r}", text), text)
        case _ if argument == STDIN:
            data = _read_some(sys.stdin.buffer, text)
            return checked_text(_decoded(data, "standard input", text), text)
        case _:
            return checked_text(argument or "", text)


def read_edit(typed: str) -> str:
    """Take the input that a person gives a call: as typed, from `@FILE`, or of `-`.

    Raises UsageError as `read_text` does.
    """
    if typed.startswith("@"):
        return read_text(None, Path(typed[1:]), EDIT)
    return read_text(typed, None, EDIT)


def checked_text(given: str, text: Text = PROMPT) -> str:
    """Return the text if Claude can be told it.

    Raises:
        UsageError: it is empty, too long (a prompt has 1,000,000 bytes at most, a message 100,000),
            or holds what is no text.

    """
    if not given.strip():
        raise UsageError(f"the {text.name} is empty. {text.what_for}")
    if "\0" in given:
        raise UsageError(
            f"the {text.name} holds a NUL byte at character {given.index(chr(0))}: that looks like "
            f"a binary file. Put it into the workspace and name it in the {text.name}"
        )
    try:
        size = len(given.encode())
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the {text.name} is not valid Unicode text: {given[error.start]!r} at character "
            f"{error.start} (half of a character, or bytes in another encoding). Give it as UTF-8"
        ) from error
    _check_size(size, json_bytes(given), text)
    return given


def checked_id(run_id: str) -> str:
    """Return the run's id if it can be one; spaces, slashes, quotes and all scripts are fine.

    Raises:
        UsageError: it is empty, longer than 200 bytes, or holds control characters.

    """
    if not run_id.strip():
        raise UsageError("the run's id is empty. Give one such as 'refunds-2026-11'")
    if odd := unshowable(run_id):
        raise UsageError(
            f"the run's id {run_id!r} holds {odd!r}, which cannot be shown or typed. "
            "Use letters, digits, spaces and punctuation"
        )
    if (size := len(run_id.encode())) > MAX_ID_BYTES:
        raise UsageError(
            f"the run's id has {size} bytes; at most {MAX_ID_BYTES} are possible. "
            f"It begins {run_id[:40]!r}"
        )
    return run_id


def checked_agent(agent: str) -> str:
    """Return the agent's name if one can have it.

    Raises:
        UsageError: it is empty, longer than 64 characters, or holds other signs.

    """
    if not _AGENT_NAME.fullmatch(agent):
        raise UsageError(f"--agent is {agent!r}; a name has 1 to 64 letters, digits, - or _")
    return agent


def unshowable(text: str) -> str | None:
    """Find the first character that cannot be shown or typed."""
    odd = (c for c in text if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"})
    return next(odd, None)


def new_id(agent: str) -> str:
    """Make an id that people can read: agent, day (UTC), six random letters."""
    return checked_id(f"{agent}-{datetime.now(UTC):%Y%m%d}-{secrets.token_hex(3)}")


def _check_size(size: int, json_size: int, text: Text) -> None:
    if size <= text.most_bytes and json_size <= MAX_PROMPT_JSON_BYTES:
        return
    as_json = "" if size > text.most_bytes else f" ({json_size:,} as JSON)"
    raise UsageError(
        f"the {text.name} has {size:,} bytes{as_json}; at most {text.most_bytes:,} can be sent. "
        f"{_elsewhere(text)}"
    )


def _elsewhere(text: Text) -> str:
    return f"Put the long part into a file in the workspace and name that file in the {text.name}"


def json_bytes(text: str) -> int:
    """Bytes of the text as JSON, where quotes, line ends and control characters take more."""
    escaped = sum(text.count(c) for c in '"\\\n\r\t\b\f')
    others = sum(text.count(chr(code)) for code in range(0x20) if chr(code) not in "\n\r\t\b\f")
    return len(text.encode()) + escaped + 5 * others


def _read_file(path: Path, text: Text) -> bytes:
    try:
        size = path.stat().st_size
        if size > text.most_bytes:
            _check_size(size, size, text)
        with path.open("rb") as file:
            return _read_some(file, text)
    except OSError as error:
        raise UsageError(
            f"cannot read the {text.name} from {str(path)!r}: {error.strerror}. "
            "Name a text file that you may read"
        ) from error


def _read_some(source: BinaryIO, text: Text) -> bytes:
    # No more than shows that it is too much: an endless pipe must not fill the memory.
    return source.read(text.most_bytes + 1)


def _decoded(data: bytes, where: str, text: Text) -> str:
    if len(data) > text.most_bytes:
        raise UsageError(
            f"{where} holds more than {text.most_bytes:,} bytes, the most that can be sent. "
            f"{_elsewhere(text)}"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{where} is not UTF-8 text: byte {data[error.start]:#04x} at {error.start}. "
            "Convert it to UTF-8"
        ) from error
