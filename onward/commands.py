"""What each command of `onward` does, from its options to its exit code.

Kept apart from `starter.py`, which only knows how commands are typed: so `--help` and a mistyped
option answer at once, without loading the Temporal client.
"""

import asyncio
import shlex
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onward import reports, run_input, runs, starting, watching
from onward.client import Client
from onward.client.connecting import run_request
from onward.console import Output
from onward.documents import (
    age_s,
    result_document,
    start_document,
    status_document,
    status_facts,
    unseen_lines,
    waiting_line,
)
from onward.errors import AppError, ConnectError, NoSuchRun, OnwardError, UsageError
from onward.figures import count, progress_line, spend_line
from onward.history import Ended
from onward.invoked import program, typed, worker
from onward.limits.input import parse_limits
from onward.limits.options import NO_LIMITS_TYPED, TypedLimits
from onward.limits.use import limits_line
from onward.messages import LimitOverrides, Outcome, RunRequest, Waiting
from onward.reports import Report
from onward.runs import Run
from onward.session import Session, find_run, open_session
from onward.starting import Started
from onward.tags import parse_tags
from onward.watching import Beginning
from onward.wording import paused_text

EXIT_CODES: dict[Outcome, int] = {
    "completed": 0,
    "failed": 1,
    "cancelled": 5,
    "limit_steps": 6,
    "limit_tokens": 6,
    "limit_cost": 6,
    "limit_time": 6,
    "limit_repeats": 6,
    "refused": 7,
    "max_tokens": 7,
    "context_exceeded": 7,
    "unknown_stop": 7,
}
USAGE, NOT_CONNECTED, NO_SUCH_RUN, WAITS_FOR_PERSON, INTERRUPTED = 2, 3, 4, 8, 130
_ERROR_CODES: list[tuple[type[OnwardError], int]] = [
    (UsageError, USAGE),
    (AppError, USAGE),
    (ConnectError, NOT_CONNECTED),
    (NoSuchRun, NO_SUCH_RUN),
    (OnwardError, 1),
]


@dataclass(frozen=True, kw_only=True)
class StartOptions:
    """What `start` was asked for, as typed; None where nothing was."""

    prompt: str | None = None
    file: Path | None = None
    agent: str = "coder"
    run_id: str | None = None
    again: bool = False
    wait: bool = False
    workspace: Path | None = None
    allow_dirty: bool = False
    model: str | None = None
    tags: Sequence[str] = ()
    limits: TypedLimits = NO_LIMITS_TYPED


def perform(command: Callable[[Output], Coroutine[Any, Any, int]], *, as_json: bool = False) -> int:
    """Run a command to its exit code; every error of Onward's becomes one clear message."""
    out = Output(as_json=as_json)
    try:
        return asyncio.run(command(out))
    except KeyboardInterrupt:
        return INTERRUPTED
    except RuntimeError as error:
        # A second Ctrl-C, while asyncio ends what the first one left.
        if isinstance(error.__context__, KeyboardInterrupt):
            return INTERRUPTED
        raise
    except OnwardError as error:
        out.error(str(error))
        return next(code for kind, code in _ERROR_CODES if isinstance(error, kind))


async def start(options: StartOptions, out: Output) -> int:
    """Start a run or attach to it; `--wait` stays until it ends."""
    request = _asked(options)
    run_id = run_input.new_id(request.agent)
    if options.run_id is not None:
        run_id = run_input.checked_id(options.run_id)
    elif options.again:
        raise UsageError("--again starts the run of an --id once more; give that --id too")
    session = await open_session(out)
    run = await Client(session, warn=out.warn).start_request(
        run_id, request, again=options.again, allow_dirty=options.allow_dirty
    )
    return await show_started(session, run.started, request, wait=options.wait, again=options.again)


async def status(run_id: str, out: Output) -> int:
    """Say how a run goes."""
    session = await open_session(out)
    seen = await reports.report(session.client, await find_run(session, run_id))
    troubles = watching.troubles(seen)
    if out.as_json:
        out.json(status_document(seen, troubles))
        return 0
    out.facts(status_facts(seen, session.ui_link(seen.run)))
    for trouble in troubles:
        out.warn(trouble)
    return 0


async def result(run_id: str, out: Output, *, wait: bool) -> int:
    """Print a run's result and exit by its outcome."""
    session = await open_session(out)
    run = await find_run(session, run_id)
    if not run.open:
        return await _show_ended(session, run)
    if wait:
        return await _wait(session, run)
    seen = await reports.report(session.client, run)
    if _waits_for_people(seen):
        return _show_waiting(session, seen)
    raise UsageError(f"the run {run.id!r} still goes on, it has no result yet. Add --wait")


# ---- the pieces of start


def _asked(options: StartOptions) -> RunRequest:
    prompt = run_input.read_text(options.prompt, options.file)
    if options.model is not None and not options.model.strip():
        raise UsageError("--model is empty. Leave it out for the agent's own model")
    return run_request(
        prompt,
        agent=options.agent,
        model=options.model,
        limits=parse_limits(options.limits),
        tags=parse_tags(options.tags),
        workspace=options.workspace,
    )


async def show_started(
    session: Session,
    started: Started,
    request: RunRequest,
    *,
    wait: bool,
    again: bool = False,
    known: Mapping[str, Any] | None = None,
) -> int:
    """Say how a run began, or was found; with `wait`, stay until it has ended.

    `known` is what the JSON document of its start holds besides.
    """
    out = session.out
    if started.how == "ended":
        return await _show_ended(session, started.run)
    _say_how(out, started, request, again=again)
    begun = await watching.beginning(session.client, started.run)
    troubles = await _announce(session, begun, quiet=wait)
    if wait:
        return await _wait(session, begun.run)
    if out.as_json:
        document = start_document(started, begun, troubles, session.ui_link(begun.run))
        out.json({**document, **(known or {})})
    if begun.ended is None or begun.ended.result.outcome != "failed":
        return 0
    out.error(f"the run failed at once: {begun.ended.result.detail}")
    return 1


