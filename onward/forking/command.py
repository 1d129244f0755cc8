"""Fork a run, as a person types it: check, list what was done since, and start the new run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onward import history, invoked, run_input, starting
from onward.commands import show_started
from onward.console import Output
from onward.errors import ConnectError, UsageError
from onward.figures import count
from onward.forking.aftermath import Effect, aftermath, told_to_people
from onward.forking.cut import Cut, cut
from onward.forking.fates import LedgerView, fate
from onward.forking.looking import look
from onward.forking.never_started import with_proof
from onward.forking.unseen import unseen
from onward.limits.input import parse_limits
from onward.limits.options import NO_LIMITS_TYPED, TypedLimits
from onward.messages import Fork, RunRequest
from onward.redis_server.connection import ledger_url, redis_client, redis_errors
from onward.redis_server.room import check_room
from onward.retelling.steps import retell
from onward.runs import Run, rpc_errors
from onward.session import Session, find_run, open_session
from onward.tags import parse_tags


@dataclass(frozen=True, kw_only=True)
class ForkOptions:
    """What `fork` was asked for, as typed; None where nothing was."""

    step: int | None = None
    message: str | None = None
    new_id: str | None = None
    yes: bool = False
    wait: bool = False
    tags: Sequence[str] = ()
    limits: TypedLimits = NO_LIMITS_TYPED


async def fork(run_id: str, options: ForkOptions, out: Output) -> int:
    """Start a new run that goes on from a copy of another run's conversation.

    Raises NoSuchRun, UsageError, ConnectError, PayloadError, HistoryGap, RedisFull.
    """
    said = _said(options)
    new_id = options.new_id and run_input.checked_id(options.new_id)
    session = await open_session(out)
    run = await find_run(session, run_id)
    effects = await _check(session, run, options)
    request = (await _request(session, run, options.step)).model_copy(update=said)
    started = await starting.start(
        session.client,
        new_id or run_input.new_id(request.agent),
        request,
        task_queue=session.settings.task_queue,
        before_new=lambda: check_room(session.settings, session.target, out.warn),
    )
    known = _document(effects)
    return await show_started(session, started, request, wait=options.wait, known=known)


def _said(options: ForkOptions) -> dict[str, Any]:
    """Read what the new run is asked for otherwise than the other one; its tags only if given."""
    tags = parse_tags(options.tags)
    said = {"prompt": _message(options.message), "limits": parse_limits(options.limits)}
    return {**said, "tags": tags} if tags else said


def _message(typed: str | None) -> str:
    if typed is None:
        return ""
    if not typed.strip():
        raise UsageError("--message is empty. Write what Claude is to be told, or leave it out")
    return run_input.checked_text(typed)


async def _check(session: Session, run: Run, options: ForkOptions) -> list[Effect]:
    """Refuse what cannot be forked, and what was done since unless it is accepted; return that."""
    cut_off = cut(await retell(session.client, run), run.id, options.step)
    async with rpc_errors(run.id):
        cut_off = await with_proof(session.client, run.key, cut_off)
    _refuse_unfinished(run, cut_off)
    seen = await _look(session, run)
    _refuse_held(run, cut_off, seen)
    effects = aftermath(cut_off, seen)
    sent = await unseen(session.client, run, cut_off)
    if not (options.message or effects or cut_off.open_ended or sent):
        raise UsageError(
            f"step {cut_off.last.id} of run {run.id!r} leaves nothing to answer, so there is "
            'nothing to say to Claude. Add --message "…"'
        )
    _ask(run, cut_off, effects, session.out, yes=options.yes)
    return effects


def _refuse_unfinished(run: Run, cut_off: Cut) -> None:
    if not run.open or cut_off.last.answers is not None:
        return
    before = cut_off.last.number - 1
    named = f"its last finished step is {before}" if before else "it has no finished step yet"
    raise UsageError(
        f"the run {run.id!r} still goes on, and step {cut_off.last.id} is not finished. Name a "
        f"finished --step ({named}), or end the run first: "
        f"`{invoked.typed('cancel', run.id)}`"
    )


async def _look(session: Session, run: Run) -> LedgerView | None:
    """Look at the run's ledger; None where it cannot be asked, which is said."""
    url = ledger_url(session.settings, session.target)
    redis = redis_client(url)
    try:
        async with redis_errors(url):
            return await look(redis, run.id, run.first_run_id or run.run_id)
    except ConnectError as error:
        session.out.warn(f"{error}. Only history can tell what was done")
        return None
    finally:
        await redis.aclose()


def _refuse_held(run: Run, cut_off: Cut, seen: LedgerView | None) -> None:
    """Refuse while an attempt of a run that is over may still act; its lease says how long."""
    if run.open:
        return
    asked = [*cut_off.calls(), *cut_off.later_effects()]
    fates = [fate(each, cut_off.retelling.records, seen) for each in asked]
    for found in fates:
        if found.end == "under way" and found.call.effect != "read":
            until = datetime.fromtimestamp(found.until_ms / 1000).astimezone()
            raise UsageError(
                f"call {found.call.call} of run {run.id!r} is still held by an old attempt until "
                f"{until:%H:%M:%S}, which may act until then. Try again after that"
            )


def _ask(run: Run, cut_off: Cut, effects: list[Effect], out: Output, *, yes: bool) -> None:
    if not effects:
        return
    since = f"after step {cut_off.last.id} of run {run.id!r}"
    out.warn(f"{count(len(effects), 'effect')} {since}, which a fork does not undo:")
    for line in told_to_people(effects):
        out.warn(f"  {line}")
    if not yes:
        if out.as_json:
            out.json(_document(effects))
        raise UsageError(
            f"what was done {since} stands, and Claude may ask for it again. With --yes the fork "
            "is started all the same, and Claude is told of it"
        )


def _document(effects: Iterable[Effect]) -> dict[str, Any]:
    """Describe what was done since as `fork --json` does, both when it refuses and starts."""
    shown = [{"call": e.call, "what": e.what, "outcome": e.outcome} for e in effects]
    return {"effects_after": shown}


async def _request(session: Session, run: Run, step: int | None) -> RunRequest:
    """Ask for what the other run was asked for, but for its words and limits."""
    async with rpc_errors(run.id):
        was = await history.request_of(session.client, run.key)
    if was is None:
        raise UsageError(f"the request of run {run.id!r} cannot be read, so it cannot be forked")
    parent = Fork(
        workflow_id=run.id,
        run_id=run.run_id,
        first_run_id=run.first_run_id or run.run_id,
        step=step,
    )
    return RunRequest(
        prompt="",
        agent=was.agent,
        model=was.model,
        workspace=was.workspace,
        tags=was.tags,
        # The same, so that a business key of all runs is still recognised.
        deployment=was.deployment or session.target.namespace,
        fork=parent,
    )
