"""What the Models API says of a model, asked before a run spends anything.

It costs nothing, and its word is a help and no condition: a gateway that has no such endpoint, or a
key that may not ask, keeps nobody from a run.
"""

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, cast, get_args
from urllib.parse import quote

import httpx2
from anthropic import APIError, AsyncAnthropic, NotFoundError

from onward.errors import AppError
from onward.models.fit import retired
from onward.models.table import Capacity, Effort, ThinkingKind, capacity

_LONGEST_S = 3.0
_KEPT_S = 300.0
_NOTHING_KEPT_S = 10.0
"""Silence must not hold up each run anew, but an API that was away for a moment is asked again."""


class ModelsAPI:
    """What one worker knows of models from the API; each is asked for once in five minutes."""

    def __init__(self, anthropic: AsyncAnthropic) -> None:
        self._anthropic = anthropic
        self._told: dict[str, tuple[float, Mapping[str, Any]]] = {}
        self._asking = defaultdict[str, asyncio.Lock](asyncio.Lock)

    async def capacity(self, model: str) -> Capacity | None:
        """Find what a model can: from our table, or what the API says of one that is not in it.

        Raises `AppError` where the API knows no such model, or it is retired.
        """
        async with self._asking[model]:  # runs that begin at once ask once
            told = await self._ask(model)
        if told.get("lifecycle") == "retired":
            raise retired(model, str(told.get("retires_at") or "")[:10])
        return capacity(model) or _capacity(told)

    async def _ask(self, model: str) -> Mapping[str, Any]:
        now = time.monotonic()
        asked_at, told = self._told.get(model, (-_KEPT_S, {}))
        if now - asked_at < (_KEPT_S if told else _NOTHING_KEPT_S):
            return told
        try:
            told = await self._fetch(model)
        except NotFoundError as error:
            if _names(error.body, model):
                raise AppError(
                    f"The API knows no model {model!r}, or this key may not use it; check its name"
                ) from None
        except (APIError, httpx2.HTTPError, TimeoutError, TypeError, ValueError, RecursionError):
            pass  # the first request to Claude will say it, in better words
        self._told[model] = (now, told)
        return told

    async def _fetch(self, model: str) -> Mapping[str, Any]:
        path = f"/v1/models/{quote(model, safe='')}"
        async with asyncio.timeout(_LONGEST_S):  # the client's own is for each silence
            answer: object = await self._anthropic.get(path, cast_to=object)
        told = _inner({"answer": answer}, "answer")
        return told if told.get("type") == "model" else {}


def _names(body: object, model: str) -> bool:
    """Say whether a 404 is about the model, and not about an endpoint that is not there."""
    error = _inner(_inner({"body": body}, "body"), "error")
    # A gateway without the endpoint may repeat the path, in which the model is named too.
    named = re.search(rf"(?<!/){re.escape(model)}", str(error.get("message")))
    return error.get("type") == "not_found_error" and named is not None


def _capacity(told: Mapping[str, Any]) -> Capacity | None:
    window, longest = told.get("max_input_tokens"), told.get("max_tokens")
    if type(window) is not int or type(longest) is not int or min(window, longest) < 1:
        return None
    can = _inner(told, "capabilities")
    kinds, levels = _inner(_inner(can, "thinking"), "types"), _inner(can, "effort")
    return Capacity(
        context_window=window,
        max_output=longest,
        thinking=tuple(kind for kind in get_args(ThinkingKind) if _supports(kinds, kind)),
        efforts=tuple(level for level in get_args(Effort) if _supports(levels, level)),
    )


def _supports(told: Mapping[str, Any], name: str) -> bool:
    """Say whether the API supports something; what it does not speak of is not refused."""
    return bool(_inner(told, name).get("supported", True))


def _inner(told: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = told.get(name)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
