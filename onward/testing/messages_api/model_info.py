"""The models that the scripted API has, and what it says of them."""

from collections.abc import Collection, Iterable, Mapping
from typing import cast, get_args

from onward.models.table import Capacity, Effort, ThinkingKind, capacity
from onward.testing.messages_api.literal_json import Object
from onward.testing.messages_api.refusals import Violation

_UNKNOWN = Capacity(context_window=1_000_000, max_output=128_000)
"""Of a model that Onward's table does not know."""


Models = Collection[str] | Mapping[str, Object]
"""Names of models; with a mapping, fields that are laid over what is usually said of each."""


class Catalogue:
    """What `GET /v1/models/{model}` knows; None: any model, with nothing out of the usual."""

    def __init__(self, models: Models | None) -> None:
        self._models = None if models is None else _by_name(models)
        self.asked = list[str]()
        """Models that were asked for, in order."""

    def refusal(self, model: str) -> list[Violation]:
        """Return why a request cannot be answered by this model."""
        retired = self._fields(model).get("lifecycle") == "retired"
        return [_unknown(model)] if retired else self._missing(model)

    def look(self, model: str) -> Object | Violation:
        """Return what is said of a model; one that is retired is still told of."""
        self.asked.append(model)
        return next(iter(self._missing(model)), _info(model) | self._fields(model))

    def _missing(self, model: str) -> list[Violation]:
        known = self._models is None or model in self._models
        return [] if known else [_unknown(model)]

    def _fields(self, model: str) -> Object:
        return (self._models or {}).get(model, {})


def _by_name(models: Models) -> Mapping[str, Object]:
    if isinstance(models, Mapping):
        return cast("Mapping[str, Object]", models)
    return dict.fromkeys(models, Object())


def _unknown(model: str) -> Violation:
    return Violation("model", f"model: {model}", 404)


def _info(model: str) -> Object:
    known = capacity(model) or _UNKNOWN
    return {
        "type": "model",
        "id": model,
        "display_name": model,
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "deprecated_at": None,
        "retires_at": None,
        "line": None,
        "max_input_tokens": known.context_window,
        "max_tokens": known.max_output,
        "capabilities": _capabilities(known),
    }


def _capabilities(known: Capacity) -> Object:
    always = ("batch", "citations", "code_execution", "image_input", "pdf_input")
    edits = ("clear_thinking_20251015", "clear_tool_uses_20250919")
    compacts = {"compact_20260112": _supported(supported=known.sums_up)}
    return {
        **{name: _supported() for name in (*always, "structured_outputs")},
        "context_management": _supported() | {name: _supported() for name in edits} | compacts,
        "server_tools": _supported() | {"web_search": _supported(), "code_execution": _supported()},
        "effort": _supported(supported=bool(known.efforts))
        | _each(get_args(Effort), known.efforts),
        "thinking": _supported() | {"types": _each(get_args(ThinkingKind), known.thinking)},
    }


def _each(names: Iterable[str], known: Collection[str]) -> Object:
    return {name: _supported(supported=name in known) for name in names}


def _supported(*, supported: bool = True) -> Object:
    return {"supported": supported}
