"""Which folder of payloads this is: a file in it holds an id, so that two hosts can compare.

A path alone says nothing: on two machines, or in two containers, it may be two folders, and a
payload that one worker wrote would be gone for the other.
"""

import os
import re
import uuid
from pathlib import Path

from onward.errors import PayloadError, UsageError

MARKER = "folder-id"
_ID = re.compile(r"[0-9a-f]{32}")


def mark(folder: Path) -> str:
    """Return the folder's id, by which workers tell that they share it; made by who comes first.

    The folder is made if missing, and written to in any case. Raises `UsageError` where it cannot
    be written, or its id cannot be read.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _offer_id(folder)
        return _read(folder)
    except (OSError, PayloadError) as error:
        raise UsageError(
            f"cannot keep payloads in {str(folder.absolute())!r}: {error}. Make the folder "
            "writable, or name another one in ONWARD_PAYLOAD_DIR that all workers share"
        ) from error


def marked(folder: Path) -> str | None:
    """Return the folder's id; None where no worker has begun to use the folder yet.

    Raises `PayloadError` where there is one that cannot be read.
    """
    try:
        return _read(folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PayloadError(f"cannot read {str(folder / MARKER)!r}: {error.strerror}") from error


def _offer_id(folder: Path) -> None:
    """Write a new id, whole before it has its name. Of two that do so at once the first stays."""
    draft = folder / f".new-{uuid.uuid4().hex}"
    try:
        draft.write_text(f"{uuid.uuid4().hex}\n")
        _name(draft, folder / MARKER)
    except FileExistsError:
        return
    finally:
        draft.unlink(missing_ok=True)


def _name(draft: Path, name: Path) -> None:
    """Give a file its name, unless another has it: then raise `FileExistsError`."""
    try:
        os.link(draft, name)
    except FileExistsError:
        raise
    except OSError:  # some network file systems have no hard links, as Azure Files over SMB
        with name.open("x") as new:
            new.write(draft.read_text())


def _read(folder: Path) -> str:
    found = (folder / MARKER).read_text().strip()
    if not _ID.fullmatch(found):
        raise PayloadError(
            f"{str(folder / MARKER)!r} holds {found[:40]!r}, expected 32 hexadecimal digits. "
            "Restore it from a backup; without one remove it while no worker runs"
        )
    return found
