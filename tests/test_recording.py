"""The recording in the README is the demo's: `make recording` made it, and it says the same."""

import re
from xml.etree import ElementTree as ET

from pages import ROOT
from record_demo import RECORDING

SVG = "{http://www.w3.org/2000/svg}"


def last_screen() -> str:
    """What the recording shows at its end, as lines."""
    picture = ET.fromstring(RECORDING.read_text())  # noqa: S314  (our own file)
    rows = {row.get("id"): " ".join(row.itertext()) for row in picture.iter(f"{SVG}g")}
    (film,) = (group for group in picture.iter(f"{SVG}g") if group.get("class") == "film")
    return "\n".join(rows[use.attrib["href"].lstrip("#")] for use in film[-1])


def test_the_recording_ends_with_the_figures_that_the_readme_states() -> None:
    """Three kills, an audit that holds, and the README's own counts: it is of this demo."""
    shown, readme = last_screen(), (ROOT / "README.md").read_text()
    (asked,) = re.findall(r"\| refunds asked for \| (\d+)", readme)
    (edits,) = re.findall(r"\| edits of the refactor, (\d+ in \d+ files)", readme)
    ((steps, made),) = re.findall(r"\| Claude requests for (\d+) steps \| (\d+)", readme)
    assert f"{asked} applied of {asked}, 0 duplicate, 0 missing, 0 in doubt" in shown
    assert edits.replace(" in ", " edits in ") in shown
    assert f"{made} requests for {steps} steps" in shown
    assert shown.count("exit status -9") == 3
    assert "The audit holds." in shown


def test_the_recording_loads_with_the_page() -> None:
    """It is small, plays without a script, and asks no other host for anything."""
    text = RECORDING.read_text()
    assert len(text) < 200_000
    assert "<script" not in text
    assert set(re.findall(r"https?://[\w.]+", text)) == {"http://www.w3.org", "http://127.0.0.1"}
