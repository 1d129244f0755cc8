"""What people said to a run lately, so that what comes a second time is not taken twice.

Temporal knows a repeated update within one workflow run. A client that lost the answer may send it
again to the next one of the chain.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from onward.messages import Wire

W = TypeVar("W", bound=Wire)

_MOST_ANSWERS = 50
_MOST_MESSAGES = 2000


@dataclass
class Heard:
    """Answers by the id of their update, and ids of messages: the last ones, oldest first."""

    answers: dict[str, str] = field(default_factory=dict[str, str])
    messages: dict[str, None] = field(default_factory=dict[str, None])

    def resume(self, answers: Mapping[str, str], messages: Iterable[str]) -> None:
        """Take over what another workflow run of the chain heard."""
        self.answers, self.messages = dict(answers), dict.fromkeys(messages)

    def answer(self, update: str, kind: type[W]) -> W | None:
        """Return what was answered to that update; None: it was not heard yet."""
        told = self.answers.get(update)
        return None if told is None else kind.model_validate_json(told)

    def answered(self, update: str, answer: W) -> W:
        """Keep an answer, and return it."""
        self.answers[update] = answer.model_dump_json(exclude_defaults=True)
        _shorten(self.answers, _MOST_ANSWERS)
        return answer

    def message(self, name: str) -> None:
        """Note that a message was taken."""
        self.messages[name] = None
        _shorten(self.messages, _MOST_MESSAGES)


def _shorten(kept: dict[str, str] | dict[str, None], most: int) -> None:
    while len(kept) > most:
        del kept[next(iter(kept))]
