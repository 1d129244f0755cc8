"""What people say to a run by updates, as its histories tell: what the run took, each once."""

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from temporalio.api.update.v1 import Request
from temporalio.client import Client

from onward import history
from onward.messages import Wire

Said = TypeVar("Said", bound=Wire)


class Updates(Generic[Said]):
    """Listens for updates of some kinds in the histories of a run's workflow runs."""

    def __init__(self, client: Client, kinds: Mapping[str, type[Said]]) -> None:
        """`kinds`: what is said, by name of the update."""
        self._client, self._kinds = client, kinds
        self._requests = dict[str, Request]()
        self._answered = set[str]()

    def forget(self) -> None:
        """Begin anew: what a reset says again counts as said."""
        self._requests.clear()
        self._answered.clear()

    def answered_before(self, ids: Iterable[str]) -> None:
        """Take what the run itself takes for said before: nothing comes of it."""
        self._answered.update(ids)

    def requested(self, request: Request) -> None:
        """Take what is asked for: whether the run took it is told when it is answered."""
        # A reset says again what people had said: then the request is in an event of its own.
        if request.HasField("input"):
            self._requests[request.meta.update_id] = request

    async def answered(self, done: Any) -> Said | None:
        """Return what was said by an update that ended; None: it was refused, or is not news."""
        update_id = done.meta.update_id
        request = self._requests.pop(update_id, None)
        if request is None or done.outcome.HasField("failure") or update_id in self._answered:
            return None
        if (kind := self._kinds.get(request.input.name)) is None:
            return None
        self._answered.add(update_id)
        return await history.read(self._client, request.input.args, kind)
