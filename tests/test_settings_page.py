"""docs/settings.md is complete: whoever looks a setting up there finds it, with its default."""

import re

from pages import ROOT

from onward.settings import Settings

PAGE = (ROOT / "docs" / "settings.md").read_text()
ROWS = dict(re.findall(r"^\| `(ONWARD_\w+)` \| (.*?) \|", PAGE, re.MULTILINE))


def test_every_setting_is_on_the_page() -> None:
    """A new setting is documented, and none is shown that does nothing."""
    assert set(ROWS) == {f"ONWARD_{name.upper()}" for name in Settings.model_fields}


def test_defaults_are_those_of_the_page() -> None:
    """What the page says in figures and names is what happens."""
    for name, field in Settings.model_fields.items():
        if isinstance(field.default, str | int | float) and field.default:
            assert str(field.default).removesuffix(".0") in ROWS[f"ONWARD_{name.upper()}"]
