"""A web front for runs: start one, see it as it happens, decide what it asks.

    uvicorn examples.web.app:app

Whoever reaches it may start runs and approve calls: put your own login in front of it, and take
`by` from that instead of from the request.
"""

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel

import onward.client
from onward.client import (
    Client,
    ConnectError,
    NoSuchRun,
    OnwardError,
    RunStatus,
    UsageError,
)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """Connect once, for all requests."""
    app.state.client = await onward.client.connect()
    yield


app = FastAPI(title="Runs", lifespan=lifespan)


class Job(BaseModel):
    """What is to be done."""

    prompt: str
    agent: str = "coder"
    id: str | None = None
    """Posted again under the same id, after a lost answer for instance, it is done once."""


class Decision(BaseModel):
    """What a person says of a call that waits for them."""

    approve: bool
    by: str
    why: str = ""
    """Of one that may not run: Claude is told."""
    edit: dict[str, Any] | None = None
    """The input with which it shall run instead."""


def the_client(request: Request) -> Client:
    """Hand out the connection."""
    client: Client = request.app.state.client
    return client


TheClient = Annotated[Client, Depends(the_client)]


@app.post("/runs", status_code=201)
async def start(job: Job, client: TheClient) -> dict[str, str]:
    """Start a run, or find the one that does this job already."""
    run = await client.start(job.prompt, agent=job.agent, run_id=job.id)
    return {"id": run.id, "how": run.how}


@app.get("/runs/{run_id}")
async def status(run_id: str, client: TheClient) -> RunStatus:
    """Say how the run goes, and which calls wait for a person."""
    return await client.attach(run_id).status()


async def seen_last(
    run_id: str, client: TheClient, last_event_id: Annotated[str, Header()] = ""
) -> str:
    """Say which event a browser saw last that lost its connection, and comes back."""
    # An error here is an answer; later, it could only break the stream off.
    await client.attach(run_id).describe()
    if last_event_id == "end":
        raise HTTPException(204)  # that the browser shall not come back
    return last_event_id


@app.get("/runs/{run_id}/events", response_class=EventSourceResponse)
async def events(
    run_id: str, client: TheClient, after: Annotated[str, Depends(seen_last)]
) -> AsyncIterable[ServerSentEvent]:
    """Tell what happens in the run, from its beginning to its end."""
    async for event in client.attach(run_id).events(all_steps=True, after=after):
        told = event.document
        yield ServerSentEvent(event=told["kind"], data=told, id=event.id or None)


@app.post("/runs/{run_id}/approvals/{call}")
async def decide(run_id: str, call: str, said: Decision, client: TheClient) -> dict[str, str]:
    """Let a call run, as it is or with another input, or refuse it."""
    run = client.attach(run_id)
    if said.approve:
        decision = await run.approve(call, edit=said.edit, by=said.by)
    else:
        decision = await run.deny(call, said.why, by=said.by)
    return {"call": call, "summary": decision.waited.summary, "by": said.by}


STATUS: dict[type[OnwardError], int] = {NoSuchRun: 404, UsageError: 409, ConnectError: 503}


@app.exception_handler(OnwardError)
async def refused(_request: Request, error: OnwardError) -> JSONResponse:
    """Say what was found, what was expected, and what to do: Onward's errors do."""
    return JSONResponse({"error": str(error)}, STATUS.get(type(error), 500))
