"""What can happen to a Redis that holds the records."""

from call_setup import Setup
from call_state import Call, Moves, Primary
from ledger_model import Rec, wipe
from search import Move

PROMOTED = 100
"""Incarnation of the replica that a split brain makes a primary."""


def redis_moves(setup: Setup, call: Call) -> Moves:
    """Yield every fault that the setup has, on every primary."""
    if not call.left.redis:
        return
    struck = call.spent("redis")
    for k, primary in enumerate(call.primaries):
        yield from _whole(setup, struck, k, primary)
        if not setup.mix.strict:
            yield from _partial(setup, struck, k, primary)
    if "split brain" in setup.mix.redis and not setup.mix.strict and len(call.primaries) == 1:
        yield from _split(struck, call.primaries[0])


def _whole(setup: Setup, struck: Call, k: int, primary: Primary) -> Moves:
    """Strict or not: all is lost or nothing."""
    place, lost = primary.place, struck._replace(records_lost=True)
    reborn = place._replace(inc=_next(primary))
    if "flush" in setup.mix.redis:
        yield Move("FLUSHALL", lost.on(k, Primary(wipe(place))))
    if "empty restart" in setup.mix.redis:
        yield Move("restart, empty", lost.on(k, Primary(wipe(reborn))))
    if "restart" in setup.mix.redis:
        yield Move("restart", struck.on(k, Primary(reborn)))


def _partial(setup: Setup, struck: Call, k: int, primary: Primary) -> Moves:
    if "tail loss" in setup.mix.redis:
        for older in primary.older:
            back = primary.place._replace(inc=_next(primary), rec=older)
            lost = struck._replace(records_lost=True)
            yield Move(f"restart, back to {_words(older)}", lost.on(k, Primary(back)))


def _split(struck: Call, old: Primary) -> Moves:
    """A replica that lacks the newest writes is promoted; the old primary still answers."""
    for rec in {*old.older, old.place.rec}:
        new = Primary(old.place._replace(inc=PROMOTED, rec=rec))
        split = struck._replace(records_lost=True, primaries=(old, new))
        yield Move(f"SPLIT: the new primary has {_words(rec)}", split)


def _next(primary: Primary) -> int:
    inc = primary.place.inc
    assert isinstance(inc, int)
    return inc + 1


def _words(rec: Rec | None) -> str:
    return f"{rec.st} of {rec.own}" if rec else "no record"
