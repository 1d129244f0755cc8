"""A folder that this process may look into but not write, whoever runs the tests."""

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def unwritable(folder: Path) -> Generator[None]:
    """Keep this process from writing to the folder, which is outside pytest's own."""
    folder.chmod(0o555)
    user = os.geteuid()
    if user == 0:  # root may write everywhere
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o755)


@contextmanager
def open_folder() -> Generator[Path]:
    """Make a folder that everybody can reach; pytest's own only the user that runs it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
