"""What the scripted Claude says in the demo, and where the worker will be killed.

Both come from the refactor's plan and the seed alone, so that the run with Onward and the run
without it do the same work and lose their worker at the same places.
"""

import random
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from onward.demo.refactor import PACKAGE, Edit, Refactor
from onward.errors import UsageError

SCRIPT = "demo"
MODEL = "claude-sonnet-5-5"
SYSTEM = "You refactor Python packages one small edit at a time, and pay out waiting refunds."
KEYED_ENDPOINT, PLAIN_ENDPOINT = "/refunds", "/plain/refunds"
MAX_KILLS = 12
MIN_REFUNDS, MIN_STEPS = 4, 44
PACE_S = 0.1
"""Seconds that Claude thinks at each step: slow enough to follow on a terminal."""
SLOW_S = 0.7
"""Seconds that a request is held where a kill shall strike: time to see it and to shoot."""

_SLOWLY = ({"hold_s": SLOW_S}, {"stall_s": SLOW_S, "after_events": 6})
"""Two ways in which Claude can take its time: before the first byte, and in mid-sentence."""

Place = Literal["claude", "tool", "between", "plain"]
"""Where a kill strikes: while Claude answers; in a keyed tool; after a step's last result and
before the next request; in the tool whose endpoint does not deduplicate (from four kills on)."""
PLACES: tuple[Place, ...] = ("claude", "tool", "between", "plain")


@dataclass(frozen=True)
class Effect:
    """One refund that must be applied exactly once."""

    endpoint: str
    order: str
    amount_cents: int


@dataclass(frozen=True)
class Kill:
    """Shoot the worker at this place of this step."""

    place: Place
    step: int
    order: str = ""
    """In a tool: the order whose refund is under way."""
    applied: bool = False
    """In a tool: shoot when the effect is applied but not yet answered, not before it."""


@dataclass(frozen=True)
class Script:
    """A conversation of Claude's side, the effects it asks for, and the kills."""

    prompt: str
    steps: tuple[dict[str, Any], ...]
    """As the scripted Messages API server takes them."""
    effects: tuple[Effect, ...]
    kills: tuple[Kill, ...]
    """By step."""

    @property
    def delays(self) -> dict[str, dict[str, float]]:
        """By order: how long the payments service holds a request before or after its effect."""
        return {
            kill.order: {"delay_after_s" if kill.applied else "delay_s": SLOW_S}
            for kill in self.kills
            if kill.order
        }

    def scripts(self) -> dict[str, Any]:
        """Return the file that the scripted server reads."""
        return {SCRIPT: {"steps": list(self.steps)}}


_Call = tuple[str, dict[str, Any]]
"""Tool and input."""


@dataclass
class _Turn:
    """A step in the making."""

    text: str
    calls: list[tuple[str, dict[str, Any]]] = field(
        default_factory=list[tuple[str, dict[str, Any]]]
    )
    place: Place | None = None


def build(refactor: Refactor, *, kills: int, seed: int) -> Script:
    """Write the script for a plan. `kills` is 0 to 12; `seed` decides amounts and places."""
    if not 0 <= kills <= MAX_KILLS:
        raise UsageError(f"--kills {kills}: the demo can place 0 to {MAX_KILLS} kills")
    chance = random.Random(seed)  # noqa: S311  (a reproducible plan is the point)
    known: Sequence[Place] = PLACES if kills >= len(PLACES) else PLACES[:-1]
    places: list[Place] = [known[index % len(known)] for index in range(kills)]
    chance.shuffle(places)
    turns = _turns(refactor, places, chance)
    return Script(
        prompt=_prompt(refactor),
        steps=tuple(_step(number, turn, chance) for number, turn in enumerate(turns, 1)),
        effects=tuple(_effects(turns)),
        kills=tuple(_kills(turns, chance)),
    )


def _prompt(refactor: Refactor) -> str:
    return (
        f"[script:{SCRIPT}] Rename {refactor.old} to {refactor.new} everywhere in {PACKAGE}/ "
        f"(version {refactor.version}), then prove it with check.py. "
        "Pay out the waiting refunds as you go."
    )


