"""Whole texts of long results: kept beside history by reference, and read on in."""

from typing import Any

from temporalio import activity
from temporalio.converter import DataConverter

from onward import json_text, segments
from onward.errors import LedgerGap, PayloadError, Rejected
from onward.ledger import Ledger
from onward.messages import CallResult
from onward.tools.read_result import page


async def by_reference(converter: DataConverter, result: CallResult) -> CallResult:
    """Keep the whole text of a result where histories have theirs, and name it in the result."""
    if not result.whole:
        return result
    try:
        at = await segments.keep(converter, result.whole.encode())
    except PayloadError as error:
        # The call is done, and must be recorded: the text stays in the result, and where that has
        # no room either, the next attempt finds it in the record.
        activity.logger.warning("a text of %d characters is not kept: %s", len(result.whole), error)
        return result
    return result.model_copy(update={"whole": "", "whole_sha": "", "whole_at": at})


async def recorded_result(converter: DataConverter, record: str) -> CallResult:
    """Read a call's result as it is recorded, with its whole text by reference."""
    result = CallResult.model_validate_json(record)
    # A worker of before 0.3 died just after it recorded this: the text was in Redis alone.
    lost = {} if result.whole else {"whole_sha": ""}
    return await by_reference(converter, result.model_copy(update=lost))


async def read_on(ledger: Ledger, converter: DataConverter, given: dict[str, Any]) -> str:
    """Answer a call of `read_result`.

    Raises `Rejected`, in words for Claude, where there is nothing to read; `LedgerGap` where
    history has the text in a form of before 0.3, and `PayloadError` where it is gone.
    """
    call = str(given["call"])
    record = (await ledger.records(call)).records.get(call)
    ended = record is not None and record.st in {"done", "failed"}
    # Steps of Claude's have records too, which are no results of calls.
    fields = json_text.load_object(record.result) if record and ended else {}
    whole = await _whole(converter, fields, call)
    return page(whole, call, int(given.get("offset", 0)))


async def _whole(converter: DataConverter, fields: dict[str, Any], call: str) -> str:
    if whole := str(fields.get("whole", "")):
        return whole
    if reference := fields.get("whole_at"):
        return (await segments.fetch(converter, reference)).decode()
    if fields.get("whole_sha"):
        raise LedgerGap(f"found no reference to the whole text of the result of {call}")
    raise Rejected(
        f"There is nothing to read of call {call!r}: no such call has ended, or its result was "
        "shown whole, or its rest is lost. The note in a result names the call to give."
    )
