"""An app that cannot work is refused when it is loaded, in words that say what to change."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from onward import Agent, App, Limits, ToolContext, tool
from onward.agents import load_app
from onward.builtin import lookup_order, refund
from onward.errors import AppError, Rejected, UsageError
from onward.tools.read_result import read_result


@tool(effect="read")
def look(where: str) -> str:
    """Look."""
    return where


@tool
def act() -> None: ...


def agent(name: str = "a", **options: Any) -> Agent:
    """Make an agent in which only the options matter."""
    options.setdefault("model", "claude-test")
    return Agent(name, **options)


def test_definition_is_a_request_without_messages() -> None:
    """What a run freezes has everything of a request but the conversation, in a fixed order."""
    made = agent(system="Be brief.", tools=[look, act], thinking="adaptive")
    body = json.loads(made.definition())
    assert list(body) == ["model", "max_tokens", "system", "tools", "thinking"]
    assert (body["model"], body["max_tokens"], body["system"]) == (
        "claude-test",
        16000,
        "Be brief.",
    )
    assert body["tools"] == [look.definition(), act.definition(), read_result.definition()]
    assert body["thinking"] == {"type": "adaptive"}
    assert made.definition() == made.definition()


def test_definition_leaves_out_what_is_empty() -> None:
    """The API refuses an empty system prompt."""
    assert json.loads(agent().definition()) == {"model": "claude-test", "max_tokens": 16000}


def test_definition_takes_another_model() -> None:
    """`start --model` overrides the agent's."""
    assert json.loads(agent().definition("other"))["model"] == "other"


def test_agent_tells_its_tools_and_their_effects() -> None:
    """A call finds its tool and its frozen class by name."""
    made = agent(tools=[look, act])
    assert made.tool("act") is act
    assert made.tool("gone") is None
    assert made.effects == {"look": "read", "act": "at_most_once", "read_result": "read"}
    assert made.limits == Limits()


def _reserved() -> Any:
    def begin() -> None: ...

    return tool(begin)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "two words"}, "'two words'"),
        ({"name": ""}, "''"),
        ({"name": "x" * 65}, "1 to 64"),
        ({"model": ""}, "empty model"),
        ({"model": None}, "use a string"),
        ({"system": None}, "use a string"),
        ({"system": "half \ud83d"}, "half a surrogate pair at character 5"),
        ({"tools": [look, look]}, "two tools named 'look'"),
        ({"tools": [lambda: 1]}, "decorate the function with @tool"),
        ({"tools": [_reserved()]}, "'begin', a name that Onward uses"),
        ({"tools": [read_result]}, "'read_result', a name that Onward uses"),
        ({"limits": {"max_steps": 1}}, "onward.Limits"),
        ({"max_tokens": 0}, "max_tokens 0"),
        ({"max_tokens": True}, "max_tokens True"),
        ({"extra_body": {"temperature": 0.5}}, "'temperature'.*the API refuses it"),
        ({"extra_body": {"top_p": 0.5}}, "'top_p'"),
        ({"extra_body": {"stream": True}}, "'stream'"),
        ({"extra_body": {"messages": []}}, "'messages'"),
        ({"extra_body": {"system": "x"}}, "agent's argument"),
        ({"extra_body": {"container": {"when": object()}}}, "not plain JSON"),
        ({"extra_body": {"container": {"x": float("nan")}}}, "not plain JSON"),
        ({"extra_body": {"container": {"x": (1, 2)}}}, "lists and string keys"),
        ({"extra_body": {"container": {1: 2}}}, "lists and string keys"),
        ({"extra_body": {"container": {"x": "\ud800"}}}, "half a surrogate"),
        ({"extra_body": []}, "use a dict"),
    ],
)
def test_agent_that_cannot_work_is_refused(options: dict[str, Any], said: str) -> None:
    """A mistake shows when the app is loaded, not as a refused request in the middle of a run."""
    with pytest.raises(AppError, match=said):
        agent(**options)


def test_surrogate_in_a_docstring_is_an_app_error() -> None:
    """A tool's description that no encoder takes is found before a run begins."""

    def odd() -> None: ...

    odd.__doc__ = "Half \ud83d."
    with pytest.raises(AppError, match="'odd' holds half a surrogate"):
        agent(tools=[tool(odd)]).definition()


