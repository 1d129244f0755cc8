"""A change of one file that is made once, however often it is tried, and never over another's.

An edit is not repeatable as such: the text it looks for is gone once it is made. So the new content
is worked out first and written to a journal under the call's idempotency key, and only then put
into place, whole. Whoever tries again finds the journal: the file has the new content, then the
change was made; it has the old content, then the change is made now; it has neither, then somebody
else changed it in between, and nothing is overwritten.
"""

import base64
import gzip
import hashlib
import json
import os
import re
import stat
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from onward.errors import Rejected
from onward.tools.workspace import FOLDER

KEPT = 50
"""How many changes the journal remembers. A call is tried again while it is one of the last few."""

_SAFE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one file, worked out but perhaps not made yet."""

    path: str
    """Relative to the workspace, links resolved."""
    before: str
    """SHA-256 of the content that it was worked out from; empty: there was no file."""
    content: bytes
    message: str
    """What Claude is told once the change is made."""

    @property
    def after(self) -> str:
        """SHA-256 of the new content."""
        return hashlib.sha256(self.content).hexdigest()


def digest(path: Path) -> str:
    """SHA-256 of a file's content; empty if there is no file. Raises `OSError`."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


class Journal:
    """The changes of one workspace by idempotency key, in `.onward/edits`."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._folder = workspace / FOLDER / "edits"

    def find(self, key: str) -> Change | None:
        """Return the change that an earlier attempt worked out; None if there was none."""
        try:
            # gzip, also because its header tells `grep` tools that this is no text to search.
            record = json.loads(gzip.decompress(self._entry(key).read_bytes()))
        except FileNotFoundError:
            return None
        return Change(**record | {"content": base64.b64decode(record["content"])})

    def write(self, key: str, change: Change) -> None:
        """Remember a change, on disk before this returns; forget the oldest ones."""
        self._folder.mkdir(parents=True, exist_ok=True)
        record = asdict(change) | {"content": base64.b64encode(change.content).decode()}
        packed = gzip.compress(json.dumps(record).encode(), mtime=0)
        os.replace(self._draft(self._folder, packed), self._entry(key))  # noqa: PTH105
        _sync(self._folder)
        self._prune()

    def make(self, change: Change) -> str:
        """Put the new content in place unless it is there; return the message.

        Raises `Rejected`, with the file as it was, if the file is neither as the change expects it
        nor as the change leaves it, or if it cannot be written.
        """
        target = self._workspace / change.path
        try:
            found = digest(target)
            if found == change.after:
                return change.message
            if found == change.before:
                self._place(target, change.content)
                return change.message
        except OSError as error:
            raise Rejected(f"{change.path}: {reason(error)}; nothing was changed") from error
        raise Rejected(
            f"{change.path} was changed by someone else meanwhile; nothing was overwritten."
            " Read it again before changing it."
        )

    def _place(self, target: Path, content: bytes) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Drafts live in our own folder, so that a crash leaves no stray file for `git status`;
        # on another filesystem (a mount inside the workspace) a rename from there is impossible.
        near = self._folder if _device(self._folder) == _device(target.parent) else target.parent
        draft = self._draft(near, content)
        try:
            _like(draft, target)
            draft.replace(target)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        with suppress(OSError):  # it is in place; a folder that cannot be synced changes nothing
            _sync(target.parent)

    def _draft(self, folder: Path, content: bytes) -> Path:
        draft = folder / f".onward-{uuid.uuid4().hex}"
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return draft

    def _entry(self, key: str) -> Path:
        safe = key if _SAFE_NAME.fullmatch(key) else hashlib.sha256(key.encode()).hexdigest()
        return self._folder / f"{safe}.json.gz"

    def _prune(self) -> None:
        entries = sorted(self._folder.iterdir(), key=_mtime, reverse=True)
        for old in entries[KEPT:]:
            old.unlink(missing_ok=True)


def reason(error: OSError) -> str:
    """Say what a file operation failed of, without the host's paths."""
    return (error.strerror or type(error).__name__).lower()


def _like(draft: Path, target: Path) -> None:
    """Give a draft the mode and owner of the file that it replaces."""
    try:
        was = target.stat()
    except FileNotFoundError:
        return
    if (was.st_uid, was.st_gid) != (draft.stat().st_uid, draft.stat().st_gid):
        with suppress(PermissionError):
            os.chown(draft, was.st_uid, was.st_gid)
    draft.chmod(stat.S_IMODE(was.st_mode))


def _device(folder: Path) -> int:
    return folder.stat().st_dev


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
