"""Runs that wait for a person because nobody knows whether a call happened."""

from collections.abc import AsyncIterator

from onward.checks import Check
from onward.doctor.site import Site
from onward.figures import count
from onward.invoked import typed
from onward.listing.finding import runs_of
from onward.listing.which import Which
from onward.names import WAITING
from onward.search_attributes import usable

_NAMED = 5


async def look(site: Site) -> AsyncIterator[Check]:
    """Ask Temporal's index, which needs no worker."""
    waiting = typed("list", "--waiting")
    if WAITING not in await usable(site.temporal):
        found = f"cannot be told without the search attribute {WAITING}"
        yield Check("doubts", "note", found, f"`{waiting}` asks the workers")
        return
    query = f"{Which(going=True).query(())} AND {WAITING} = 'doubt'"
    runs = [run.id for run in await runs_of(site.temporal, query)]
    if not runs:
        yield Check("doubts", "ok", "no run waits for somebody to settle one", figures={"runs": []})
        return
    more = ", …" if len(runs) > _NAMED else ""
    named = ", ".join(map(repr, runs[:_NAMED]))
    wait = "waits" if len(runs) == 1 else "wait"
    found = f"{count(len(runs), 'run')} {wait} for somebody who knows what happened: {named}{more}"
    todo = f"`{waiting}` shows each call, and the commands that settle it"
    yield Check("doubts", "note", found, todo, {"runs": runs})