def test_app_refuses_doubled_names_and_emptiness() -> None:
    """A run names its agent, so names must tell agents apart."""
    with pytest.raises(AppError, match="two agents named 'a'"):
        App(agent(), agent())
    with pytest.raises(AppError, match="no agents"):
        App()
    with pytest.raises(AppError, match="takes agents"):
        App(look)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_unknown_agent_names_those_there_are() -> None:
    """A typo in --agent is answered with what would have worked."""
    app = App(agent("one"), agent("two"))
    assert app.agent("one").name == "one"
    with pytest.raises(UsageError, match=r"'three'.*'one', 'two'"):
        app.agent("three")


def test_empty_name_is_the_built_in_app() -> None:
    """Without an app of one's own there are `coder` and `support`."""
    app = load_app("")
    assert list(app.agents) == ["coder", "support"]
    assert app.agent("coder").effects == {
        "read": "read",
        "write": "keyed",
        "edit": "keyed",
        "glob": "read",
        "grep": "read",
        "bash": "at_most_once",
        "read_result": "read",
    }
    assert app.agent("support").effects == {
        "lookup_order": "read",
        "refund": "keyed",
        "read_result": "read",
    }
    for made in app.agents.values():
        json.loads(made.definition())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty current directory; modules imported from it are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    for name in [name for name in sys.modules if name.startswith("my_app")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def test_app_is_found_in_the_current_directory(folder: Path) -> None:
    """`ONWARD_APP=my_app_1:app` works beside the module, without a package or a path."""
    code = "from onward import Agent, App\napp = App(Agent('mine', model='m'))\n"
    (folder / "my_app_1.py").write_text(code)
    assert list(load_app("my_app_1:app").agents) == ["mine"]


@pytest.mark.parametrize(
    ("code", "spec", "said"),
    [
        (None, "my_app_2:app", "no module 'my_app_2'.*ONWARD_APP"),
        (None, "my_app_2", "not of the form 'module:attribute'"),
        (None, "./my_app.py:app", "not of the form"),
        ("import missing_thing", "my_app_3:app", "needs 'missing_thing', which is not installed"),
        ("1 / 0", "my_app_4:app", "failed to import: ZeroDivisionError.*python -c"),
        ("def f(:", "my_app_5:app", "failed to import: SyntaxError"),
        ("raise SystemExit(1)", "my_app_6:app", "failed to import: SystemExit"),
        ("x = 1", "my_app_7:app", "found no such name.*write `app = App"),
        ("app = 'x' * 10_000", "my_app_10:app", "found 'x{79}, which is no onward.App"),
        (None, "json:app", r"in module 'json' \(.*/json/__init__\.py\) and found no such name"),
        (
            "from onward import Agent, App\nmine = App(Agent('a', model='m'))\napp = 3",
            "my_app_8:app",
            "found 3, which is no onward.App; it has mine",
        ),
        (
            "from onward import Agent\nAgent('a b', model='m')",
            "my_app_9:app",
            "'my_app_9' is not valid.*'a b'",
        ),
    ],
)
def test_app_that_cannot_be_loaded_says_why(
    folder: Path, code: str | None, spec: str, said: str
) -> None:
    """Each way an app module can be wrong gives one clear error with what to do."""
    if code is not None:
        (folder / f"{spec.partition(':')[0]}.py").write_text(code)
    with pytest.raises(AppError, match=said):
        load_app(spec)


@pytest.mark.parametrize(
    ("used", "given"),
    [(lookup_order, {"order_id": "A"}), (refund, {"order_id": "A", "amount_cents": 1})],
)
async def test_support_without_a_payments_service_says_what_to_set(
    used: Any, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The built-in tools are honest about what they lack, and nothing is in doubt."""
    monkeypatch.delenv("PAYMENTS_URL", raising=False)
    context = ToolContext(idempotency_key="onw_x", call="1.1", run="r")
    with pytest.raises(Rejected, match="set PAYMENTS_URL"):
        await used.run(given, context)
