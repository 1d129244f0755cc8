"""The conversations that a worker sent last, so that a step need not read its whole run again.

A copy for speed, and never a source: it is taken only where history names the very head that it was
verified for, and the digest of a head covers every byte before it. Whether the ledger still holds
the run is not asked here but by the step's claim.
"""

from collections import OrderedDict

from onward.messages import Head
from onward.transcript import Conversation

MAX_BYTES = 64 * 1024 * 1024
"""Of all messages of all runs: a hundred and more usual runs, or two at the API's own limit."""


class Transcripts:
    """The last conversation of each run, by the run's key; the one not used longest goes first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept = OrderedDict[str, Conversation]()
        self.size_bytes = 0

    def find(self, run: str, head: Head) -> Conversation | None:
        """Return a run's conversation up to `head`; None where another one is kept, or none."""
        kept = self._kept.get(run)
        if kept is None or kept.head != head:
            return None
        self._kept.move_to_end(run)
        return kept

    def keep(self, run: str, conversation: Conversation) -> None:
        """Keep a run's conversation in place of its earlier one."""
        self.drop(run)
        self._kept[run] = conversation
        self.size_bytes += conversation.size_bytes
        while self.size_bytes > self._max_bytes:
            self.drop(next(iter(self._kept)))

    def drop(self, run: str) -> None:
        """Keep nothing of a run, if anything was kept."""
        if (dropped := self._kept.pop(run, None)) is not None:
            self.size_bytes -= dropped.size_bytes
