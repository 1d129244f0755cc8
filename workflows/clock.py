"""How long a run goes on and what of it is waiting for people, by the workflow's own clock."""

from .state import RunState


def begun(state: RunState, now_ms: int) -> None:
    """Start the clock, unless the run was begun in an earlier workflow run of the chain."""
    state.began_ms = state.began_ms or now_ms
    people_waited(state, now_ms)


def people_waited(state: RunState, now_ms: int) -> None:
    """Count the time that people were waited for up to now; they still are if it waits for them."""
    state.people_s = _people_s(state, now_ms)
    state.people_since_ms = now_ms if state.waits_for_people else 0


def went_s(state: RunState, now_ms: int) -> float:
    """Seconds since the run was begun, without waiting for people.

    Of a run that was begun by a worker of before 0.4, the seconds that Claude and tools worked.
    """
    if not state.keeps_rules_of(4):
        return state.running_s
    return (now_ms - state.began_ms) / 1000 - _people_s(state, now_ms)


def _people_s(state: RunState, now_ms: int) -> float:
    since_ms = state.people_since_ms or now_ms
    return state.people_s + (now_ms - since_ms) / 1000


def asks_now(state: RunState, now_ms: int) -> None:
    """Note how long Claude was not asked: the API forgets a prefix that is not sent again."""
    if state.replied_ms:
        gap_s = (now_ms - state.replied_ms) / 1000
        state.longest_gap_s = max(state.longest_gap_s, gap_s)
    state.replied_ms = 0