def _turns(refactor: Refactor, places: list[Place], chance: random.Random) -> list[_Turn]:
    """Put reads, edits and refunds in an order; each kill gets a stretch of edits of its own."""
    stretches = max(MIN_REFUNDS, len(places))
    padded: list[Place | None] = [*places, *[None] * (stretches - len(places))]
    orders = (f"order-{number}" for number in chance.sample(range(1000, 10_000), 2 * stretches))
    work = _edits_and_reads(refactor, MIN_STEPS - stretches - 4)
    turns = [_look(refactor)]
    for index, place in enumerate(padded):
        part = work[index * len(work) // stretches : (index + 1) * len(work) // stretches]
        refund = _refund("refund", next(orders), chance)
        position = chance.randrange(1, len(part))
        if place == "tool":
            refund.place = place
        elif place in {"claude", "between"}:
            part[position].place = place
        extra = [refund]
        if place == "plain" or (index == 1 and "plain" not in places):
            extra = [_refund("legacy_refund", next(orders), chance), refund]
            extra[0].place = place if place == "plain" else None
        turns += [*part[:position], *extra, *part[position:]]
    return [*turns, _pair(orders, chance), _check(refactor), _last_words(refactor)]


def _look(refactor: Refactor) -> _Turn:
    return _Turn(
        f"I look for every use of {refactor.old} first.",
        [
            ("grep", {"pattern": rf"\b{refactor.old}\b", "path": PACKAGE}),
            ("read", {"file_path": "check.py"}),
        ],
    )


def _edits_and_reads(refactor: Refactor, wanted: int) -> list[_Turn]:
    """All edits; before the first ones of a file a look at it, as often as the run needs steps."""
    reads = min(len(refactor.files), max(2, wanted - len(refactor.edits)))
    turns: list[_Turn] = []
    for path in refactor.files:
        mine = [edit for edit in refactor.edits if edit.path == path]
        if path in refactor.files[:reads]:
            span = [max(1, mine[0].line - 5), mine[0].line + 5]
            turns.append(
                _Turn(f"{path} first.", [("read", {"file_path": path, "view_range": span})])
            )
        turns += [_edit(edit) for edit in mine]
    return turns


def _edit(edit: Edit) -> _Turn:
    arguments = {
        "file_path": edit.path,
        "old_string": edit.old_string,
        "new_string": edit.new_string,
    }
    return _Turn(f"Line {edit.line} of {edit.path}.", [("edit", arguments)])


def _refund(tool: str, order: str, chance: random.Random) -> _Turn:
    arguments = {"order_id": order, "amount_cents": chance.randrange(500, 20_000)}
    return _Turn(f"{order} waits for its refund.", [(tool, arguments)])


def _pair(orders: Iterator[str], chance: random.Random) -> _Turn:
    first, second = (_refund("refund", next(orders), chance) for _ in range(2))
    return _Turn("The last two refunds.", [*first.calls, *second.calls])


def _check(refactor: Refactor) -> _Turn:
    command = shlex.join([sys.executable, "-B", "check.py", refactor.old, refactor.new])
    return _Turn("All edits are made. Now the proof.", [("bash", {"command": command})])


def _last_words(refactor: Refactor) -> _Turn:
    return _Turn(
        f"{refactor.old} is now {refactor.new}: {len(refactor.edits)} edits in "
        f"{len(refactor.files)} files, the check passes, and all refunds are paid."
    )


def _step(number: int, turn: _Turn, chance: random.Random) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}]
    for index, (tool, arguments) in enumerate(turn.calls, 1):
        identity = f"toolu_demo_{number:02}_{index}"
        content.append({"type": "tool_use", "id": identity, "name": tool, "input": arguments})
    return {
        "content": content,
        "stop_reason": "tool_use" if turn.calls else "end_turn",
        "delay_s": PACE_S,
        # Only the first attempt at this step is slow: that is the one that will be shot.
        "faults": [chance.choice(_SLOWLY)] if turn.place == "claude" else [],
    }


def _effects(turns: list[_Turn]) -> Iterator[Effect]:
    endpoints = {"refund": KEYED_ENDPOINT, "legacy_refund": PLAIN_ENDPOINT}
    for turn in turns:
        for tool, arguments in turn.calls:
            if tool in endpoints:
                yield Effect(endpoints[tool], arguments["order_id"], arguments["amount_cents"])


def _kills(turns: list[_Turn], chance: random.Random) -> Iterator[Kill]:
    for number, turn in enumerate(turns, 1):
        if turn.place in {"tool", "plain"}:
            order = turn.calls[0][1]["order_id"]
            yield Kill(turn.place, number, order, applied=chance.random() < 0.5)  # noqa: PLR2004
        elif turn.place:
            yield Kill(turn.place, number)
