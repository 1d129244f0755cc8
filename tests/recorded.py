"""Recorded traffic of the real API, read for tests: what Claude said, and what it cost, by hand."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from onward import json_text
from onward.testing.messages_api.literal_json import canonical, dumps, parse
from onward.testing.messages_api.stream import encode, events

BESIDE = Path(__file__).parents[2] / "shared" / "cassettes"
CASSETTES = Path(os.environ.get("ONWARD_CASSETTES", BESIDE))
FILES = sorted(CASSETTES.glob("*/*.json"))
ABSENT = f"the recorded traffic is not part of this checkout: found no files in {CASSETTES}"

_DEAR = (5, "6.25", 10, "0.5", 25)
_MIDDLE = (3, "3.75", 6, "0.3", 15)
_PRICES: dict[str, tuple[int | str, ...]] = {
    "claude-fable-5-2": (8, 10, 16, "0.20", 40),
    "claude-fable-5-1": (10, "12.5", 20, "0.25", 50),
    "claude-fable-5": (10, "12.5", 20, 1, 50),
    "claude-opus-5-5": (4, 5, 8, "0.20", 20),
    "claude-opus-5": _DEAR,
    "claude-opus-4-8": _DEAR,
    "claude-opus-4-7": _DEAR,
    "claude-opus-4-6": _DEAR,
    "claude-opus-4-5": _DEAR,
    "claude-opus-4-1": (15, "18.75", 30, "1.5", 75),
    "claude-sonnet-5-5": (2, "2.5", 4, "0.10", 10),
    "claude-sonnet-5": (2, "2.5", 4, "0.2", 10),
    "claude-sonnet-4-6": _MIDDLE,
    "claude-sonnet-4-5": _MIDDLE,
    "claude-sonnet-4": _MIDDLE,
    "claude-3-7-sonnet": _MIDDLE,
    "claude-3-5-sonnet": _MIDDLE,
    "claude-haiku-4-5": (1, "1.25", 2, "0.1", 5),
}
"""Dollars per million tokens: input, written for 5 minutes, for an hour, read, output."""
_MESSAGE = re.compile(r".*?event: message_stop\n[^\n]*\n*", re.DOTALL)
_WEB_SEARCH = Decimal("0.01")
_US = Decimal("1.1")


@dataclass(frozen=True)
class Recording:
    """One response that the real API gave."""

    name: str
    response: Mapping[str, Any]

    @property
    def truth(self) -> dict[str, Any]:
        """The message, read plainly from what was recorded; number literals are kept."""
        if "sse" not in self.response:
            return dict(parse(dumps(self.response["body"])))
        return _told(self.response["sse"])

    @property
    def events(self) -> list[dict[str, Any]]:
        """The stream as it was recorded; of a reply in one piece, as our server streams it."""
        if "sse" not in self.response:
            return _parsed(b"".join(map(encode, events(self.response["body"]))).decode())
        return _parsed(self.response["sse"])

    @property
    def is_message(self) -> bool:
        """It is Claude's reply, and no error and no answer of another endpoint."""
        return "sse" in self.response or self.response["body"].get("type") == "message"


def recordings() -> list[Recording]:
    """Read every response; of a file that holds the streams of several requests, each."""
    return [each for file in FILES for each in _read(file)]


def _read(file: Path) -> Iterator[Recording]:
    name, response = file.stem, json.loads(file.read_text(encoding="utf-8"))["response"]
    if "sse" not in response:
        yield Recording(name, response)
        return
    for number, sse in enumerate(_MESSAGE.findall(response["sse"])):
        yield Recording(f"{name} {number}", {**response, "sse": sse})


def _parsed(sse: str) -> list[dict[str, Any]]:
    data = (line.removeprefix("data:") for line in sse.split("\n") if line.startswith("data:"))
    return [json_text.load_object(text) for text in data]


