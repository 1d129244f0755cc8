"""Workers tell by an id in it whether they share one folder of payloads."""

import errno
import os
import resource
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest
from unwritable import open_folder, unwritable

from onward.connection import find_target
from onward.doctor.payloads import look
from onward.doctor.site import Site
from onward.errors import PayloadError, UsageError
from onward.settings import Settings
from onward.workers.payload_folder import MARKER, mark, marked


def test_a_folder_has_one_id_for_ever(tmp_path: Path) -> None:
    """A worker that starts again, under whatever path, finds the id that the first one made."""
    folder, mounted = tmp_path / "deep" / "payloads", tmp_path / "mounted"
    assert marked(folder) is None
    first = mark(folder)
    mounted.symlink_to(folder)
    assert [mark(folder), mark(mounted), marked(mounted)] == [first] * 3
    assert mark(tmp_path / "another") != first
    assert [file.name for file in folder.iterdir()] == [MARKER]


def test_workers_that_start_at_once_agree(tmp_path: Path) -> None:
    """Whoever comes first names the folder for all."""
    with ThreadPoolExecutor(16) as pool:
        ids = set(pool.map(mark, [tmp_path / "payloads"] * 64))
    assert len(ids) == 1


def test_a_folder_without_hard_links_has_an_id_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems know none, and workers share just those."""

    def refused(*_: Path) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "link", refused)
    first = mark(tmp_path)
    assert [mark(tmp_path), marked(tmp_path)] == [first] * 2
    assert [file.name for file in tmp_path.iterdir()] == [MARKER]


def test_a_folder_that_cannot_be_written() -> None:
    """A worker says it at its start, though the id is there already, not in a long run."""
    with open_folder() as folder:
        mark(folder)
        with unwritable(folder):
            assert marked(folder)
            with pytest.raises(UsageError, match=r"(?s)Permission denied.*ONWARD_PAYLOAD_DIR"):
                mark(folder)


def test_what_is_no_folder(tmp_path: Path) -> None:
    """A file in the way is named."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"/file/payloads'.*Not a directory"):
        mark(tmp_path / "file" / "payloads")


def test_an_id_that_cannot_be_read(tmp_path: Path) -> None:
    """A damaged id is never replaced: workers that know the old one would count as elsewhere."""
    (tmp_path / MARKER).write_text("")
    with pytest.raises(UsageError, match="holds '', expected 32 hexadecimal"):
        mark(tmp_path)
    with pytest.raises(PayloadError, match="holds ''"):
        marked(tmp_path)


# ---- the doctor sees what would stop a worker


@contextmanager
def _full(folder: Path) -> Generator[None]:
    """Let no file take any content, as on a disk without room."""
    mark(folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _dangling(folder: Path) -> AbstractContextManager[None]:
    folder.symlink_to("nowhere")
    return nullcontext()


def _under_a_file(folder: Path) -> AbstractContextManager[None]:
    folder.parent.rmdir()
    folder.parent.touch()
    return nullcontext()


def _not_to_be_made(folder: Path) -> AbstractContextManager[None]:
    return unwritable(folder.parent)


@pytest.mark.parametrize("spoilt", [_full, _dangling, _under_a_file, _not_to_be_made])
async def test_the_doctor_says_what_a_worker_would(
    monkeypatch: pytest.MonkeyPatch, spoilt: Callable[[Path], AbstractContextManager[None]]
) -> None:
    """A folder that a worker refuses is wrong for the doctor too, also before there is one."""
    with open_folder() as above:
        folder = above / "parent" / "payloads"
        folder.parent.mkdir()
        monkeypatch.setenv("ONWARD_PAYLOAD_DIR", str(folder))
        settings = Settings()
        site = Site(settings, find_target(settings))
        (found,) = [check async for check in look(site)]
        assert (found.state, "the first worker makes it" in found.found) == ("ok", True)
        assert not [*folder.parent.iterdir()], "nothing is left behind"
        with spoilt(folder):
            with pytest.raises(UsageError, match="cannot keep payloads in"):
                mark(folder)
            (found,) = [check async for check in look(site)]
    assert (found.state, str(folder) in found.found) == ("wrong", True)
    assert "ONWARD_PAYLOAD_DIR" in found.todo
