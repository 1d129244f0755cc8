"""The HTTP server: `async with ScriptedAPI(scripts) as api:` and a client at `api.url`."""

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from onward.rates import Rates
from onward.testing.messages_api import refusals
from onward.testing.messages_api.betas import beta_violations
from onward.testing.messages_api.checks import check
from onward.testing.messages_api.delivery import Delivery
from onward.testing.messages_api.editing import edited
from onward.testing.messages_api.journal import Entry, Journal
from onward.testing.messages_api.literal_json import BodyError, Object, canonical, parse_body
from onward.testing.messages_api.memory import Memory
from onward.testing.messages_api.model_info import Catalogue, Models
from onward.testing.messages_api.prefix_cache import PrefixCache, Reading
from onward.testing.messages_api.prompt import prompt_tokens
from onward.testing.messages_api.rates import RateLimiter
from onward.testing.messages_api.refusals import Violation
from onward.testing.messages_api.reply import Point, compose, sent_message
from onward.testing.messages_api.script import Asked, Script, Scripted, Step
from onward.testing.messages_api.summaries import summary_of
from onward.testing.messages_api.turns import first_text, messages_of, results_in_order, step_number

MAX_BODY_BYTES = 32 * 1024 * 1024
SCRIPT_HEADER = "x-onward-script"

_KEY = re.compile(r"\[script:([^\]\s]+)\]")
_HEADERS = (
    "anthropic-version",
    "anthropic-beta",
    "idempotency-key",
    "x-stainless-retry-count",
    SCRIPT_HEADER,
)
"""Request headers that the journal keeps."""


