"""Names that nobody reads, since they are nearly a setting's: each leaves a default in force."""

from collections.abc import AsyncIterator

from onward.checks import Check
from onward.doctor.site import Site
from onward.settings import misspelt


async def look(site: Site) -> AsyncIterator[Check]:
    """Look at the names in the environment and `.env`; nothing is said where all are known."""
    del site
    if found := misspelt():
        yield Check("settings", "note", " ".join(found))
