"""The cases of the model of a run: effect class, server, and a mix of what may go wrong."""

from ledger_model import Rules
from run_state import Budget, Case, Guards

_CLASSES = ("at_most_once", "keyed", "sealed")
_WORDS = {
    "wipe": "redis_faults",
    "fault": "redis_faults",
    "split": "redis_faults",
    "timeout": "timeouts",
    "ambiguous": "ambiguous",
    "refused": "refusals",
    "unrecorded": "unrecorded",
    "reset": "resets",
    "continue": "continues",
    "retry": "retries",
}
_FAULTS = {"wipe": ("flush",), "fault": ("flush", "restart", "tail"), "split": ("split",)}
_BEGIN_FIRST = "begin_first"
"""A refill that begins before it restores: needless, but it must be safe."""


def case(line: str, guards: Guards | None = None, rules: Rules | None = None) -> Case:
    """Read a case such as `keyed lossy fault1 reset1`: class, server, then what may happen."""
    cls, server, *mix = line.split()
    counts = {word[:-1]: int(word[-1]) for word in mix}
    budget = {_WORDS[word]: count for word, count in counts.items() if word in _WORDS}
    return Case(
        cls,
        strict=server == "strict",
        faults=next((_FAULTS[word] for word in counts if word in _FAULTS), ()),
        budget=Budget(**budget),
        decisions=counts.get("decisions", 1),
        calls=counts.get("calls", 4),
        guards=guards or Guards(refill_before_begin=_BEGIN_FIRST not in counts),
        rules=rules or Rules(),
    )


_EVERY_CLASS = """
strict wipe2 timeout1 ambiguous1
strict wipe1 timeout1 ambiguous1 refused1 unrecorded1
strict wipe1 timeout2 continue1
strict wipe1 reset2
strict wipe1 reset1 timeout1 decisions2
strict wipe2 reset1 decisions2
strict wipe1 reset1 continue1 ambiguous1
strict wipe1 reset1 ambiguous1 retry1
strict wipe1 reset1 unrecorded1 begin_first1
lossy fault1 reset1
lossy fault2 continue1
lossy split1 ambiguous1
lossy split1 timeout1
"""
_SOME_CLASSES = """
at_most_once strict wipe1 reset1 continue1 timeout1
at_most_once strict wipe2 reset1 timeout1
at_most_once strict wipe1 timeout2 retry1
at_most_once strict timeout3 retry1
keyed lossy split1 reset1 calls3
sealed lossy split1 reset1 calls3
"""
MATRIX = [
    *(f"{cls} {line}" for line in _EVERY_CLASS.strip().splitlines() for cls in _CLASSES),
    *_SOME_CLASSES.strip().splitlines(),
]
"""Each of these holds. `calls3`: at most three attempts of the call, else four."""
QUICK = [
    "at_most_once strict wipe2 timeout1 ambiguous1",
    "at_most_once strict wipe1 reset1 ambiguous1 retry1",
    "at_most_once strict timeout3 retry1",
    "at_most_once lossy fault1 reset1",
    "keyed strict wipe1 timeout1 ambiguous1 refused1 unrecorded1",
    "keyed lossy fault2 continue1",
    "sealed strict wipe1 reset1 unrecorded1 begin_first1",
    "sealed lossy fault1 reset1",
]
"""A selection that takes seconds: every class, server and kind of trouble but a split brain."""
