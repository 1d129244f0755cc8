"""Onward's own settings: `ONWARD_…` in the environment, or in a file `.env` where you stand.

How to reach Temporal is not here: `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`,
TLS and profiles are Temporal's own settings, read by `onward.connection`.
"""

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from dotenv import dotenv_values
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from onward.errors import UsageError
from onward.names import TASK_QUEUE
from onward.rates import Rates, parse_caps

ENV_FILE = ".env"
_PREFIX = "ONWARD_"
_ALIKE = 0.8
"""From here on `get_close_matches` takes names for one; `REDIS_PASSWORD` is a name of its own."""


def _at_home(path: Path) -> Path:
    # No shell does it for what stands in `.env`: a folder named `~` would be made.
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(str(error)) from error


Folder = Annotated[Path, AfterValidator(_at_home)]


class Settings(BaseSettings):
    """What `onward-worker` and `onward` need to know besides Temporal's own settings.

    `Settings()` raises pydantic's ValidationError; `load_settings()` says it for people.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_file=ENV_FILE,
        env_file_encoding="utf-8",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
    )

    redis_url: str = "redis://127.0.0.1:6379/0"
    """The ledger's Redis: `redis://…`, with TLS `rediss://…`, or `redis+sentinel://…`."""
    app: str = ""
    """`module:attribute` of your `App`; empty: the built-in agents."""
    task_queue: Annotated[str, Field(min_length=1, max_length=200)] = TASK_QUEUE
    data_dir: Folder = Path(".onward")
    """Where `onward-worker --local` keeps its data and writes the addresses of its servers."""
    payload_dir: Folder | None = None
    """Where payloads go that are too large for Temporal's history; all workers must share it.
    None: `payloads` in `data_dir`."""
    takeover_s: Annotated[float, Field(ge=0.5, le=60)] = 1.5
    """Seconds without a sign of life after which another worker takes a step over."""
    history_events: Annotated[int, Field(ge=10, le=10_000)] = 1000
    """Events of one workflow run's history after which a run continues as new: a worker that takes
    a run over replays them first, at half a millisecond each."""
    deployment: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Goes into idempotency keys; None: the name of Temporal's namespace."""
    allow_eviction: bool = False
    """Work with a Redis that may drop records when it is full; a worker refuses it otherwise."""
    rate_limits: Annotated[Mapping[str, Rates], NoDecode, BeforeValidator(parse_caps)] = Field(
        default={}, validate_default=False
    )
    """`model=requests/input/output;…`: what is sent a minute at most, whatever the API allows."""
    janitor_every_s: Annotated[float, Field(ge=1, le=86_400)] = 3600.0
    """Seconds between two looks at which runs have ended, so that their records may expire."""

    @property
    def payload_folder(self) -> Path:
        """The folder of `payload_dir`; it may not exist yet."""
        return self.payload_dir or self.data_dir / "payloads"

    @property
    def redis_is_configured(self) -> bool:
        """Somebody chose a Redis, so addresses of an embedded one are not to be guessed."""
        return "redis_url" in self.model_fields_set


def load_settings() -> Settings:
    """Read the settings from the environment and `.env`.

    Raises:
        UsageError: a value is not possible, `.env` cannot be read, or the folder is gone.

    """
    _refuse_lost_folder()
    try:
        return Settings()
    except ValidationError as error:
        raise UsageError("\n".join(_explained(error))) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {ENV_FILE!r} in this folder: {error}; it must be UTF-8 text of lines "
            "NAME=value. Mend it or move it away"
        ) from error


def misspelt() -> Sequence[str]:
    """Say which names in the environment and `.env` are none of a setting, but nearly one's."""
    settings = [field.upper() for field in Settings.model_fields]
    given = {name.upper() for name in (*os.environ, *dotenv_values(ENV_FILE))}
    words = sorted(name.removeprefix(_PREFIX) for name in given if name.startswith(_PREFIX))
    meant = {word: get_close_matches(word, settings, 1, _ALIKE) for word in words}
    return [
        f"{_PREFIX}{word} is no setting: is {_PREFIX}{found[0]} meant?"
        for word, found in meant.items()
        if found and word not in found
    ]


def _refuse_lost_folder() -> None:
    # A deploy that puts a new folder in the old one's place leaves shells standing in none.
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise UsageError(
            "the folder that this was started in is no longer there. Change to one that is"
        ) from error


def _explained(error: ValidationError) -> list[str]:
    return [
        f"{_PREFIX}{'_'.join(map(str, part['loc'])).upper()} is {part['input']!r}: "
        f"{part['msg'].lower().removeprefix('value error, ')}. "
        f"Change it in the environment or in {ENV_FILE!r}"
        for part in error.errors()
    ]
