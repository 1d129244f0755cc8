"""Say what nobody can know of a run any more, or not now."""

from collections.abc import Iterator, Sequence

from onward.audit.effects import Effect
from onward.audit.held import Held
from onward.audit.timeline import Timeline
from onward.figures import count

_ONLY_REDIS = (
    "History does not say which attempts claimed a call and never answered, when each call was "
    "first claimed, the fences, whether an attempt is at work right now, and what was recorded "
    "and has not reached history."
)


def not_known(
    timeline: Timeline, held: Held | str, effects: Sequence[Effect], *, forgotten: str = ""
) -> list[str]:
    """List it, a sentence each; empty where history and ledger are whole.

    `forgotten`: run id of the newest workflow run of the chain that Temporal no longer keeps.
    """
    if isinstance(held, str):
        sentences = [f"Redis cannot be asked ({held}). {_ONLY_REDIS}"]
    elif held.empty:
        lost = "Redis holds no record of this run: they were lost, or have expired."
        sentences = [f"{lost} {_ONLY_REDIS}"]
    else:
        sentences = list(_lost_before(timeline, held, effects))
    of_history = (*_of_lost(list(dict.fromkeys(timeline.lost))), *_of_forgotten(forgotten))
    return [*sentences, *_before_reset(timeline, effects), *of_history]


def _lost_before(timeline: Timeline, held: Held, effects: Sequence[Effect]) -> Iterator[str]:
    # A run that has just begun has no nonce in history yet.
    if timeline.nonces not in ([], [held.nonce]):
        yield (
            "Redis lost this run's records at least once; what it holds from before was rebuilt "
            "from history, which does not say which attempts had claimed a call, nor when."
        )
    rebuilt = [row.call for row in effects if row.rebuilt]
    if rebuilt:
        yield f"Claims and first claim times are not known of: {', '.join(rebuilt)}."


def _of_lost(lost: Sequence[str]) -> Iterator[str]:
    if lost:
        more = f" {count(len(lost) - 1, 'more payload')} cannot be read." if lost[1:] else ""
        yield (
            f"A part of history is gone: {lost[0]}.{more} Calls that only it names are missing "
            "here, and history and ledger cannot be compared."
        )


def _of_forgotten(run_id: str) -> Iterator[str]:
    if run_id:
        yield (
            f"Temporal no longer keeps workflow run {run_id}, after which this run continued as "
            "new, nor those before it. How the calls of that time ended is known; when, by how "
            "many attempts, and who decided is not."
        )


def _before_reset(timeline: Timeline, effects: Sequence[Effect]) -> Iterator[str]:
    if not timeline.was_reset:
        return
    cut_off = f"run {timeline.reset_from}" if timeline.reset_from else "the run before"
    calls = ", ".join(row.call for row in effects if row.known_by == ("ledger",))
    yield (
        f"The run was reset: what {cut_off} did after that point is not in this history, only in "
        f"that run's own. Of its calls only what Redis holds is shown: {calls or 'none'}."
    )
