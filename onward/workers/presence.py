"""What a worker tells of itself, and which workers may poll one task queue together."""

import uuid
from collections.abc import Collection, Iterator
from importlib.metadata import version

from onward.messages.base import Wire

FORGOTTEN_S = 10
"""Seconds after which a worker that gives no sign of life counts as gone."""


class Presence(Wire):
    """One worker that polls a task queue."""

    id: str
    identity: str
    """`pid@host`, as Temporal shows its pollers."""
    version: str
    """Of Onward, as `0.6.0`."""
    app: str = ""
    """`module:attribute`; empty: the built-in app, or one that a user's own worker made."""
    agents: tuple[str, ...] = ()
    payload_folder: str = ""
    """Absolute path on the worker's host."""
    payload_marker: str = ""
    """Id of that folder, wherever it is mounted."""
    since_ms: int = 0
    """When it came, by the clock of Redis; ms since 1970."""
    settled: bool = False
    """It has looked who else is there, and stays."""

    @classmethod
    def of(
        cls, identity: str, agents: Collection[str], *, app: str, folder: str, marker: str
    ) -> "Presence":
        """Describe the worker that this process is."""
        return cls(
            id=uuid.uuid4().hex,
            identity=identity,
            version=version("onward"),
            app=app,
            agents=tuple(agents),
            payload_folder=folder,
            payload_marker=marker,
        )

    @property
    def minor(self) -> tuple[str, ...]:
        """What of the release all workers of a task queue must have in common."""
        return minor(self.version)

    @property
    def name(self) -> str:
        """Call it by what tells it from others: app and process."""
        app = f" of {self.app!r}" if self.app else ""
        return f"the worker {self.identity}{app}"

    def quarrels(self, other: "Presence") -> bool:
        """Say whether these two may not poll one task queue; the same for both."""
        return bool(self.objection(other))

    def objection(self, other: "Presence") -> str:
        """Say why this worker cannot work beside `other`, and what to do; empty: it can."""
        return "; ".join(self._reasons(other))

    def refusal(self, other: "Presence") -> str:
        """Say at the start of this worker why it cannot work beside `other`, and what to do."""
        return (
            f"this worker cannot poll a task queue that {other.name} polls: "
            f"{self.objection(other)}. A worker that was killed counts as living for "
            f"{FORGOTTEN_S} s"
        )

    def warning(self, other: "Presence") -> str:
        """Say what is worth knowing about `other` beside this worker; empty: nothing is."""
        oddities = "; ".join(self._oddities(other))
        return f"{other.name} polls this task queue too, and {oddities}" if oddities else ""

    def _oddities(self, other: "Presence") -> Iterator[str]:
        if unlike := sorted({*self.agents} ^ {*other.agents}):
            yield (
                f"only one of the two has the agents {_listed(unlike)}. During a deploy that is as "
                "it should be; else their runs lose time whenever the worker takes them that has "
                "not"
            )
        if self.app and other.app and self.app != other.app:
            yield (
                f"it has another app than this one's {self.app!r} with agents of the same names: "
                "each begins the other's runs, with its own prompts and tools. If they are two "
                "apps, give each a task queue of its own (ONWARD_TASK_QUEUE)"
            )

    def _reasons(self, other: "Presence") -> Iterator[str]:
        if self.minor != other.minor:
            yield (
                f"it is of release {other.version}, this one of {self.version}, and releases of "
                "different minor numbers cannot take over each other's runs. Stop the old workers "
                "first, or give the new ones a task queue of their own (ONWARD_TASK_QUEUE)"
            )
        if not {*self.agents} & {*other.agents}:
            yield (
                f"it has the agents {_listed(other.agents)}, this one {_listed(self.agents)}, so "
                "each would take runs that only the other can do. Give each app a task queue of "
                "its own (ONWARD_TASK_QUEUE), or stop the old workers first"
            )
        if self.payload_marker != other.payload_marker:
            yield (
                f"it keeps long payloads in {other.payload_folder!r}, this one in "
                f"{self.payload_folder!r}, and these are two folders (ids "
                f"{other.payload_marker[:8]!r} and {self.payload_marker[:8]!r}). Name one in "
                "ONWARD_PAYLOAD_DIR that all workers share: of containers a volume, of machines a "
                "network file system"
            )


def minor(release: str) -> tuple[str, ...]:
    """Return what tells releases apart that may not share a task queue: `0.6` of `0.6.1`."""
    return tuple(release.split(".")[:2])


def _listed(agents: Collection[str]) -> str:
    return ", ".join(map(repr, agents)) or "none"
