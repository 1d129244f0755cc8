"""Settings as a page shows them, with the servers of a test in place of those in it."""

from collections.abc import Mapping
from pathlib import Path

from pages import blocks


def settings_of(page: str, containing: str, changes: Mapping[str, str]) -> dict[str, str]:
    """Read the one `ini` block that holds this text, with `changes` made in it first."""
    lines = changed(page, "ini", containing, changes).splitlines()
    return dict(line.split("=", 1) for line in lines)


def changed(page: str, language: str, containing: str, changes: Mapping[str, str]) -> str:
    """Text of the one block of that language that holds this text, changed."""
    (text,) = (b.text for b in blocks(page) if b.language == language and containing in b.text)
    for old, new in changes.items():
        assert old in text, (old, text)
        text = text.replace(old, new)
    return text


def write_env(folder: Path, *settings: Mapping[str, str]) -> None:
    """Write a `.env`."""
    lines = [f"{name}={value}\n" for each in settings for name, value in each.items()]
    (folder / ".env").write_text("".join(lines))
