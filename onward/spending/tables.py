"""What was spent, for people."""

from collections.abc import Iterator, Mapping

from onward.figures import cost_line, count
from onward.messages import Spend, Tally

COLUMNS = ("requests", "input", "cache read", "cache written", "output", "cost")
OTHER = "other"
"""What belongs to no row: of steps that were given up in a workflow run that Temporal no longer
keeps; or counted by a release of before 0.4, which did not tell models apart."""

_HOUR = "for an hour"


def facts(spend: Spend, *, complete: bool) -> list[tuple[str, str]]:
    """Say what was spent, kind by kind."""
    lower = "" if complete else "at least "
    return [
        ("cost", cost_line(spend, complete=complete)),
        ("price unknown", ", ".join(_unpriced(spend))),
        ("requests", f"{lower}{spend.requests:,}"),
        ("input tokens", f"{lower}{spend.input_tokens:,}"),
        ("read from cache", f"{lower}{spend.cache_read_tokens:,}"),
        ("written to cache", lower + _written(spend)),
        ("output tokens", lower + _part(spend.output_tokens, spend.thinking_tokens, "thinking")),
        ("web searches", f"{spend.web_searches:,}" if spend.web_searches else ""),
        ("web fetches", f"{spend.web_fetches:,}" if spend.web_fetches else ""),
        ("lost", _lost(spend)),
        ("saved", _saved(spend.saved)),
        *_models(spend),
    ]


def _part(whole: int, part: int, what: str) -> str:
    return f"{whole:,} ({part:,} of them {what})" if part else f"{whole:,}"


def _written(spend: Spend) -> str:
    return _part(spend.cache_write_tokens, spend.cache_write_1h_tokens, _HOUR)


def _lost(spend: Spend) -> str:
    """Say what is known of requests whose answer never arrived whole."""
    if not spend.lost_requests:
        return ""
    cost = cost_line(spend.lost)
    asked = f"{count(spend.lost_requests, 'request')} of those, whose answer was lost"
    return f"{asked}: at least {spend.lost.tokens:,} tokens, {cost}"


def _saved(saved: Tally) -> str:
    if not saved.requests:
        return ""
    replies = "reply" if saved.requests == 1 else "replies"
    unpaid = f"{saved.tokens:,} tokens, {cost_line(saved)} not paid again"
    return f"{saved.requests:,} {replies} found in the record: {unpaid}"


def _unpriced(spend: Spend) -> Iterator[str]:
    for model, tally in spend.models.items():
        if tally.unpriced_requests and not tally.cost_usd:
            yield model


def _models(spend: Spend) -> Iterator[tuple[str, str]]:
    if len(spend.models) > 1:
        for model, tally in spend.models.items():
            tokens = f"{tally.tokens:,} tokens"
            yield model, f"{count(tally.requests, 'request')}, {tokens}, {cost_line(tally)}"


def with_other(rows: Mapping[str, Tally], total: Tally) -> dict[str, Tally]:
    """Add what is in the total and in no row, so that the rows add up to it."""
    rest = total - sum(rows.values(), Tally())
    requests = max(rest.requests, 0)  # one that several models serve is in the row of each
    if not (requests or rest.tokens or rest.cost_usd):
        return dict(rows)
    unpriced = max(rest.unpriced_requests, 0)
    other = rest.model_copy(update={"requests": requests, "unpriced_requests": unpriced})
    return {**rows, OTHER: other}


def cells(tally: Tally) -> tuple[str, ...]:
    """Write what stands under `COLUMNS`."""
    prompt = (tally.input_tokens, tally.cache_read_tokens, tally.cache_write_tokens)
    counts = (tally.requests, *prompt, tally.output_tokens)
    return (*(f"{number:,}" for number in counts), cost_line(tally))
