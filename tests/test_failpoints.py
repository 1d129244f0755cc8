"""Failpoints: a crash test that names a point must crash there, or fail loudly."""

import re
import subprocess
import sys

import pytest

from onward.errors import UsageError
from onward.failpoints import POINTS, failpoint, struck


def test_without_fp_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """In production a failpoint is nothing, whatever its name."""
    monkeypatch.delenv("FP", raising=False)
    failpoint("f1")


def test_the_nth_hit_of_the_named_point_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other points and other hits pass."""
    monkeypatch.setenv("FP", "f2:2:raise, f3:1:raise")
    failpoint("f1")
    failpoint("f2")
    with pytest.raises(RuntimeError, match="failpoint f2: the claim was sent"):
        failpoint("f2")
    failpoint("f2")
    with pytest.raises(RuntimeError, match="f3"):
        failpoint("f3")


def test_a_point_that_acts_says_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A crash test can tell a fault that was survived from one that never struck."""
    monkeypatch.setenv("FP", "f4:1:raise")
    failpoint("f3")
    with pytest.raises(RuntimeError, match="f4"):
        failpoint("f4")
    assert capfd.readouterr().err == f"{struck('f4', 'raise')}\n" == "failpoint f4: raise\n"


@pytest.mark.parametrize(
    "fp", ["f1", "f1:0:kill", "f1:1:explode", "f99:1:kill", "f1:1:kill,", "f1:x:kill"]
)
def test_a_wrong_fp_stops_the_process_at_its_start(fp: str) -> None:
    """A typing error must not turn a crash test into one without a crash."""
    done = subprocess.run(
        [sys.executable, "-c", "import onward.failpoints"],
        env={"FP": fp},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "an entry is NAME:NTH:ACTION" in done.stderr


def test_a_point_that_does_not_exist_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code and the list of points cannot drift apart unseen."""
    monkeypatch.setenv("FP", "f1:9:raise")
    with pytest.raises(
        UsageError, match=re.escape("no failpoint is named 'f13'; there are f1, f2")
    ):
        failpoint("f13")
    assert list(POINTS) == [f"f{n}" for n in range(1, 13)]
