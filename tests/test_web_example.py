"""The web example over real HTTP: a run is started, seen as it happens, and decided about."""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import httpx2
import pytest_asyncio
import uvicorn
from agent_runs import ASKED, Bench, app_of, says, uses

from examples.web.app import app
from onward import tool
from onward.testing import wait_until


@tool(effect="keyed", ask="always")
async def refund(cents: int) -> str:
    """Refund."""
    return f"refunded {cents}"


@pytest_asyncio.fixture(loop_scope="session")
async def web(bench: Bench) -> AsyncGenerator[httpx2.AsyncClient]:
    """The app behind a real server, and a worker of the agent."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    await wait_until(lambda: server.started, 10, what="the web server")
    port = server.servers[0].sockets[0].getsockname()[1]
    async with (
        bench.worker(app_of(refund), **ASKED),
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
    ):
        yield client
        server.should_exit = True
        await serving


async def started(web: httpx2.AsyncClient, bench: Bench) -> str:
    """Start a run that asks for a refund and then says so."""
    name = f"run-{uuid.uuid4().hex[:12]}"
    bench.api.scripts[name] = bench.script(uses(("refund", {"cents": 500})), says("Refunded."))
    job = {"prompt": f"Refund. [script:{name}]", "agent": "tester", "id": name}
    for how in ("started", "attached"):
        answer = await web.post("/runs", json=job)
        assert (answer.status_code, answer.json()) == (201, {"id": name, "how": how})
    return name


async def events(
    web: httpx2.AsyncClient, name: str, last_event_id: str = ""
) -> AsyncGenerator[dict[str, Any]]:
    """Read server-sent events as a browser does: their kind, id and data; comments say nothing."""
    headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
    async with web.stream("GET", f"/runs/{name}/events", headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        event = dict[str, Any]()
        async for line in answer.aiter_lines():
            field, _, value = line.partition(": ")
            if not line and event:
                yield event
                event = {}
            elif field:
                event[field] = json.loads(value) if field == "data" else value


async def test_a_run_is_started_seen_and_decided_about(
    web: httpx2.AsyncClient, bench: Bench
) -> None:
    """The approval shows in the stream; posted, the run goes on; who reconnects misses nothing."""
    name = await started(web, bench)
    seen = list[dict[str, Any]]()
    async with asyncio.timeout(30), aclosing(events(web, name)) as first:
        async for event in first:
            seen.append(event)
            if event["event"] == "waiting":
                break
    assert seen[-1]["data"]["summary"] == "cents=500"
    status = (await web.get(f"/runs/{name}")).json()
    assert (status["state"], status["waiting"][0]["call"]) == ("waiting", "1.1")

    said = {"approve": True, "by": "ops", "edit": {"cents": 300}}
    approved = await web.post(f"/runs/{name}/approvals/1.1", json=said)
    assert approved.json() == {"call": "1.1", "summary": "cents=300", "by": "ops"}
    last = [event["id"] for event in seen if "id" in event][-1]
    async with asyncio.timeout(30):
        rest = [event async for event in events(web, name, last)]
    (result,) = [event["data"] for event in rest if event["event"] == "result"]
    assert result["text"].endswith("refunded 300")
    assert (rest[-1]["event"], rest[-1]["data"]["outcome"]) == ("end", "completed")
    ids = [event["id"] for event in (*seen, *rest) if "id" in event]
    assert len(ids) == len(set(ids))
    again = await web.get(f"/runs/{name}/events", headers={"Last-Event-ID": rest[-1]["id"]})
    assert (again.status_code, again.text) == (204, "")


async def test_what_cannot_be_done_is_an_answer_that_says_why(
    web: httpx2.AsyncClient, bench: Bench
) -> None:
    """No such run 404, no such call 409, no prompt 409: each with what to do."""
    name = await started(web, bench)
    said = {"approve": False, "by": "ops"}
    for path in ("/runs/nothing", "/runs/nothing/events"):
        answer = await web.get(path)
        assert (answer.status_code, "knows no run" in answer.json()["error"]) == (404, True)
    late = await web.post(f"/runs/{name}/approvals/7.1", json=said)
    assert (late.status_code, "does not wait" in late.json()["error"]) == (409, True)
    empty = await web.post("/runs", json={"prompt": " "})
    assert (empty.status_code, "prompt is empty" in empty.json()["error"]) == (409, True)