def _told(sse: str) -> dict[str, Any]:
    """Put a stream together, as documented and no cleverer."""
    message: dict[str, Any] = {}
    arguments: dict[int, str] = {}
    for line in sse.split("\n"):
        event: dict[str, Any] = parse(line[len("data:") :]) if line.startswith("data:") else {}
        match event.get("type"):
            case "message_start":
                message = event["message"]
            case "content_block_start":
                message["content"].append(event["content_block"])
            case "content_block_delta":
                index, delta = event["index"], event["delta"]
                if delta["type"] == "input_json_delta":
                    arguments[index] = arguments.get(index, "") + delta["partial_json"]
                else:
                    _tell(message["content"][index], delta)
            case "message_delta":
                beside = {k: v for k, v in event.items() if k not in {"type", "delta", "usage"}}
                _learn(message, beside | event["delta"])
                _learn(message["usage"], event["usage"])
            case _:
                pass
    for index, text in arguments.items():
        if text:
            message["content"][index]["input"] = parse(text)
    return message


def _learn(known: dict[str, Any], told: dict[str, Any]) -> None:
    known |= {k: v for k, v in told.items() if v is not None or k not in known}


def _tell(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        case "compaction_delta":
            block["content"] = delta["content"]
        case kind:
            raise AssertionError(f"found a {kind} in the recorded traffic: say how it is told")


# ---- what goes back


def sent_back(content: list[dict[str, Any]]) -> list[str]:
    """What a request must hold of Claude's content: all but text blocks without text."""
    return [canonical(block) for block in content if not _blank(block)]


def _blank(block: dict[str, Any]) -> bool:
    return block["type"] == "text" and not block["text"].strip()


# ---- what it cost


def counted(message: Mapping[str, Any]) -> dict[str, int]:
    """Tokens of a reply by kind, counted by hand from its usage."""
    parts = [part for _, part in _parts(message)]
    return {
        "input_tokens": _sum(parts, "input_tokens"),
        "cache_read_tokens": _sum(parts, "cache_read_input_tokens"),
        "cache_write_tokens": _sum(parts, "cache_creation_input_tokens"),
        "cache_write_1h_tokens": sum(_for_an_hour(part) for part in parts),
        "output_tokens": _sum(parts, "output_tokens"),
        "web_searches": _searches(message),
    }


def cost_usd(message: Mapping[str, Any]) -> Decimal:
    """Price of a reply, by the table above."""
    surcharge = _US if message["usage"].get("inference_geo") == "us" else Decimal(1)
    tokens = sum((_price(model, part) for model, part in _parts(message)), Decimal(0))
    return tokens * surcharge + _searches(message) * _WEB_SEARCH


def _parts(message: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Who used what: a refusal before any word is not billed, wherever it happened."""
    usage, model = message["usage"], message["model"]
    entries: list[dict[str, Any]] = usage.get("iterations") or []
    fell_back = any(entry["type"] == "fallback_message" for entry in entries)
    for entry in entries:
        if not (fell_back and entry["type"] == "message" and entry["output_tokens"] == 0):
            yield entry.get("model") or model, entry
    if not entries and not (message["stop_reason"] == "refusal" and not message["content"]):
        yield model, usage


def _price(model: str, part: Mapping[str, Any]) -> Decimal:
    given, short, hour, read, output = map(Decimal, _PRICES[_undated(model)])
    hourly = _for_an_hour(part)
    written = _sum([part], "cache_creation_input_tokens") - hourly
    dollars = (
        _sum([part], "input_tokens") * given
        + written * short
        + hourly * hour
        + _sum([part], "cache_read_input_tokens") * read
        + _sum([part], "output_tokens") * output
    )
    return dollars / 1_000_000


def _undated(model: str) -> str:
    family, _, date = model.rpartition("-")
    return family if len(date) == len("20260101") else model


def _for_an_hour(part: Mapping[str, Any]) -> int:
    written: dict[str, int | None] = part.get("cache_creation") or {}
    return written.get("ephemeral_1h_input_tokens") or 0


def _searches(message: Mapping[str, Any]) -> int:
    used: dict[str, int | None] = message["usage"].get("server_tool_use") or {}
    return used.get("web_search_requests") or 0


def _sum(parts: list[Mapping[str, Any]], name: str) -> int:
    return sum(part.get(name) or 0 for part in parts)
