"""What a person gives for a run, its prompt and its id, checked before anything is started."""

import re
import secrets
import sys
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from onward.errors import UsageError

MAX_PROMPT_BYTES = 1_000_000
MAX_PROMPT_JSON_BYTES = 1_900_000
"""Temporal refuses more than 2 MiB, and quotes or line ends take two bytes each as JSON."""
MAX_ID_BYTES = 200
STDIN = "-"
_AGENT_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def read_prompt(argument: str | None, file: Path | None) -> str:
    """Take the prompt from the argument, from standard input if that is `-`, or from a file.

    Raises:
        UsageError: none or two are given, or it is unreadable, empty, too long or not text.

    """
    match argument, file:
        case None, None:
            raise UsageError(
                'no prompt is given. Write it in quotes: start "Rename …", or use --file FILE, '
                "or - for standard input"
            )
        case str(), Path():
            raise UsageError(
                f"two prompts are given: an argument, and --file {str(file)!r}. Leave one out"
            )
        case None, Path():
            return checked_prompt(_decoded(_read_file(file), f"the file {str(file)!r}"))
        case _ if argument == STDIN:
            return checked_prompt(_decoded(_read_some(sys.stdin.buffer), "standard input"))
        case _:
            return checked_prompt(argument or "")


def checked_prompt(prompt: str) -> str:
    """Return the prompt if Claude can be asked it.

    Raises:
        UsageError: it is empty, longer than 1,000,000 bytes, or holds what is no text.

    """
    if not prompt.strip():
        raise UsageError("the prompt is empty. Say what the agent is to do")
    if "\0" in prompt:
        raise UsageError(
            f"the prompt holds a NUL byte at character {prompt.index(chr(0))}: that looks like a "
            "binary file. Put it into the workspace and name it in the prompt"
        )
    try:
        size = len(prompt.encode())
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the prompt is not valid Unicode text: {prompt[error.start]!r} at character "
            f"{error.start} (half of a character, or bytes in another encoding). Give it as UTF-8"
        ) from error
    _check_size(size, json_bytes(prompt))
    return prompt


def checked_id(run_id: str) -> str:
    """Return the run's id if it can be one; spaces, slashes, quotes and all scripts are fine.

    Raises:
        UsageError: it is empty, longer than 200 bytes, or holds control characters.

    """
    if not run_id.strip():
        raise UsageError("the run's id is empty. Give one such as 'refunds-2026-11'")
    odd = [c for c in run_id if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"}]
    if odd:
        raise UsageError(
            f"the run's id {run_id!r} holds {odd[0]!r}, which cannot be shown or typed. "
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


def new_id(agent: str) -> str:
    """Make an id that people can read: agent, day (UTC), six random letters."""
    return checked_id(f"{agent}-{datetime.now(UTC):%Y%m%d}-{secrets.token_hex(3)}")


def _check_size(size: int, json_size: int) -> None:
    if size <= MAX_PROMPT_BYTES and json_size <= MAX_PROMPT_JSON_BYTES:
        return
    as_json = "" if size > MAX_PROMPT_BYTES else f" ({json_size:,} as JSON)"
    raise UsageError(
        f"the prompt has {size:,} bytes{as_json}; at most {MAX_PROMPT_BYTES:,} can be sent. Put "
        "the long part into a file in the workspace and name that file in the prompt"
    )


def json_bytes(text: str) -> int:
    """Bytes of the text as JSON, where quotes, line ends and control characters take more."""
    escaped = sum(text.count(c) for c in '"\\\n\r\t\b\f')
    others = sum(text.count(chr(code)) for code in range(0x20) if chr(code) not in "\n\r\t\b\f")
    return len(text.encode()) + escaped + 5 * others


def _read_file(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_PROMPT_BYTES:
            _check_size(size, size)
        with path.open("rb") as file:
            return _read_some(file)
    except OSError as error:
        raise UsageError(
            f"cannot read the prompt from {str(path)!r}: {error.strerror}. "
            "Name a text file that you may read"
        ) from error


def _read_some(source: BinaryIO) -> bytes:
    # No more than shows that it is too much: an endless pipe must not fill the memory.
    return source.read(MAX_PROMPT_BYTES + 1)


def _decoded(data: bytes, where: str) -> str:
    if len(data) > MAX_PROMPT_BYTES:
        raise UsageError(
            f"{where} holds more than {MAX_PROMPT_BYTES:,} bytes, the most that a prompt can have. "
            "Put the long part into a file in the workspace and name that file in the prompt"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{where} is not UTF-8 text: byte {data[error.start]:#04x} at {error.start}. "
            "Convert it to UTF-8"
        ) from error
