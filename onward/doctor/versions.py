"""Releases: of Onward, here and of its workers, and of what it is built on."""

from collections.abc import AsyncIterator
from importlib.metadata import version
from platform import python_version

from onward.checks import Check
from onward.doctor.site import Site
from onward.workers.presence import minor

_BUILT_ON = ("temporalio", "anthropic", "redis")


async def look(site: Site) -> AsyncIterator[Check]:
    """Name the releases here, and compare ours with that of the workers."""
    here = {name: version(name) for name in ("onward", *_BUILT_ON)} | {"python": python_version()}
    found = ", ".join(f"{name} {release}" for name, release in here.items())
    theirs = {each.version for each in site.living if each.minor != minor(here["onward"])}
    if theirs:
        todo = (
            f"The workers are of {', '.join(sorted(theirs))}: use a command of the same release, "
            "an older or newer one may ask of them what they do not know"
        )
        yield Check("versions", "note", found, todo, here)
    else:
        yield Check("versions", "ok", found, figures=here)
