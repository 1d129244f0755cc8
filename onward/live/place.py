"""Where something stands in a run's history, so that whoever heard it can go on from there."""

from dataclasses import dataclass

from onward.errors import UsageError

THE_END = "end"
"""The place of a run's end."""


@dataclass(frozen=True, order=True)
class Place:
    """Of something that lasts. Later ones of the same workflow run are greater."""

    run_id: str
    """Of the workflow run."""
    event: int
    part: int
    """Of what the event tells."""

    def __str__(self) -> str:
        return f"{self.run_id}.{self.event}.{self.part}"

    @classmethod
    def of(cls, text: str) -> "Place":
        """Read one. Raises UsageError."""
        run_id, *numbers = text.split(".")
        try:
            event, part = map(int, numbers)
        except ValueError as error:
            raise UsageError(f"{text!r} is not the id of an event of a run") from error
        return cls(run_id, event, part)
