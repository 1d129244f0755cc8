"""A Messages API that answers at once and costs next to nothing, whatever the transcript's size.

    python -m benchmarks.lean_api            # prints {"url": …} and serves until it is ended

`onward.testing.messages_api` checks every transcript; here a body of 16 MB is only searched from
its end for the last call's id, which says which reply comes next. It also is the one clock of all
contenders: when each request was there whole, and when its answer left.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from benchmarks.work import MODEL, Work
from onward.testing.messages_api.stream import encode, events

MAX_BODY_BYTES = 1 << 30
_CALL = re.compile(rb"toolu_(?P<run>[\w-]+)_(?P<step>\d+)")
_STREAM = re.compile(rb'"stream":\s*true')
_ENDS = 4096
"""Bytes at both ends of a body in which fields beside the messages are looked for."""
_USAGE = {"input_tokens": 20, "output_tokens": 20}
"""Small, so that no budget and no context window ends a run: what is measured is the machinery."""


@dataclass
class Progress:
    """What the API saw of one run; sent as JSON."""

    arrived_s: list[float] = field(default_factory=list[float])
    """When each request was there, by the API's own clock."""
    answered_s: list[float] = field(default_factory=list[float])
    body_bytes: int = 0
    """Of the largest request."""
    requests: int = 0
    """More than steps, if some step was asked for twice."""


class Turns:
    """Lets runs work in turn, a block of steps each, so that the machine's moods hit all alike."""

    def __init__(self) -> None:
        self._runs: Sequence[str] = ()
        self._block = 1
        self._at = dict[str, float]()
        self._changed = asyncio.Condition()

    async def share(self, runs: Sequence[str], block: int) -> None:
        """From now on `runs` take turns, `block` steps each; no runs: everybody works."""
        async with self._changed:
            self._runs, self._block, self._at = runs, block, dict.fromkeys(runs, 0.0)
            self._changed.notify_all()

    async def wait(self, run: str, step: int) -> None:
        """Wait until `run` may have its reply number `step`."""
        async with self._changed:
            self._at[run] = step
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self._may(run, step))

    async def finished(self, run: str) -> None:
        """Nobody waits for `run` any more."""
        async with self._changed:
            self._at[run] = float("inf")
            self._changed.notify_all()

    def _may(self, run: str, step: int) -> bool:
        if run not in self._runs:
            return True
        mine, block = self._runs.index(run), step // self._block
        return all(
            self._at[other] >= (block + (index < mine)) * self._block
            for index, other in enumerate(self._runs)
            if index != mine
        )


class LeanAPI:
    """The handlers."""

    def __init__(self) -> None:
        self._works = dict[str, Work]()
        self._seen = dict[str, Progress]()
        self._turns = Turns()

    def application(self) -> web.Application:
        """Make the web application."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_post("/turns", self._share)
        app.router.add_get("/progress/{run}", self._progress)
        return app

    async def _messages(self, request: web.Request) -> web.Response:
        body = await request.read()
        arrived_s = time.perf_counter()
        work, step = self._asked(body)
        seen = self._seen[work.name]
        seen.requests += 1
        seen.body_bytes = max(seen.body_bytes, len(body))
        await self._turns.wait(work.name, step)
        if step == len(seen.arrived_s):
            seen.arrived_s.append(arrived_s)
            seen.answered_s.append(time.perf_counter())
        if step == work.steps - 1:
            await self._turns.finished(work.name)
        return _answer(_message(work, step), stream=_streams(body))

    def _asked(self, body: bytes) -> tuple[Work, int]:
        last = body.rfind(b"toolu_")
        if call := _CALL.match(body, last) if last >= 0 else None:
            return self._works[call["run"].decode()], int(call["step"]) + 1
        work = Work.found_in(body.decode())
        self._works[work.name] = work
        self._seen.setdefault(work.name, Progress())
        return work, 0

    async def _share(self, request: web.Request) -> web.Response:
        asked = await request.json()
        await self._turns.share(asked["runs"], asked["block"])
        return web.json_response({})

    async def _progress(self, request: web.Request) -> web.Response:
        return web.json_response(vars(self._seen.get(request.match_info["run"], Progress())))


def _message(work: Work, step: int) -> dict[str, Any]:
    """Claude's reply number `step`, counted from 0."""
    last = step == work.steps - 1
    words = "That was the last page." if last else f"Now page {step + 1}."
    call = {
        "type": "tool_use",
        "id": f"toolu_{work.name}_{step}",
        "name": work.tool,
        "input": {"n": step + 1, "size": work.result_bytes},
    }
    return {
        "id": f"msg_{work.name}_{step}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": words}, *([] if last else [call])],
        "stop_reason": "end_turn" if last else "tool_use",
        "stop_sequence": None,
        "usage": _USAGE,
    }


def _answer(message: dict[str, Any], *, stream: bool) -> web.Response:
    if not stream:
        return web.json_response(message)
    body = b"".join(map(encode, events(message)))
    return web.Response(body=body, content_type="text/event-stream")


def _streams(body: bytes) -> bool:
    return bool(_STREAM.search(body[:_ENDS]) or _STREAM.search(body[-_ENDS:]))


async def serve() -> None:
    """Serve on a port of its own until the process is ended."""
    runner = web.AppRunner(LeanAPI().application(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    sys.stdout.write(json.dumps({"url": f"http://{host}:{port}"}) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
