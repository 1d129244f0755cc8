"""The folder that a server keeps its data in: one process at a time, or a temporary one."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from onward.errors import UsageError


@dataclass(frozen=True)
class HeldFolder:
    """A folder that is ours until the server that inherits `lock_fd` is dead."""

    path: Path
    lock_fd: int
    """Pass it to the server process: the lock is on the open file, which it then holds too."""


@contextmanager
def held_folder(data_dir: Path | None, name: str) -> Generator[HeldFolder]:
    """Lock `data_dir/name` (made if missing) for us and the server `name`.

    None: a temporary folder, removed at the end. Raises UsageError where another process has it
    or it cannot be made.
    """
    if data_dir is None:
        path = Path(tempfile.mkdtemp(prefix=f"onward-{name}-"))
    else:
        path = data_dir.absolute() / name  # the server runs in another folder than we do
    try:
        lock_fd = _lock(path)
        try:
            yield HeldFolder(path, lock_fd)
        finally:
            os.close(lock_fd)
    finally:
        if data_dir is None:
            shutil.rmtree(path, ignore_errors=True)


def _lock(path: Path) -> int:
    """Take the lock; the file's content says who has it, for the error of whoever comes second."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock_fd = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(
            f"the data folder {str(path)!r} cannot be written: {error.strerror}. Name another one "
            "with ONWARD_DATA_DIR."
        ) from error
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(lock_fd, 20, 0).decode() or "unknown"
        os.close(lock_fd)
        raise UsageError(
            f"the data folder {str(path)!r} is in use by process {holder} (or by a server that it "
            "started and that still ends). Stop that process, or name another folder with "
            "ONWARD_DATA_DIR."
        ) from error
    os.ftruncate(lock_fd, 0)
    os.pwrite(lock_fd, str(os.getpid()).encode(), 0)
    return lock_fd
