"""What an agent may ask of its model: refused before any money is spent, or sent to the byte."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from agent_runs import Bench, app_of, says, uses
from aiohttp import web
from pages import ROOT, Reader

from onward import Agent, App, Limits, claude, tool
from onward.agents import load_app
from onward.errors import AppError
from onward.messages import RunResult
from onward.models.api import ModelsAPI
from onward.models.fit import retirement
from onward.testing.messages_api import ErrorDetail, Fault, ScriptedAPI, Step

SEARCH = {"type": "web_search_20260318", "name": "web_search", "max_uses": 5}
MCP = {"type": "mcp_toolset", "mcp_server_name": "issues"}
SERVER = {"type": "url", "url": "https://mcp.example.com", "name": "issues"}
CLEARS = {
    "edits": [{"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 9}}]
}
COMPACTS = {"edits": [{"type": "compact_20260112"}]}
BUDGET = {"type": "enabled", "budget_tokens": 2000}


@tool(effect="read")
def look(where: str) -> str:
    """Look."""
    return where


MEANINGLESS: list[tuple[dict[str, Any], str]] = [
    ({"effort": "huge"}, "effort 'huge'; use one of None, 'low', 'medium'"),
    ({"thinking": "enabled"}, "thinking 'enabled'; use one of 'adaptive', 'disabled'"),
    ({"thinking": {"budget_tokens": 2000}}, "thinking of type None; use one of"),
    ({"thinking": {"type": "enabled"}}, "budget_tokens None; use 1024 or more"),
    ({"thinking": {"type": "enabled", "budget_tokens": 16_000}}, "leaves nothing of its"),
    ({"thinking": 5}, "thinking 5; use a dict"),
    ({"cache": "2h"}, "cache '2h'; use one of 'auto', '5m', '1h', 'off'"),
    ({"at_limit": "ask"}, "at_limit 'ask'; use one of 'stop', 'wait'"),
    ({"service_tier": "priority"}, "service_tier 'priority'; use one of"),
    ({"speed": "faster"}, "speed 'faster'; use one of None, 'standard', 'fast'"),
    ({"metadata": "me"}, "metadata 'me'; use a dict"),
    ({"metadata": {"user_id": object()}}, "metadata that is not plain JSON"),
    ({"betas": "context-1m-2025-08-07"}, "use a list of names"),
    ({"betas": ["one, two"]}, "the beta 'one, two'; use the name as"),
    ({"betas": [""]}, "the beta ''"),
    ({"server_tools": SEARCH}, "use a list of dicts"),
    ({"server_tools": ["web_search"]}, "server_tools 'web_search'; use a dict"),
    (
        {"server_tools": [{"name": "mine", "input_schema": {}}]},
        "decorate a function with @tool",
    ),
    ({"server_tools": [{"type": "bash_20250124", "name": "bash"}]}, "leaves to the client"),
    ({"server_tools": [SEARCH, SEARCH]}, "two tools named 'web_search'"),
    ({"server_tools": [SEARCH | {"name": "look"}], "tools": [look]}, "two tools named 'look'"),
    ({"server_tools": [SEARCH | {"cache_control": {}}]}, "give the agent cache="),
    ({"context_management": COMPACTS}, "use context='stop' with it"),
    ({"extra_body": "text"}, "extra_body 'text'; use a dict"),
    ({"extra_body": {"stop_sequences": (1,)}}, "use lists and string keys"),
    ({"extra_body": {"thinking": {}}}, "'thinking' in its extra_body: give it as the agent's"),
    ({"extra_body": {"temperature": 1.0}}, "'temperature' in its extra_body: the API refuses"),
    ({"extra_body": {"thread": {}}}, "Onward keeps the conversation"),
    ({"extra_body": {"output_config": {"effort": "low"}}}, "argument for its effort"),
    ({"limits": Limits(max_wall_time=1e12)}, "max_wall_time 1,000,000,000,000.0 in its limits"),
    ({"limits": Limits(max_steps=10**9)}, "max_steps 1,000,000,000 in its limits"),
]


@pytest.mark.parametrize(("options", "said"), MEANINGLESS)
def test_an_option_that_means_nothing_is_refused(options: dict[str, Any], said: str) -> None:
    """The agent's author reads what is wrong when the app is loaded, and what would be right."""
    options.setdefault("model", "claude-sonnet-5-5")
    with pytest.raises(AppError) as caught:
        Agent("a", **options)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        ("claude-opus-4-1-20250805", {}, "retired on 2026-08-05"),
        ("claude-3-7-sonnet-latest", {}, "retired on 2026-02-19"),
        ("claude-haiku-4-5", {"max_tokens": 100_000}, "replies with 64,000 at most"),
        ("claude-opus-5-5", {"thinking": "disabled"}, "takes 'adaptive'"),
        ("claude-fable-5-2", {"thinking": "disabled"}, "takes 'adaptive'"),
        ("claude-sonnet-5-5", {"thinking": "disabled"}, "takes 'adaptive' or 'between_tools'"),
        ("claude-haiku-5-5", {"thinking": "between_tools"}, "takes 'adaptive' or 'disabled'"),
        ("claude-opus-4-7", {"thinking": BUDGET}, "has thinking 'enabled'"),
        ("claude-sonnet-4-5", {"thinking": "adaptive"}, "takes 'disabled' or 'enabled'"),
        ("claude-haiku-4-5", {"effort": "low"}, "has effort 'low'; 'claude-haiku-4-5' takes none"),
        ("claude-opus-4-6", {"effort": "xhigh"}, "takes 'low', 'medium', 'high', 'max'"),
        ("claude-opus-5", {"effort": "max", "thinking": "disabled"}, "must think above 'high'"),
        ("claude-sonnet-5-5", {"speed": "fast"}, "has speed 'fast'"),
        ("claude-opus-4-5", {"extra_body": {"inference_geo": "us"}}, "has inference_geo"),
        ("claude-opus-5-5", {"extra_body": {"tool_choice": {"type": "any"}}}, "use 'auto'"),
        (
            "claude-haiku-4-5",
            {"context": "stop", "context_management": COMPACTS},
            "lets the API compact",
        ),
    ],
)
def test_what_a_model_refuses_is_refused_before_it_is_asked(
    model: str, options: dict[str, Any], said: str
) -> None:
    """Not as a 400 in the middle of a run; `--model` is held to the same."""
    agent = Agent("a", model="claude-of-tomorrow", **options)
    agent.definition()  # of a model that is not known, nothing is
    with pytest.raises(AppError) as caught:
        agent.definition(model)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("claude-sonnet-5-5", {"thinking": "between_tools", "effort": "high"}),
        ("claude-haiku-5-5", {"thinking": "disabled"}),
        ("claude-opus-4-6", {"thinking": BUDGET, "effort": "max"}),
        ("claude-opus-5", {"speed": "fast", "effort": "xhigh", "thinking": "adaptive"}),
        ("claude-opus-4-5", {"effort": "low", "thinking": BUDGET}),
        (
            "claude-sonnet-4-5",
            {
                "thinking": BUDGET | {"budget_tokens": 20_000},
                "betas": ["interleaved-thinking-2025-05-14"],
            },
        ),
    ],
)
def test_what_a_model_takes_is_not_refused(model: str, options: dict[str, Any]) -> None:
    """The checks know the exceptions, so that nobody is kept from what works."""
    Agent("a", model=model, **options).definition()


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ("max_cost_usd=0", "in Limits, max_cost_usd is 0: Input should be greater than 0"),
        ("max_steps=-1", "max_steps is -1"),
        ("max_wall_time='soon'", "max_wall_time is 'soon'"),
        ("max_tokens_total=0.5", "max_tokens_total is 0.5"),
        ("max_step=5", "found max_step; there is no limit of that name"),
    ],
)
def test_a_limit_that_limits_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: str, said: str
) -> None:
    """A line for the app's author, and no trace of the library that found it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "limited", raising=False)
    (tmp_path / "limited.py").write_text(f"from onward import Limits\nLimits({limits})\n")
    with pytest.raises(AppError) as caught:
        load_app("limited:app")
    assert str(caught.value).startswith("App module 'limited' is not valid: in Limits, ")
    assert said in str(caught.value)


def test_the_page_on_agents_tells_every_option(tmp_path: Path) -> None:
    """What it shows works, and its table has a row for each option and no other."""
    page, reader = (ROOT / "docs/agents.md").read_text(), Reader("docs/agents.md", tmp_path)
    told = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert told == {option.name for option in fields(Agent)} - {"name"}
    made: dict[str, Any] = {}
    for containing in ("researcher", "planner", "triage"):
        exec(reader.code(containing), made)  # noqa: S102  (our own page)
    agents = [made["planner"], made["triage"], *made["app"].agents.values()]
    assert all(agent.definition() for agent in agents)
    assert reader.untyped() == set()


def test_a_deprecated_model_is_told_with_its_date() -> None:
    """It still works, so it is a warning; a current model is not spoken of."""
    assert "to be retired on 2027-01-22" in retirement("claude-opus-4-5-20251101")
    assert not retirement("claude-opus-5-5")


async def _answer(request: web.Request) -> web.Response:
    error = {"type": "not_found_error", "message": "Not found"}
    limits = {"max_input_tokens": 5, "max_tokens": 5}
    answers: dict[str, tuple[int, Any]] = {
        "page": (404, "<h1>Nothing here</h1>"),
        "generic": (404, {"type": "error", "error": error}),
        "detail": (404, {"detail": "page Not Found"}),
        "path": (404, {"type": "error", "error": error | {"message": "no /v1/models/path here"}}),
        "zeros": (200, {"type": "model", "max_input_tokens": 0, "max_tokens": 0}),
        "down": (500, "down"),
        "no-key": (401, {"type": "error", "error": {"type": "authentication_error"}}),
        "other": (200, {"object": "model", "id": "other"}),
        "list": (200, ["list"]),
        "text": (200, "text"),
        "odd": (200, {"type": "model", **limits, "capabilities": {"effort": 7, "thinking": []}}),
        "no-limits": (200, {"type": "model", "max_input_tokens": None}),
    }
    status, body = answers[request.match_info["model"]]
    if isinstance(body, str):
        return web.Response(status=status, text=body)
    return web.json_response(body, status=status)


@asynccontextmanager
async def gateway() -> AsyncGenerator[ModelsAPI]:
    """Ask something that is not quite the Models API."""
    app = web.Application()
    app.router.add_get("/v1/models/{model}", _answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with claude.client(base_url=f"http://{host}:{port}", api_key="test") as anthropic:
        yield ModelsAPI(anthropic)
    await runner.cleanup()


async def test_nobody_needs_a_models_api() -> None:
    """What a gateway says instead keeps no run from beginning: nothing is known of the model."""
    quiet = ["page", "generic", "detail", "path", "down", "no-key", "other", "list", "text"]
    quiet += ["no-limits", "zeros"]
    async with gateway() as models:
        assert [await models.capacity(model) for model in quiet] == [None] * len(quiet)
        odd = await models.capacity("odd")
    assert odd is not None
    assert (odd.context_window, len(odd.efforts)) == (5, 5)


async def test_an_api_that_is_away_keeps_no_run_from_its_beginning() -> None:
    """The first request waits for it; a client without a key is told by that request too."""
    async with claude.client(base_url="http://127.0.0.1:9", api_key="test") as anthropic:
        assert await ModelsAPI(anthropic).capacity("claude-of-tomorrow") is None
        assert await ModelsAPI(anthropic).capacity("claude-opus-5-5") is not None


async def refused(bench: Bench, api: ScriptedAPI, app: App, *steps: Step) -> RunResult:
    """Start a run against `api`, and return the result with which it fails."""
    there = replace(bench, api=api)
    async with there.worker(app):
        run = await there.start(*steps, unlimited_cost=True)
        return await asyncio.wait_for(run.failed(), timeout=30)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("claude-sonet-5-5", "The API knows no model 'claude-sonet-5-5'"),
        ("claude-gone", "was retired on 2026-09-01"),
        ("claude-quick", "has effort 'max'; 'claude-quick' takes 'low'"),
    ],
)
async def test_a_model_that_cannot_answer_costs_nothing(
    bench: Bench, model: str, said: str
) -> None:
    """The API is asked of it first; the run fails with the reason, and no request was sent."""
    only_low = {
        "supported": True,
        **{level: {"supported": False} for level in ("medium", "high", "xhigh", "max")},
    }
    models = {
        "claude-gone": {"lifecycle": "retired", "retires_at": "2026-09-01T00:00:00Z"},
        "claude-quick": {"capabilities": {"effort": only_low}},
    }
    app = App(Agent("tester", model=model, effort="max"))
    async with ScriptedAPI({}, models=models) as api:
        result = await refused(bench, api, app, says())
    assert said in result.detail
    assert not len(api.journal)


async def test_an_unknown_models_window_is_the_one_that_the_api_names(bench: Bench) -> None:
    """So room is made in time for it too; the API is asked once, however many runs begin."""
    app = App(Agent("tester", model="claude-of-tomorrow"))
    async with ScriptedAPI({}, models={"claude-of-tomorrow": {"max_input_tokens": 150_000}}) as api:
        there = replace(bench, api=api)
        async with there.worker(app):
            runs = [await there.start(says(), unlimited_cost=True) for _ in range(2)]
            for run in runs:
                await run.ended()
            status = await runs[0].status()
    assert status.context is not None
    assert status.context.window == 150_000
    assert api.catalogue.asked == ["claude-of-tomorrow"]


@pytest.mark.parametrize(("status", "said"), [(401, "ANTHROPIC_API_KEY"), (403, "not allowed")])
async def test_a_key_without_rights_is_told_by_the_first_request(
    bench: Bench, status: int, said: str
) -> None:
    """It costs nothing, is not tried again, and says what to look at."""
    words = "This key is not allowed to use the model."
    error = ErrorDetail(type="permission_error", message=words) if status == 403 else None
    step = says(faults=[Fault(status=status, error=error)])
    async with ScriptedAPI({}) as api:
        result = await refused(bench, api, app_of(), step)
    assert said in result.detail
    assert [entry.status for entry in api.journal] == [status]
    assert result.spend.tokens == 0


EVERYTHING: dict[str, Any] = {
    "model": "claude-opus-5",
    "system": "Look first.",
    "tools": [look],
    "server_tools": [SEARCH, MCP],
    "max_tokens": 9000,
    "effort": "high",
    "thinking": {"type": "adaptive", "display": "summarized"},
    "context": "clear",
    "context_management": CLEARS,
    "cache": "off",
    "metadata": {"user_id": "u-7f3a"},
    "service_tier": "standard_only",
    "speed": "fast",
    "betas": ["context-1m-2025-08-07"],
    "extra_body": {
        "stop_sequences": ["STOP"],
        "mcp_servers": [SERVER],
        "output_config": {"task_budget": {"type": "tokens", "total": 90_000}},
    },
}


async def test_every_option_is_in_every_request(bench: Bench) -> None:
    """Step by step the same bytes before the messages, and every feature named in the header."""
    found: list[dict[str, Any]] = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "tool_use", "name": "web_search", "input": {}},
    ]
    steps = [uses(("look", {"where": "here"})), Step(content=found), says()]
    run = await bench.run(App(Agent("tester", **EVERYTHING)), *steps)
    bodies = [json.loads(entry.body) for entry in run.requests]
    assert [{**body, "messages": ...} for body in bodies] == [expected()] * 3
    assert len({entry.body.partition('"messages":')[0] for entry in run.requests}) == 1
    named = {entry.headers["anthropic-beta"] for entry in run.requests}
    assert [set(header.split(",")) for header in named] == [
        {
            *("context-1m-2025-08-07", "context-management-2025-06-27", "mcp-client-2026-09-15"),
            *("task-budgets-2026-03-13", "fast-mode-2026-02-01"),
        }
    ]
    # What the API runs by itself is no tool of ours, even where it is asked for as one.
    (result,) = bodies[2]["messages"][-1]["content"]
    assert result["is_error"]
    assert "no tool 'web_search'. The tools are: look, read_result" in result["content"]


def expected() -> dict[str, Any]:
    """All of each request but its messages."""
    tools = [tool.definition() for tool in Agent("a", **EVERYTHING).offered]
    return {
        "model": "claude-opus-5",
        "max_tokens": 9000,
        "context_management": CLEARS,
        "system": "Look first.",
        "tools": [*tools, SEARCH, MCP],
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {
            "effort": "high",
            "task_budget": {"type": "tokens", "total": 90_000},
        },
        "metadata": {"user_id": "u-7f3a"},
        "service_tier": "standard_only",
        "speed": "fast",
        "stop_sequences": ["STOP"],
        "mcp_servers": [SERVER],
        "stream": True,
        "messages": ...,
    }
