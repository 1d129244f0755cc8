"""What is outside of a run: the downstream, a person, and the faults of Redis."""

from collections.abc import Iterator
from typing import Any

from run_state import Case, Labelled, Point, Redis, Request, State, replaced

_NEW_PRIMARY = 100
"""Incarnation of the second primary of a split brain."""


def downstream_steps(case: Case, state: State) -> Labelled:
    """Yield the arrivals of requests: each may come at any later moment."""
    for index, request in enumerate(state.requests):
        rest = state.requests[:index] + state.requests[index + 1 :]
        for label, after in _arrived(case, state._replace(requests=rest), request):
            yield f"the request of {request.sender} arrives: {label}", after


def _arrived(case: Case, state: State, request: Request) -> Labelled:
    fp, key = request.fp, request.fp if case.guards.fp_in_key else 0
    known = state.answers[key] if case.cls != "at_most_once" else 0
    if case.cls == "sealed" and request.fence < state.seals[fp]:
        yield "sealed out", _replied(state, request, "unknown")
    elif known:
        yield "known", _replied(state, request, "answered", known)
    else:
        yield from _new_request(state, request, key)


def _new_request(state: State, request: Request, key: int) -> Labelled:
    count = state.effects[request.fp] + 1
    happened = state._replace(
        effects=replaced(state.effects, request.fp, count),
        answers=replaced(state.answers, key, state.answers[key] or count),
    )
    yield "EFFECT", _replied(happened, request, "answered", count)
    if state.left.refusals:
        yield "refused", _replied(state.spend("refusals"), request, "refused")


def _replied(state: State, request: Request, at: Point, brought: Any = None) -> State:
    """Let the sender hear of it, if it still listens."""
    sender = next((a for a in state.attempts if a.id == request.sender and a.at == "sent"), None)
    return state.put(sender._replace(at=at, brought=brought)) if sender else state


def person_steps(case: Case, state: State) -> Labelled:
    """Yield what a person may say about a doubt, looking at the downstream."""
    workflow = state.workflow
    if workflow.phase != "in doubt" or workflow.attempt is not None:
        return
    if case.guards.quarantine and case.guards.person_waits:
        if state.requests:
            return
        state = _after_quarantine(state)
    for to in _said(state):
        doubt = workflow.outcome.value if workflow.outcome else None
        resolving = workflow._replace(phase="resolve", resolution=(to, doubt))
        after = state.spend("retries") if to == "retry" else state
        yield f"a person says {to}", after._replace(workflow=resolving)


_MAY_SEND: tuple[Point, ...] = ("sending", "sealing")


def under_way(state: State) -> bool:
    """Whether a request may still land whose attempt has claimed."""
    return bool(state.requests) or any(me.at in _MAY_SEND for me in state.attempts)


def _after_quarantine(state: State) -> State:
    """Let it be over: who has not sent by then never will, its lease was over long before."""
    attempts = tuple(me for me in state.attempts if me.at not in _MAY_SEND)
    held = (redis.held._replace(brought_back=False) for redis in state.redis)
    servers = zip(state.redis, held, strict=True)
    redis = tuple(server._replace(held=now) for server, now in servers)
    return state._replace(attempts=attempts, redis=redis)


def _said(state: State) -> Iterator[str]:
    if state.effects[state.workflow.decision or 0]:
        yield "done"
        return
    yield "failed"
    if state.left.retries:
        yield "retry"


def redis_faults(case: Case, state: State) -> Labelled:
    """Yield what Redis may lose: everything, its incarnation, its last writes, its unity."""
    if not state.left.redis_faults:
        return
    state = state.spend("redis_faults")
    for server, redis in enumerate(state.redis):
        for label, after in _faults(case, redis):
            servers = replaced(state.redis, server, after)
            yield label, _hit(state, servers)
        if "split" in case.faults and len(state.redis) == 1:
            for held in redis.older | {redis.held}:
                yield "SPLIT BRAIN", _hit(state, (redis, Redis(held, _NEW_PRIMARY)))


def _faults(case: Case, redis: Redis) -> Iterator[tuple[str, Redis]]:
    if "flush" in case.faults:
        yield "FLUSHALL", Redis(inc=redis.inc)
    if "restart" in case.faults:
        yield "restart", Redis(redis.held, redis.inc + 1)
    if "tail" in case.faults:
        for held in redis.older:
            yield "restart, the last writes lost", Redis(held, redis.inc + 1)


def _hit(state: State, servers: tuple[Redis, ...]) -> State:
    earned = state.doubt_earned or len(servers) > 1 or _call_is_open(state)
    return state._replace(redis=servers, lost=True, truth=None, doubt_earned=earned)


def _call_is_open(state: State) -> bool:
    """Whether a fault now may leave a doubt: between the call's witness and its end."""
    workflow, me = state.workflow, state.attempt()
    ended = workflow.outcome is not None and workflow.outcome.kind != "doubt"
    has_witness = workflow.call_witness is not None and not ended
    taking_it = me is not None and me.activity == "ask" and me.told is not None
    return workflow.lineage or has_witness or taking_it
