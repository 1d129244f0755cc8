"""Segments: what a workflow run adds to its chain, kept by reference and laid over each other."""

import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from onward import segments
from onward.earlier import Earlier
from onward.errors import HistoryGap, PayloadError
from onward.messages import Head
from onward.payload_store import data_converter
from onward.records import Restored
from onward.run_records import Added, RunRecords
from onward.segments import INLINE_BYTES

DONE = Restored(st="done", fp="f", cls="keyed", result='{"content":"\\"é\\""}')
DOUBT = Restored(st="doubt", fp="g", cls="at_most_once", why="owner_lost", at_ms=5)


def files(folder: Path) -> list[Path]:
    """List what is in a payload folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_segment_comes_back_as_it_was() -> None:
    """Every end, turn and dropped position, to the byte: also text that no encoding can carry."""
    odd = Restored(st="failed", fp="h", cls="read", result="\ud800\u2028 é")
    added = Added({"1": DONE, "1.1": DOUBT, "2": odd}, {"1": "\udfff"}, dropped=("0.1", "k:a"))
    assert Added.unpack(added.pack()) == added


def test_segments_laid_over_each_other_are_the_whole() -> None:
    """What a run adds, and only that; an end that no longer stands does not come back."""
    whole = RunRecords()
    for added in (
        Added({"1": DONE, "1.1": DOUBT, "1.2": DOUBT}, {"1": "t1"}),
        Added({"1.1": DONE, "2": DONE}, {"2": "t2"}, dropped=("1.2",)),
    ):
        whole.lay(Added.unpack(added.pack()))
    assert whole == RunRecords({"1": DONE, "1.1": DONE, "2": DONE}, {"1": "t1", "2": "t2"})


def test_a_business_key_stands_for_what_was_first_done_under_it() -> None:
    """A workflow run that never read the segments before it replaces a doubt, and no more."""
    whole = RunRecords({"k:done": DONE, "k:doubt": DOUBT, "k:freed": DOUBT})
    later = replace(DONE, result="later")
    found: dict[str, Restored] = {"k:done": later, "k:doubt": later, "k:new": later}
    whole.lay(Added(found, {}, dropped=("k:done", "k:freed")))
    assert whole.ends == {"k:done": DONE, "k:doubt": later, "k:new": later}


async def test_a_small_value_stands_in_its_reference(tmp_path: Path) -> None:
    """Nothing is a file that fits; a longer value is one file, made once, and its name is short."""
    converter = data_converter(tmp_path)
    small, long = b"s" * (INLINE_BYTES // 2), b"l" * 3_000_000
    inline = await segments.keep(converter, small)
    assert not files(tmp_path)
    references = [await segments.keep(converter, long) for _ in "ab"]
    assert (len(files(tmp_path)), len(set(references))) == (1, 1)
    assert len(references[0]) < 500
    assert [await segments.fetch(converter, each) for each in (inline, references[0])] == [
        small,
        long,
    ]


async def test_what_is_no_segment_is_said(tmp_path: Path) -> None:
    """A reference or a segment that cannot be understood is an error that says what to do."""
    converter = data_converter(tmp_path)
    with pytest.raises(PayloadError, match=r"found 'nonsense' as a reference"):
        await segments.fetch(converter, "nonsense")
    newer = zlib.compress(json.dumps({"v": 2}).encode())
    for packed, found in ((newer, "version 2"), (b"torn", "error")):
        reference = await segments.keep(converter, packed)
        with pytest.raises(PayloadError, match=rf"{found}.*, expected version 1.*or restore"):
            await Earlier(converter, (reference,)).whole()


def test_a_run_without_its_beginning_is_no_conversation() -> None:
    """A gap at the very start is told like any other."""
    with pytest.raises(HistoryGap, match=r"found no beginning of the run.*restore both"):
        RunRecords().conversation(Head(step="1", digest="d"))
