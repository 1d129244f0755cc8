"""One story of two sources: what history tells, and what Claude is writing meanwhile.

History decides: a piece of a reply is told only once history has said that its step was asked, so
after the results of the step before; and what a reply holds beyond the pieces that were told is
told when history has it. So the pieces of a step, since the last `Restarted`, are its reply.
"""

from collections.abc import Iterable, Iterator

from onward.live.fragments import Fragment, What, fragments_of
from onward.live.happenings import Asked, Happening, Replied, Restarted, Unanswered, Wrote
from onward.live.stream import Entry, LiveAttempt
from onward.transcript import blocks_of

_WHOLE: frozenset[What] = frozenset({"text", "thinking", "server_tool"})
"""What a reply tells by itself: its calls follow it."""


class Telling:
    """Puts both in order, each piece once."""

    def __init__(self) -> None:
        self._asked: Asked | None = None
        self._attempt: LiveAttempt | None = None
        self._early: list[Fragment] = []
        self._told: dict[tuple[int, What], str] = {}

    @property
    def asking(self) -> bool:
        """Claude was asked and has not answered, as far as was told."""
        return self._asked is not None

    def durable(self, happening: Happening) -> Iterator[Happening]:
        """Take what history tells next."""
        match happening:
            case Asked():
                yield from self._dropped()
                yield happening
                self._asked = happening
                yield from self._shown()
            case Replied():
                yield from self._rest(happening)
                self._answered()
                yield happening
            case Unanswered():
                self._answered()
                yield happening
            case _:
                yield happening

    def live(self, entry: Entry) -> Iterator[Happening]:
        """Take what the live stream holds next."""
        if entry.begins:
            self._attempt = entry.begins
            self._early.clear()
            if self._matches:
                yield from self._dropped()
        if self._attempt and entry.token == self._attempt.token:
            self._early += entry.fragments
            yield from self._shown()

    @property
    def _matches(self) -> bool:
        """The live stream is about the step that was asked."""
        asked, attempt = self._asked, self._attempt
        if asked is None or attempt is None:
            return False
        return (asked.run_id, asked.step) == (attempt.run_id, attempt.step)

    def _shown(self) -> Iterator[Happening]:
        if self._asked and self._matches:
            early, self._early = self._early, []
            yield from self._wrote(self._asked.step, early)

    def _wrote(self, step: str, fragments: Iterable[Fragment]) -> Iterator[Happening]:
        for each in fragments:
            place = (each.block, each.what)
            self._told[place] = self._told.get(place, "") + each.text
            yield Wrote(step, each)

    def _dropped(self) -> Iterator[Happening]:
        if self._asked and self._told:
            yield Restarted(self._asked.step)
        self._told.clear()

    def _rest(self, replied: Replied) -> Iterator[Happening]:
        """Tell what was not told yet; all of it where the pieces were of another reply."""
        whole: dict[tuple[int, What], str] = {
            (each.block, each.what): each.text
            for each in fragments_of(blocks_of(replied.reply.message))
        }
        told = {place: text for place, text in self._told.items() if place[1] != "arguments"}
        if any(not whole.get(place, "").startswith(text) for place, text in told.items()):
            yield from self._dropped()
        for (block, what), text in whole.items():
            rest = text.removeprefix(self._told.get((block, what), ""))
            if rest and what in _WHOLE:
                yield from self._wrote(replied.step, [Fragment(block, what, rest)])

    def _answered(self) -> None:
        self._asked = None
        self._told.clear()