class ScriptedAPI:
    """A Messages API on the loopback that says what its scripts say and refuses what Claude's does.

    A request picks its script by `[script:KEY]` in the text of its first message or by the header
    `x-onward-script`; `default` is taken if it names none. Its step is the number of assistant
    turns that it holds, those in a summary that it begins with included. A request for a summary
    gets one, and is no step.

    `journal`: file for JSON lines; `accept_keys`: other keys get a 401 (None: any key does);
    `models`: other models get a 404 (None: none does), and what is said of these may be laid over
    what usually is; `clock`: seconds, by which cached prompts grow old;
    `rate_limits`: limits by model; requests beyond them get a 429 (None: there are none);
    `window`: prompts of more tokens get a 400 (None: none does); `max_body_bytes`: more get a 413.
    """

    def __init__(
        self,
        scripts: Mapping[str, Scripted],
        journal: Path | None = None,
        *,
        accept_keys: Collection[str] | None = None,
        models: Models | None = None,
        clock: Callable[[], float] = time.monotonic,
        rate_limits: Mapping[str, Rates] | None = None,
        window: int | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.scripts = dict(scripts)
        self.journal = Journal(journal)
        self.url = ""
        self.catalogue = Catalogue(models)
        self._accept_keys, self._cache = accept_keys, PrefixCache(clock)
        self._window, self._max_body_bytes = window, max_body_bytes
        self._memory, self.rates = Memory(), RateLimiter(rate_limits or {})
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Listen; `url` is set from now on."""
        # The limit is checked by `_messages`, which answers as the API does: above this one
        # aiohttp stops reading.
        app = web.Application(client_max_size=2 * self._max_body_bytes)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_post("/v1/messages/count_tokens", self._count_tokens)
        app.router.add_get("/v1/models/{model}", self._model)
        app.router.add_get("/", _health)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening, drop open requests, close the journal's file."""
        if self._runner:
            await self._runner.cleanup()
        self.journal.close()

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        try:
            raw = await request.read()
        except web.HTTPRequestEntityTooLarge:
            raw = b" " * (self._max_body_bytes + 1)
        entry = _entry(request, raw, len(self.journal) + 1)
        entry.attempt = self.journal.attempt(entry.body_sha256)
        try:
            return await self._answer(request, raw, entry)
        except (asyncio.CancelledError, ConnectionError):
            entry.outcome = entry.outcome or "the client went away"
            raise
        finally:
            entry.t_end = time.time()
            self.journal.answered(entry)

    async def _answer(self, request: web.Request, raw: bytes, entry: Entry) -> web.StreamResponse:
        body, refused = self._read(request, raw, entry)
        self.journal.arrived(entry)
        if body is None or refused:
            return refusals.refuse(entry, refused)
        conversation = self._memory.conversation(entry.conversation)
        named = request.headers.get("anthropic-beta", "")
        if failed := check(body, conversation) or [*beta_violations(body, named)]:
            return refusals.refuse(entry, failed)
        read, edits = edited(body)
        if failed := self._too_long(read):
            return refusals.refuse(entry, failed)
        point = Point(entry.script, entry.step, raw, read)
        return await self._reply(request, entry, body, point, edits)

    async def _reply(
        self, request: web.Request, entry: Entry, body: Object, point: Point, edits: list[Object]
    ) -> web.StreamResponse:
        reading = self._cache.read(entry.key_sha8, point.body)
        try:
            step = self._step(entry, body, reading)
            if isinstance(step, Violation):
                return refusals.refuse(entry, [step])
            step = _telling(step, edits) if body.get("context_management") else step
            reply = compose(step, point, reading.usage)
        except Exception as error:  # noqa: BLE001  (a script is the user's own: it may raise anything)
            return refusals.refuse(entry, [Violation("script", f"script failed: {error!r}", 500)])
        message = sent_message(reply)
        entry.message_id = message["id"] if message else ""
        model = str(body.get("model"))
        usage: Object = message["usage"] if message else {}
        if over := self.rates.refusal(model, usage, entry):
            return over
        entry.usage = usage
        delivery = Delivery(
            request,
            entry,
            step,
            begin=lambda: self._cache.keep(reading),
            remember=lambda: self._remember(entry, body, message),
            headers=self.rates.headers(model),
        )
        return await delivery.send(reply, stream=body.get("stream") is True)

    def _remember(self, entry: Entry, body: Object, message: Object | None) -> None:
        conversation = self._memory.conversation(entry.conversation)
        if body.get("compaction") is None:
            conversation.replied(body, message)
        elif message and message["content"]:
            first = {"messages": [{"role": "assistant", "content": message["content"]}]}
            summed_up = self._memory.conversation(_conversation(entry.script, first))
            summed_up.goes_on_from(conversation, body, message)

    def _too_long(self, body: Object) -> list[Violation]:
        if self._window is None or (length := prompt_tokens(body)) <= self._window:
            return []
        text = f"prompt is too long: {length} tokens > {self._window} maximum"
        return [Violation("too_long", text)]

    def _read(
        self, request: web.Request, raw: bytes, entry: Entry
    ) -> tuple[Object | None, list[Violation]]:
        """Return the body, place `entry` in its script, and say what forbids a closer look."""
        denied = self._denied(request)
        if len(raw) > self._max_body_bytes:
            return None, [*denied, refusals.TOO_LARGE]
        try:
            body = parse_body(raw)
        except BodyError as error:
            return None, [*denied, Violation("json", str(error))]
        entry.script = _script_key(request, body)
        entry.step = step_number(body)
        entry.conversation = _conversation(entry.script, body)
        entry.results_in_order = results_in_order(body)
        if isinstance(body.get("model"), str):
            denied += self.catalogue.refusal(body["model"])
        return body, denied

    def _denied(self, request: web.Request) -> list[Violation]:
        key = _key(request)
        if not key:
            return [refusals.NO_KEY]
        if self._accept_keys is not None and key not in self._accept_keys:
            return [refusals.WRONG_KEY]
        if "anthropic-version" not in request.headers:
            return [Violation("version", "anthropic-version: header is required")]
        return []

    def _step(self, entry: Entry, body: Object, reading: Reading) -> Step | Violation:
        script = self.scripts.get(entry.script)
        if script is None:
            known = ", ".join(map(repr, self.scripts)) or "none"
            return Violation("script", f"no script {entry.script!r}; there are: {known}")
        if body.get("compaction") is not None:
            scripted = script.summary if isinstance(script, Script) else Step()
            return summary_of(entry.script, body, scripted, reading.usage)
        if not isinstance(script, Script):
            return script(Asked(entry.script, entry.step, entry.attempt, body))
        step = script.step(entry.step)
        return step or Violation(
            "step",
            f"script {entry.script!r} has {len(script.steps)} steps and no default; "
            f"step {entry.step} was asked for",
        )

    async def _count_tokens(self, request: web.Request) -> web.StreamResponse:
        try:
            body = parse_body(await request.read())
        except BodyError as error:
            return refusals.response(Violation("json", str(error)))
        if denied := self._denied(request):
            return refusals.response(denied[0])
        return web.json_response({"input_tokens": prompt_tokens(body)})

    async def _model(self, request: web.Request) -> web.StreamResponse:
        if denied := self._denied(request):
            return refusals.response(denied[0])
        found = self.catalogue.look(request.match_info["model"])
        if isinstance(found, Violation):
            return refusals.response(found)
        return web.json_response(found)


async def _health(_: web.Request) -> web.Response:
    return web.json_response({"ok": True})


def _telling(step: Step, edits: list[Object]) -> Step:
    managed = {"context_management": {"applied_edits": edits}}
    return step.model_copy(update={"fields": {**managed, **step.fields}})


def _entry(request: web.Request, raw: bytes, number: int) -> Entry:
    return Entry(
        n=number,
        t=time.time(),
        body_sha256=hashlib.sha256(raw).hexdigest(),
        body=raw.decode("utf-8", "replace") if len(raw) <= MAX_BODY_BYTES else "",
        headers={name: request.headers[name] for name in _HEADERS if name in request.headers},
        key_sha8=hashlib.sha256(_key(request).encode()).hexdigest()[:8],
    )


def _key(request: web.Request) -> str:
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    return request.headers.get("x-api-key", "") or bearer


def _script_key(request: web.Request, body: Object) -> str:
    named = _KEY.search(first_text(body))
    return request.headers.get(SCRIPT_HEADER) or (named.group(1) if named else "default")


def _conversation(script: str, body: Object) -> str:
    first = canonical(messages_of(body)[:1])
    return hashlib.sha256(f"{script}\0{first}".encode()).hexdigest()[:16]
