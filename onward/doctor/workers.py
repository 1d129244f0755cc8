"""Who polls the task queue, whether they can work together, and whether their runs get on."""

from collections.abc import AsyncIterator, Sequence
from itertools import combinations

from onward.checks import Check
from onward.doctor.site import Site
from onward.figures import count
from onward.invoked import worker
from onward.workers.held_up import progress_check
from onward.workers.pollers import LONGEST_POLL, Poller, polled
from onward.workers.presence import Presence, minor


async def look(site: Site) -> AsyncIterator[Check]:
    """Look at the workers, as Temporal and as Redis know them."""
    queue, living = site.settings.task_queue, site.living
    recent = _recent(await polled(site.temporal, queue))
    unknown = [each for each in recent if each.identity not in {w.identity for w in living}]
    figures = {
        "workers": sorted({each.identity for each in recent} | {w.identity for w in living}),
        "versions": sorted({each.version for each in living}),
        "unknown": sorted(each.identity for each in unknown),
    }
    if not living and not unknown:
        found, todo = f"nothing polls the task queue {queue!r}", f"Start `{worker()}`"
        yield Check("workers", "wrong", found, todo, figures)
    if living:
        yield _known(living, queue, figures)
    if unknown and "Redis" in site.missing:
        yield _untold(unknown, queue, figures)
    elif unknown:
        yield _unknown(unknown, living, queue, {} if living else figures)


async def progress(site: Site) -> AsyncIterator[Check]:
    """Look whether open runs get on."""
    yield await progress_check(site.temporal, site.settings.task_queue)


def _recent(pollers: Sequence[Poller]) -> list[Poller]:
    # Measured from the newest of them and not by the clock here, which may be another.
    newest = max((each.last for each in pollers), default=None)
    return [each for each in pollers if newest and newest - each.last < LONGEST_POLL]


def _known(living: Sequence[Presence], queue: str, figures: dict[str, list[str]]) -> Check:
    for older, newer in combinations(living, 2):
        if objection := newer.objection(older):
            found = f"{newer.name} cannot work beside {older.name}: {objection}"
            return Check("workers", "wrong", found, figures=figures)
    verb = "poll" if len(living) > 1 else "polls"
    releases = " and ".join(figures["versions"])
    found = f"{count(len(living), 'worker')} of release {releases} {verb} {queue!r}"
    warned = next(filter(None, (one.warning(two) for one, two in combinations(living, 2))), "")
    return Check("workers", "note" if warned else "ok", found, warned, figures)


def _untold(unknown: Sequence[Poller], queue: str, figures: dict[str, list[str]]) -> Check:
    found = f"{count(len(unknown), 'worker')} polled {queue!r} in the last minutes: {_who(unknown)}"
    return Check("workers", "note", found, "What each is, only that Redis could tell", figures)


def _unknown(
    unknown: Sequence[Poller],
    living: Sequence[Presence],
    queue: str,
    figures: dict[str, list[str]],
) -> Check:
    """Tell of those that Temporal knows and Redis does not."""
    name = "other workers" if living else "workers"
    found = (
        f"{count(len(unknown), 'worker')} polled {queue!r} in the last minutes without telling "
        f"this Redis that {'it lives' if len(unknown) == 1 else 'they live'}: {_who(unknown)}"
    )
    if living and (old := [each for each in unknown if _other_release(each, living[0])]):
        todo = (
            f"Releases of different minor numbers cannot take over each other's runs: stop "
            f"{old[0].identity}, or give it a task queue of its own. One that was stopped just now "
            "is forgotten in a minute"
        )
        return Check(name, "wrong", found, todo, figures)
    todo = (
        "One that has stopped is forgotten in a minute. Else it is of a release before 0.6, or no "
        "worker of Onward's, or has another Redis (ONWARD_REDIS_URL)"
    )
    return Check(name, "note", found, todo, figures)


def _who(pollers: Sequence[Poller]) -> str:
    return ", ".join(f"{each.identity} ({each.build_id or 'no build id'})" for each in pollers)


def _other_release(poller: Poller, known: Presence) -> bool:
    return poller.release is not None and minor(poller.release) != known.minor
