"""The folder of long payloads: whether it can be written here, and is the one of the workers."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from onward.checks import Check
from onward.doctor.site import Site
from onward.errors import PayloadError
from onward.workers.payload_folder import marked

_NAME = "payload folder"


async def look(site: Site) -> AsyncIterator[Check]:
    """Look at the folder that is configured here, beside what living workers say of theirs."""
    folder = site.settings.payload_folder.absolute()
    trouble = await asyncio.to_thread(_trouble, folder)
    if trouble:
        todo = (
            "Make the folder writable, or name another one in ONWARD_PAYLOAD_DIR that all workers "
            "share; runs with long results wait for it"
        )
        yield Check(_NAME, "wrong", trouble, todo)
        return
    theirs = {each.payload_marker: each.payload_folder for each in site.living}
    yield _compared(folder, marked(folder), theirs)


def _compared(folder: Path, here: str | None, theirs: dict[str, str]) -> Check:
    if theirs and here not in theirs:
        found = f"the workers keep theirs in {', '.join(map(repr, theirs.values()))}, which is "
        found += f"not {str(folder)!r} of this machine"
        todo = (
            "Commands cannot read long results here, and a worker that is started here is refused: "
            "share that folder with this machine, and name it in ONWARD_PAYLOAD_DIR"
        )
        return Check(_NAME, "note", found, todo)
    if here is None:
        return Check(_NAME, "ok", f"{str(folder)!r}: the first worker makes it")
    shared = ", the one that the workers share" if theirs else ""
    return Check(_NAME, "ok", f"{str(folder)!r} can be written{shared}")


def _trouble(folder: Path) -> str:
    """Say why the folder is no use, or cannot be made where it is not there yet; or nothing."""
    try:
        with tempfile.TemporaryFile(dir=_nearest(folder), prefix=".new-") as trial:
            trial.write(b"a full disk takes names and no content")
        marked(folder)
    except (OSError, PayloadError) as error:
        return f"cannot keep payloads in {str(folder)!r}: {error}"
    return ""


def _nearest(folder: Path) -> Path:
    """Return what is there of the path to the folder."""
    return next(path for path in (folder, *folder.parents) if os.path.lexists(path))
