"""Results and their whole texts in the ledger: kept beside the record, read back, read on in."""

from typing import Any

from redis.exceptions import RedisError
from temporalio import activity

from onward import json_text
from onward.errors import LedgerGap, Rejected
from onward.ledger import Ledger
from onward.messages import CallResult
from onward.tools.read_result import page


async def keep_whole(ledger: Ledger, sha: str, whole: str) -> None:
    """Keep the whole text of a result, if Redis takes it: history has it in any case."""
    try:
        await ledger.keep(sha, whole)
    except RedisError as error:
        activity.logger.warning("a text of %d characters is not in Redis: %s", len(whole), error)


async def recorded_result(ledger: Ledger, record: str) -> CallResult:
    """Read a call's result as it is recorded, with its whole text; without it where it is lost."""
    result = CallResult.model_validate_json(record)
    if not result.whole_sha:
        return result
    whole = await ledger.whole(result.whole_sha) or ""
    sha = result.whole_sha if whole else ""
    return result.model_copy(update={"whole": whole, "whole_sha": sha})


async def read_on(ledger: Ledger, given: dict[str, Any]) -> str:
    """Answer a call of `read_result`.

    Raises `Rejected`, in words for Claude, where there is nothing to read; `LedgerGap` where the
    ledger has lost it and history may have it.
    """
    call = str(given["call"])
    record = (await ledger.records(call)).records.get(call)
    sha = _sha(record.result) if record and record.st in {"done", "failed"} else ""
    if not sha:
        raise Rejected(
            f"There is nothing to read of call {call!r}: no such call has ended, or its result was "
            "shown whole, or its rest is lost. The note in a result names the call to give."
        )
    whole = await ledger.whole(sha)
    if whole is None:
        raise LedgerGap(f"found no whole text of the result of {call}, which its record names")
    return page(whole, call, int(given.get("offset", 0)))


def _sha(record: str) -> str:
    # Steps of Claude's have records too, which are no results of calls.
    fields = json_text.load_object(record)
    return str(fields.get("whole_sha", ""))
