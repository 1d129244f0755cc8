"""`local.json`: how `onward` finds the servers of a running `onward-worker --local`."""

import os
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

_FILE = "local.json"
_CLOCK_SLACK_S = 1.0  # a process's start is computed from the boot time, which clock steps move


def _started_at() -> float:
    return psutil.Process().create_time()


class LocalAddresses(BaseModel):
    """Where the embedded servers of one process are."""

    model_config = ConfigDict(frozen=True)

    pid: int = Field(default_factory=os.getpid)
    """The process that started them; without it they are gone."""
    started_at: float = Field(default_factory=_started_at)
    """When that process started, Unix seconds: its id may be another process's by now."""
    temporal_address: str
    namespace: str
    redis_url: str
    ui_url: str | None = None


def write_local(data_dir: Path, addresses: LocalAddresses) -> None:
    """Write `local.json` in one piece."""
    written = data_dir / f"{_FILE}.{os.getpid()}"
    written.write_text(addresses.model_dump_json(indent=2))
    written.replace(data_dir / _FILE)


def read_local(data_dir: Path) -> LocalAddresses | None:
    """Return the addresses in `local.json`, or None unless the process that wrote it is alive."""
    try:
        found = LocalAddresses.model_validate_json((data_dir / _FILE).read_text())
        started_at = psutil.Process(found.pid).create_time()
    except (OSError, ValidationError, psutil.Error):
        return None
    return found if abs(started_at - found.started_at) < _CLOCK_SLACK_S else None


def remove_local(data_dir: Path) -> None:
    """Forget the addresses, at a clean end."""
    (data_dir / _FILE).unlink(missing_ok=True)
