"""A message as the stream of events that the Messages API sends for it, and back.

The order is the one of recorded streams: `message_start`, then for each block a start, its deltas
and a stop, with a `ping` after the first start, then `message_delta` and `message_stop`.
"""

from collections.abc import Iterable, Iterator

from onward.testing.messages_api.literal_json import Object, dumps, is_object, parse

CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""Blocks whose `input` is streamed as pieces of JSON text."""

_LATE = ("stop_reason", "stop_sequence", "stop_details", "container")
"""Fields of a message that a stream tells at its end, in a `delta`."""
_BESIDE = ("context_management",)
"""Fields of a message that a stream tells beside that `delta`."""


class UnknownDeltaError(ValueError):
    """A recorded stream holds a delta whose meaning is not known, so it cannot be folded."""


def events(message: Object, *, chunk_chars: int = 24, cut: bool = False) -> list[Object]:
    """Return the events of `message`, texts in pieces of `chunk_chars` characters.

    `cut`: the JSON of a call in the last block stops half way, as at `max_tokens`.
    """
    out: list[Object] = [_message_start(message)]
    blocks: list[Object] = message["content"]
    for index, block in enumerate(blocks):
        start, deltas = _block(block, chunk_chars, cut=cut and index == len(blocks) - 1)
        out.append({"type": "content_block_start", "index": index, "content_block": start})
        if index == 0:
            out.append({"type": "ping"})
        out += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
        out.append({"type": "content_block_stop", "index": index})
    return [*out, _message_delta(message), {"type": "message_stop"}]


def encode(event: Object) -> bytes:
    """Return one event as server-sent-event text."""
    return f"event: {event['type']}\ndata: {dumps(event)}\n\n".encode()


def split(sse: str) -> list[bytes]:
    """Return the events of recorded text, each as the bytes it was; joined they are the text."""
    pieces = sse.split("\n\n")
    whole = [f"{piece}\n\n".encode() for piece in pieces[:-1]]
    return [*whole, pieces[-1].encode()] if pieces[-1] else whole


def decode(sse: str) -> list[Object]:
    """Return the events in recorded server-sent-event text."""
    lines = (line[5:].strip() for line in sse.split("\n") if line.startswith("data:"))
    return [event for event in map(parse, lines) if is_object(event)]


def fold(stream: Iterable[Object]) -> Object:
    """Return the message that a stream tells first. Raises `UnknownDeltaError`."""
    message: Object = {}
    inputs: dict[int, str] = {}
    for event in stream:
        match event["type"]:
            case "message_start":
                told: Object = event["message"]
                message = {**told, "content": list(told["content"]), "usage": dict(told["usage"])}
            case "content_block_start":
                message["content"].append(dict(event["content_block"]))
            case "content_block_delta":
                index: int = event["index"]
                _apply(message["content"][index], event["delta"], inputs, index)
            case "message_delta":
                _finish(message, event)
            case "message_stop":
                break
            case _:
                pass
    for index, text in inputs.items():
        message["content"][index]["input"] = parse(text) if text else {}
    return message


def _finish(message: Object, event: Object) -> None:
    """Add what the end of a message tells; a null there takes back nothing."""
    beside = {key: value for key, value in event.items() if key not in ("type", "delta", "usage")}
    for told, known in (
        (event.get("usage", {}), message["usage"]),
        (beside | event["delta"], message),
    ):
        known |= {
            key: value for key, value in told.items() if value is not None or key not in known
        }


def _message_start(message: Object) -> Object:
    late = {key: None for key in (*_LATE, *_BESIDE) if key in message}
    usage = {**message["usage"], "output_tokens": 1}
    return {"type": "message_start", "message": {**message, **late, "content": [], "usage": usage}}


def _message_delta(message: Object) -> Object:
    delta = {key: message[key] for key in _LATE if key in message}
    # Recorded streams tell the split of cache writes, tier and geography only at their start.
    early = ("cache_creation", "service_tier", "inference_geo")
    usage = {key: value for key, value in message["usage"].items() if key not in early}
    beside = {key: message[key] for key in _BESIDE if key in message}
    return {"type": "message_delta", "delta": delta, "usage": usage, **beside}


def _block(block: Object, size: int, *, cut: bool) -> tuple[Object, list[Object]]:
    """Return a block's start and its deltas; a type without deltas is whole in its start."""
    match block.get("type"):
        case "text":
            return _text(block, size)
        case "thinking":
            deltas = list(_pieces("thinking_delta", "thinking", block["thinking"], size))
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*deltas, signature]
        case kind if kind in CALLS:
            text = dumps(block["input"], spaced=True)
            text = text[: len(text) // 2] if cut else text
            first = {"type": "input_json_delta", "partial_json": ""}
            deltas = list(_pieces("input_json_delta", "partial_json", text, size))
            return {**block, "input": {}}, [first, *deltas]
        case _:
            return block, []


def _text(block: Object, size: int) -> tuple[Object, list[Object]]:
    deltas = list(_pieces("text_delta", "text", block["text"], size))
    citations = block.get("citations")
    if not citations:
        return {**block, "text": ""}, deltas
    cited = [{"type": "citations_delta", "citation": citation} for citation in citations]
    return {**block, "text": "", "citations": []}, [*cited, *deltas]


def _pieces(kind: str, field: str, text: str, size: int) -> Iterator[Object]:
    for start in range(0, len(text), size):
        yield {"type": kind, field: text[start : start + size]}


def _apply(block: Object, delta: Object, inputs: dict[int, str], index: int) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] = (block.get("text") or "") + delta["text"]
        case "thinking_delta":
            block["thinking"] = (block.get("thinking") or "") + delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        case "compaction_delta":
            block |= {key: value for key, value in delta.items() if key != "type"}
        case "input_json_delta":
            inputs[index] = inputs.get(index, "") + delta["partial_json"]
        case kind:
            raise UnknownDeltaError(f"found the delta {kind!r} on a {block.get('type')!r} block")
