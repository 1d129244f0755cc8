"""What of a request its model is known to refuse: told at the beginning, not as a 400 in a run."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from onward.errors import AppError
from onward.models.table import Capacity, retired_on, retires_on

_NOT_THINKING = frozenset({"disabled", "between_tools"})
_HIGHEST = frozenset({"xhigh", "max"})


def refuse_unfit(where: str, body: Mapping[str, Any], known: Capacity | None) -> None:
    """Refuse a request that its model cannot answer; `body`: without messages.

    `known`: what the model can; None: not known, and only a retired model is refused. Raises
    `AppError`, in which `where` names the agent.
    """
    model = str(body["model"])
    if retired := retired_on(model):
        raise AppError(f"{where} has the model {model!r}, which was {_gone(retired.isoformat())}")
    for problem in _problems(body, model, known) if known else ():
        raise AppError(f"{where} {problem}")


def retired(model: str, day: str) -> AppError:
    """Say that a model is gone; `day`: since when, empty if the API does not say."""
    return AppError(f"The model {model!r} was {_gone(day)}")


def retirement(model: str) -> str:
    """Say that a model is deprecated, in a sentence; empty if it is not known to be."""
    day = retires_on(model)
    return f"{model!r} is deprecated: it is to be retired on {day}; plan another" if day else ""


def _gone(day: str) -> str:
    since = f" on {day}" if day else ""
    return f"retired{since}: the API no longer answers it; choose another"


def _problems(body: Mapping[str, Any], model: str, known: Capacity) -> Iterator[str]:
    if body["max_tokens"] > known.max_output:
        yield (
            f"has max_tokens {body['max_tokens']:,}; {model!r} replies with "
            f"{known.max_output:,} at most"
        )
    yield from _thinking(body, model, known)
    yield from _effort(body, model, known)
    if body.get("speed") == "fast" and not known.fast:
        yield f"has speed 'fast', which {model!r} does not have; leave it out"
    if "inference_geo" in body and not known.inference_geo:
        yield f"has inference_geo in its extra_body, which {model!r} refuses; leave it out"
    if _inner(body, "tool_choice", "type") in {"any", "tool"} and not known.forced_tools:
        yield f"forces calls by its tool_choice, which {model!r} refuses; use 'auto'"
    if "compact_" in json.dumps(body.get("context_management")) and not known.sums_up:
        yield f"lets the API compact by its context_management, which {model!r} cannot"


def _thinking(body: Mapping[str, Any], model: str, known: Capacity) -> Iterator[str]:
    kind = _inner(body, "thinking", "type")
    if kind and kind not in known.thinking:
        yield f"has thinking {kind!r}; {model!r} takes {' or '.join(map(repr, known.thinking))}"


def _effort(body: Mapping[str, Any], model: str, known: Capacity) -> Iterator[str]:
    effort, kind = _inner(body, "output_config", "effort"), _inner(body, "thinking", "type")
    if effort and effort not in known.efforts:
        takes = f"takes {', '.join(map(repr, known.efforts))}" if known.efforts else "takes none"
        yield f"has effort {effort!r}; {model!r} {takes}"
    if effort in _HIGHEST and kind in _NOT_THINKING and known.thinks_above_high:
        yield (
            f"has effort {effort!r} with thinking {kind!r}; {model!r} must think above 'high':"
            " use one or the other"
        )


def _inner(body: Mapping[str, Any], outer: str, inner: str) -> Any:
    fields: Mapping[str, Any] = body.get(outer) or {}
    return fields.get(inner)
