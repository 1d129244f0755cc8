"""The ledger: the record in Redis that makes a second run of an activity harmless.

Each method is one call of `ledger.lua`, which holds the protocol; the states of a record are
described there. Nothing here catches an error of Redis: before the effect the caller tries again,
after the effect it returns the result to Temporal all the same.
"""

import json
import uuid
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Literal, cast

from redis.asyncio import Redis

from onward.errors import LedgerGap
from onward.identity import run_key
from onward.ledger_wire import (
    INLINE_BYTES,
    Reply,
    arguments,
    number,
    optional_string,
    parse_reply,
    restore_call,
    result_fields,
    string,
    verdict_of,
)
from onward.messages import EffectClass, RunRef, Witness
from onward.records import (
    Claim,
    Record,
    Resolved,
    Restored,
    Snapshot,
    Verdict,
    parse_record,
)

__all__ = [
    "INLINE_BYTES",
    "Claim",
    "Ledger",
    "Record",
    "Resolved",
    "Restored",
    "Snapshot",
    "Verdict",
]

_SCRIPT = files("onward").joinpath("ledger.lua").read_text(encoding="utf-8")
_RESTORES_AT_ONCE = 100


class Ledger:
    """The ledger of one run. Cheap to make: one for each activity.

    `redis` is a client with or without `decode_responses`; `strict` says that the server keeps what
    it acknowledged (see `onward/redis_server/guarantee.py`); `key` names another hash than the
    run's own, one that runs share. Every method may raise redis' own errors, and LedgerUnreadable
    where a record cannot be understood; nothing is written then.
    """

    def __init__(self, redis: Redis, run: RunRef, *, strict: bool, key: str | None = None) -> None:
        self._redis = redis
        self._run = run
        self._strict = strict
        self._script = redis.register_script(_SCRIPT)
        self.key = key or f"onward:{{{run_key(run.workflow_id, run.first_run_id)}}}"

    async def begin(self, witness: Witness | None, *, reset_lineage: bool) -> Witness:
        """Make or find the run's birth nonce, and return the witness of it.

        Under reset lineage the given witness is handed on, and none becomes one that nothing
        trusts: a nonce that is new, or found, would make lost records look never written.
        """
        reply = await self._call("begin", nonce=uuid.uuid4().hex, lineage=reset_lineage)
        if reset_lineage:
            return witness or self._nothing_trusted()
        return self._seen(reply) or self._nothing_trusted()

    async def claim(
        self,
        step: str,
        *,
        fp: str,
        cls: EffectClass,
        token: str,
        lease_ms: int,
        witness: Witness,
        lineage: bool,
        turn: str | None = None,
    ) -> Claim:
        """Ask for the right to send the request of a step. Only `claimed` gives it.

        Args:
            step: `12`, `12.r1`, or a call: `12.1`.
            fp: fingerprint of the call; for a step of Claude's, digest of the transcript before it.
            cls: effect class; a step of Claude's is `read`.
            token: a UUID of this attempt, never used again after `release`.
            lease_ms: how long others wait for this attempt without a `renew`.
            witness: the step's own, from history.
            lineage: the run has reset lineage.
            turn: only of a step of Claude's: the user turn to freeze, unless one is frozen already.

        Raises:
            LedgerGap: of a step of Claude's without reset lineage: the run's hash has no birth
                nonce, so records are lost. Nothing is claimed.

        """
        needs_ds = turn is not None and not lineage
        reply = await self._call(
            "claim",
            step=step,
            fp=fp,
            cls=cls,
            token=token,
            lease_ms=lease_ms,
            nonce=witness.nonce,
            inc=witness.inc,
            strict=self._strict and witness.strict,
            needs_ds=needs_ds,
            turn=turn,
        )
        if reply["verdict"] == "gap":
            raise self._gap(step, "nothing was claimed")
        return Claim(
            verdict=cast("Any", reply["verdict"]),
            fence=number(reply, "fence"),
            may_have_sent=number(reply, "ms") == 1,
            wait_ms=number(reply, "wait_ms"),
            result=string(reply, "result"),
            why=string(reply, "why"),
            at_ms=number(reply, "at"),
            requests=number(reply, "n"),
            first_ms=number(reply, "first_ms"),
            now_ms=number(reply, "now_ms"),
            turn=optional_string(reply, "turn"),
            usages=_usages(json.loads(string(reply, "usages") or "{}")),
            witness=None if turn is None else self._carried(reply, witness, lineage),
        )

    async def renew(self, step: str, *, fp: str, token: str, lease_ms: int) -> Verdict:
        """Push the lease of a claim to `lease_ms` from now: `claimed`, or `fenced`."""
        return verdict_of(
            await self._call("renew", step=step, fp=fp, token=token, lease_ms=lease_ms)
        )

    async def complete(
        self,
        step: str,
        *,
        fp: str,
        cls: EffectClass,
        token: str,
        result: str,
        turn: str | None = None,
        witness: Witness | None = None,
        lineage: bool = False,
    ) -> Verdict:
        """Record that it happened; `result` is JSON text. First recorded wins.

        Of a step of Claude's, `turn` is the user turn that the reply answers (written again in the
        same call) and `witness` the one that the activity was given.

        Raises LedgerGap as `claim` does; the reply is recorded all the same.
        """
        reply = await self._call(
            "complete",
            step=step,
            fp=fp,
            cls=cls,
            token=token,
            turn=turn,
            **result_fields(result),
        )
        if turn is None:
            return verdict_of(reply, result)
        if reply["verdict"] == "done" and not lineage and "nonce" not in reply:
            raise self._gap(step, "its reply is recorded")
        return verdict_of(reply, result, turn, self._carried(reply, witness, lineage))

    async def fail(
        self, step: str, *, fp: str, cls: EffectClass, token: str, fence: int, error: str
    ) -> Verdict:
        """Record that the request was refused and did nothing; `error` is JSON text.

        `fence` is that of the claim under which the request was sent. The verdict is `doubt` where
        an earlier request of the step may still land.
        """
        reply = await self._call(
            "fail", step=step, fp=fp, cls=cls, token=token, fence=fence, **result_fields(error)
        )
        return verdict_of(reply, error)

    async def doubt(self, step: str, *, fp: str, cls: EffectClass, token: str, why: str) -> Verdict:
        """Record that it may or may not have happened, and why. Nobody sends it again."""
        return verdict_of(
            await self._call("doubt", step=step, fp=fp, cls=cls, token=token, why=why)
        )

    async def release(
        self, step: str, *, fp: str, token: str, maybe: bool, count: bool = True
    ) -> Verdict:
        """Give the claim back, so that another attempt claims it at once.

        `maybe`: a request was sent and may still land. `count=False`: this attempt ended without
        sending, so its claim does not count as a request.
        """
        return verdict_of(
            await self._call("release", step=step, fp=fp, token=token, maybe=maybe, count=count)
        )

    async def resolve(
        self,
        step: str,
        *,
        fp: str,
        cls: EffectClass,
        at_ms: int,
        to: Literal["done", "failed", "retry"],
        quarantine_ms: int,
        by: str,
        result: str = "",
    ) -> Resolved:
        """Settle a doubt as a person decided. Asked twice, it answers the same.

        Args:
            step: the call in doubt.
            fp: its fingerprint.
            cls: its effect class.
            at_ms: the doubt that the person looked at (`Claim.at_ms`); another one is not settled.
            to: it happened; it did not and will not; or another attempt shall send it.
            quarantine_ms: how long after the doubt began a request may still be under way. Until
                then `failed` and `retry` are refused: they could prove false.
            by: who decided, as they call themselves.
            result: JSON text to record as the result (done) or the error (failed).

        """
        settled = {} if to == "retry" else result_fields(result)
        named: dict[str, Any] = {"step": step, "fp": fp, "cls": cls, "at": at_ms, "to": to}
        asked = {**named, "quarantine_ms": quarantine_ms, "by": by, **settled}
        reply = await self._call("resolve", **asked)
        verdict = verdict_of(reply, result)
        return Resolved(
            verdict=cast("Any", verdict.verdict),
            result=verdict.result,
            wait_ms=number(reply, "wait_ms"),
            at_ms=verdict.at_ms,
        )

    async def restore(self, records: Mapping[str, Restored], turns: Mapping[str, str]) -> None:
        """Write back what history tells of the run: it replaces what Redis holds.

        A doubt does not replace a done or failed of its own fingerprint. Only steps whose last word
        in history is an end belong here. Never makes a birth nonce: `begin` alone does.
        """
        calls = [restore_call(step, record, turns.get(step)) for step, record in records.items()]
        calls += [
            ("turn", {"step": step, "turn": turn})
            for step, turn in turns.items()
            if step not in records
        ]
        for start in range(0, len(calls), _RESTORES_AT_ONCE):
            await self._call_all(calls[start : start + _RESTORES_AT_ONCE])

    async def end(self, ttl_ms: int, *, if_unset: bool = False) -> bool:
        """Let everything of the run expire `ttl_ms` from now; the next operation undoes it.

        False where nothing was done: there are no records, or with `if_unset` they expire already.
        """
        reply = await self._call("end", ttl_ms=ttl_ms, if_unset=if_unset)
        return reply["verdict"] == "ended"

    async def usage(self, step: str, *, token: str, usage: Mapping[str, Any]) -> None:
        """Keep what an attempt has used so far; also from one that lost its claim."""
        await self._call("usage", step=step, token=token, usage=json.dumps(usage))

    async def usages(self, step: str) -> dict[str, dict[str, Any]]:
        """Return what each attempt of a step used, by token."""
        reply = await self._call("usages", step=step)
        return _usages(json.loads(string(reply, "usages")))

    async def snapshot(self) -> Snapshot:
        """Return everything that is recorded of the run, in one round trip."""
        return self._snapshot(await self._call("read"))

    async def records(self, *steps: str) -> Snapshot:
        """Return what is recorded of some steps, in one round trip."""
        return self._snapshot(await self._call("read", steps=json.dumps(steps)))

    def carried(self, seen: Witness | None, given: Witness, *, lineage: bool) -> Witness:
        """Return the witness for the calls of a reply that was found in a `Snapshot`.

        Raises LedgerGap where the snapshot had none, except under reset lineage, where the given
        one is handed on (it would be missing for ever).
        """
        if lineage:
            return given
        if seen is None:
            raise self._gap("the run", "nothing was written")
        return seen

    # ---- one call of the script

    async def _call(self, op: str, **args: str | int | bool | None) -> Reply:
        return parse_reply(await self._script(keys=[self.key], args=arguments(op, args)))

    async def _call_all(self, calls: Iterable[tuple[str, dict[str, Any]]]) -> None:
        async with self._redis.pipeline(transaction=False) as pipe:
            for op, args in calls:
                await self._script(
                    keys=[self.key], args=arguments(op, args), client=cast("Any", pipe)
                )
            for reply in await pipe.execute():
                parse_reply(reply)

    def _snapshot(self, reply: Reply) -> Snapshot:
        blobs = {name[2:]: str(text) for name, text in reply.items() if name.startswith("b:")}
        records = {
            name[2:]: parse_record(name[2:], str(text), blobs)
            for name, text in reply.items()
            if name.startswith("s:")
        }
        return Snapshot(
            records={step: record for step, record in records.items() if record},
            turns={n[5:]: str(text) for n, text in reply.items() if n.startswith("turn:")},
            witness=self._witness(string(reply, "_ds"), string(reply, "_inc")),
        )

    # ---- witnesses

    def _witness(self, nonce: str, inc: str) -> Witness | None:
        if not nonce:
            return None
        return Witness(nonce=nonce, inc=inc, run_id=self._run.run_id, strict=self._strict)

    def _seen(self, reply: Reply) -> Witness | None:
        return self._witness(string(reply, "nonce"), string(reply, "inc"))

    def _nothing_trusted(self) -> Witness:
        return Witness(nonce="", inc="", run_id=self._run.run_id)

    def _carried(self, reply: Reply, given: Witness | None, lineage: bool) -> Witness:
        seen = None if lineage else self._seen(reply)
        return seen or given or self._nothing_trusted()

    def _gap(self, step: str, kept: str) -> LedgerGap:
        return LedgerGap(
            f"Redis lost records of run {self._run.workflow_id!r}, as was seen at {step!r} "
            f"({kept}); they are filled in from the run's history, and it goes on"
        )


def _usages(by_token: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    return {token: json.loads(text) for token, text in by_token.items()}