def _say_how(out: Output, started: Started, request: RunRequest, *, again: bool) -> None:
    if started.how == "attached":
        out.say(f"the run {started.run.id!r} goes on already; attached to it")
        if request.model is not None or request.limits != LimitOverrides():
            out.note(
                "its model and limits stay as they are; "
                f"`{typed('limit', started.run.id)}` changes its limits"
            )
        if request.tags and request.tags != started.run.tags:
            out.note("its tags stay as they are")
    elif again:
        out.say(
            f"started {started.run.id!r} once more: its idempotency keys are new, so what the last "
            "run of that id did may be done again"
        )


async def _announce(session: Session, begun: Beginning, *, quiet: bool) -> list[str]:
    out = session.out
    if quiet or out.as_json:
        out.note(f"run {begun.run.id}")
    else:
        out.result(begun.run.id)
    if link := session.ui_link(begun.run):
        out.note(f"see it at {link}")
    if not quiet:
        out.note(f"follow it with `{typed('watch', begun.run.id)}`")
    if begun.opening is not None:
        out.note(limits_line(begun.opening.limits))
        if copied := begun.opening.copied_steps:
            out.note(f"{count(copied, 'step')} copied; your limits count from here")
    troubles = await _first_troubles(session, begun)
    for trouble in troubles:
        out.warn(trouble)
    return troubles


async def _first_troubles(session: Session, begun: Beginning) -> list[str]:
    if begun.opening is not None:
        unknown = "the price of this model is not known: only its tokens and steps are bounded"
        return [] if begun.opening.price_known else [unknown]
    if begun.ended is not None:
        return []
    if begun.run.task_waiting and begun.run.task_attempt <= 1:
        return [await _no_worker(session, begun.run)]
    return list(watching.troubles(await reports.report(session.client, begun.run)))


async def _no_worker(session: Session, run: Run) -> str:
    start_one = f"Start `{worker()}` (or `{worker('--local')}`); the run waits for it"
    if not await starting.pollers(session.client, run.task_queue):
        return f"nothing polls the task queue {run.task_queue!r}. {start_one}"
    return (
        f"no worker of the task queue {run.task_queue!r} has taken the run yet, though one was "
        f"there in the last minutes. If it is gone: {start_one[0].lower()}{start_one[1:]}"
    )


# ---- to the end of a run


async def _wait(session: Session, run: Run) -> int:
    every_s = 0.5 if session.out.watched else 1.0
    try:
        with session.out.progress() as progress:
            async for look in watching.watch(session.client, run, every_s=every_s):
                if look.report is None:
                    progress.now("waiting for Temporal", look.troubles)
                    continue
                run = look.report.run
                if _waits_for_people(look.report):
                    return _show_waiting(session, look.report)
                progress.now(progress_line(look.report.status, age_s(run)), look.troubles)
    except asyncio.CancelledError:  # Ctrl-C
        session.out.note(
            f"the run goes on without you; `{typed('result', run.id, '--wait')}` comes back to it"
        )
        raise
    return await _show_ended(session, run)


def _waits_for_people(seen: Report) -> bool:
    # A run that is asked to stop needs nobody any more.
    return seen.status.state in {"waiting", "paused"}


def _show_waiting(session: Session, seen: Report) -> int:
    """Say what the run waits for; whoever decides about it comes back with `result --wait`."""
    out = session.out
    if out.as_json:
        out.json(status_document(seen, ()))
    for call in seen.status.waiting:
        out.warn(waiting_line(seen.run.id, call))
    if seen.status.paused:
        lifts = f"`{typed('resume', seen.run.id)}` lets it go on"
        out.warn(f"it is {paused_text(seen.status.paused)}. {lifts}")
    if not seen.live:
        out.warn(f"waits for a person ({seen.run.waits_for}): {seen.trouble}")
    _note_input(shlex.quote(seen.run.id), seen.status.waiting, out)
    return WAITS_FOR_PERSON


def _note_input(run: str, waiting: Iterable[Waiting], out: Output) -> None:
    """Say where a call's whole input is; a run that waits at a limit shows all there is."""
    if any(call.kind != "limit" for call in waiting):
        out.note(f"whole input: `{program()} status {run}`")


async def _show_ended(session: Session, run: Run) -> int:
    done = await runs.ended(session.client, run)
    if done is None:
        raise UsageError(f"the run {run.id!r} still goes on, it has no result yet. Add --wait")
    out, found = session.out, done.result
    if out.as_json:
        out.json(result_document(run, done))
    elif found.text:
        out.result(found.text)
    show_end(run, done, out)
    return EXIT_CODES[found.outcome]


def show_end(run: Run, done: Ended, out: Output) -> None:
    """Say how a run ended, and what it cost."""
    found = done.result
    cost = spend_line(found.spend, complete=done.spend_complete)
    out.say(f"{found.outcome}: {count(found.steps, 'step')}, {cost}")
    if found.detail:
        out.say(found.detail)
    if found.in_doubt:
        out.warn(f"in doubt, look whether they happened: {', '.join(found.in_doubt)}")
    for line in unseen_lines(run.id, found.unseen):
        out.warn(line)
