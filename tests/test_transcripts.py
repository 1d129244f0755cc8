"""`transcript` tells a run's whole conversation from its history, to people and to programs."""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_double import Cli
from agent_runs import Bench, Run, app_of, request_body, says, uses
from people import waiting
from redis.asyncio import Redis

from onward import tool
from onward.errors import HistoryGap
from onward.messages import ClaudeReply, Head, Limits, Opening, Witness
from onward.own_history import Told
from onward.records import Restored
from onward.retelling.pieces import pieces
from onward.retelling.steps import retold
from onward.testing.messages_api import Step
from onward.transcript import Turn, advance, beginning

ROOT = Path(__file__).parent.parent
HOSTILE = '</pre><script>alert("x")</script><img src=x onerror=alert(1)>\x1b[31m\u202e"&'
IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}


@tool(effect="read")
async def look(what: str) -> Any:
    """Look."""
    found: dict[str, Any] = {
        "long": "line of a long result\n" * 400,
        "large": "x" * 300_000,
        "picture": [{"type": "text", "text": "a dot"}, IMAGE],
        "hostile": HOSTILE,
    }
    return found.get(what, f"saw {what}")


@tool(effect="keyed")
async def act(what: str) -> str:
    """Act."""
    return f"did {what}"


@tool(effect="keyed", ask="always")
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@pytest.fixture
def cli(cli: Cli, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run commands without a Redis: history and payloads are enough."""
    assert bench.redis  # which the commands would find
    monkeypatch.setenv("ONWARD_REDIS_URL", "redis://127.0.0.1:1/0")
    return cli


def thinks() -> Step:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    use = {"type": "tool_use", "name": "act", "input": {"what": "it"}}
    return Step(content=[thinking, {"type": "text", "text": "I act."}, use])


async def told(bench: Bench, *steps: Step) -> Run:
    return await bench.run(app_of(look, act), *steps, says("All done."))


async def test_people_read_who_said_what(bench: Bench, cli: Cli) -> None:
    """Prompt, words, thinking, calls by their id with their results, in the order they came."""
    run = await told(bench, thinks(), uses(("look", {"what": "picture"}), ("nothing", {})))
    shown = await cli("transcript", run.name)
    assert shown.code == 0
    lines = [line.strip() for line in shown.out.splitlines()]
    expected = [
        "── step 1 ──",
        "person",
        f"Go. [script:{run.name}]",
        "Claude, thinking",
        "hm",
        "Claude",
        "I act.",
        "1.1 act",
        '{"what":"it"}',
        "result of 1.1",
        "did it",
        "── step 2 ──",
        "2.1 look",
        '{"what":"picture"}',
        "result of 2.1",
        "a dot",
        "[image image/png, 8 bytes]",
        "2.2 nothing",
        "{}",
        "error of 2.2",
    ]
    assert lines[1 : 1 + len(expected)] == expected
    assert lines[-2:] == ["Claude", "All done."]
    assert "\x1b[" not in shown.out


async def test_long_results_are_cut_unless_asked_for(bench: Bench, cli: Cli) -> None:
    """A cut says how much it left out; `--whole` shows all, also what is in the payload folder."""
    run = await told(bench, uses(("look", {"what": "long"}), ("look", {"what": "large"})))
    cut = (await cli("transcript", run.name)).out
    assert "characters left out; --whole shows them" in cut
    assert len(cut) < 6_000
    whole = (await cli("transcript", run.name, "--whole")).out
    assert whole.count("line of a long result") == 400
    assert "left out; --whole" not in whole


async def test_json_is_what_was_sent_and_can_be_sent_again(bench: Bench, cli: Cli) -> None:
    """System, tools and messages are those of the last request, to the letter, and the reply."""
    number = Step(
        content=[{"type": "tool_use", "name": "act", "input": {"what": "ünï 1.50"}}],
    )
    run = await told(bench, number, uses(("look", {"what": "hostile"})))
    for typed in (("--format", "json"), ("--json",)):
        printed = await cli("transcript", run.name, *typed)
        assert printed.out.isascii()
        last = request_body(run.requests[-1])
        assert printed.json["messages"][:-1] == last["messages"]
        assert printed.json["messages"][-1]["content"][-1]["text"] == "All done."
        for name in ("system", "tools", "model", "max_tokens"):
            assert printed.json.get(name) == last.get(name)


async def test_html_is_one_file_in_which_nothing_hostile_runs(bench: Bench, cli: Cli) -> None:
    """No tag, attribute or control character of a tool's or of Claude's is one in the page."""
    run = await told(bench, uses(("look", {"what": "hostile"})), uses((HOSTILE, {"<b>": HOSTILE})))
    page = (await cli("transcript", run.name, "--format", "html")).out
    assert page.isascii()
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert "default-src 'none'" in page
    for forbidden in ("<script", "<img", "<b>", "\x1b", "http://", "https://", "src=x onerror=a>"):
        assert forbidden not in page
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;" in page


async def test_an_open_run_is_told_as_far_as_it_is(bench: Bench, cli: Cli) -> None:
    """What waits has no result yet; the JSON ends with the last request that was sent."""
    async with bench.worker(app_of(look, act, pay)):
        run = await bench.start(uses(("act", {"what": "a"})), uses(("pay", {"cents": 5})), says())
        await waiting(run)
        shown = await cli("transcript", run.name)
        assert "the run goes on: this is up to step 2" in shown.err
        assert shown.out.rstrip().endswith("(no result was sent to Claude)")
        printed = await cli("transcript", run.name, "--json")
        assert printed.json["messages"] == request_body(run.requests[-1])["messages"]
        assert "left out is Claude's reply of step 2" in printed.err
        await run.handle.signal("cancel")
        await run.ended()


async def test_neither_redis_nor_a_worker_is_asked(bench: Bench, cli: Cli) -> None:
    """History alone tells it: the ledger is wiped, the workers are gone, and Redis is away."""
    run = await told(bench, thinks())
    redis: Redis = bench.redis
    await redis.delete(bench.ledger(run).key)
    assert "did it" in (await cli("transcript", run.name)).out


# ---- what cannot be told


async def test_a_payload_that_is_gone_is_named(bench: Bench, cli: Cli, tmp_path: Path) -> None:
    """Exit 1: which payload, in which folder, and what to do; no half transcript."""
    run = await told(bench, uses(("look", {"what": "large"})))
    shutil.rmtree(tmp_path / "payloads")
    ran = await cli("transcript", run.name)
    assert (ran.code, ran.out) == (1, "")
    assert "cannot read payload" in ran.err
    assert "restore the file from a backup" in ran.err


def recorded(step: str, said: str, before: Head, *, asked: str = "") -> tuple[Head, Restored, str]:
    """A step as history tells it: Claude `said` it in answer to the turn `asked`."""
    turn = Turn(content=json.dumps([{"type": "text", "text": asked}]))
    message = json.dumps({"content": [{"type": "text", "text": said}]})
    head = advance(before, step, turn, message)
    reply = ClaudeReply(
        message=message,
        stop_reason="end_turn",
        head=head,
        prev=before.step,
        witness=Witness(nonce="n", inc="i", run_id="r"),
    )
    record = Restored(st="done", fp=before.digest, cls="read", result=reply.model_dump_json())
    return head, record, turn.model_dump_json()


@pytest.fixture
def redone() -> Told:
    """What history tells of two steps, the second of which was asked again."""
    head = beginning("{}")
    opening = Opening(
        frozen="{}",
        effects={},
        limits=Limits(),
        witness=Witness(nonce="n", inc="i", run_id="r"),
        head=head,
        takeover_s=1,
        price_known=True,
    )
    told = Told()
    told.records["0"] = Restored(st="done", fp="0", cls="read", result=opening.model_dump_json())
    first, told.records["1"], told.turns["1"] = recorded("1", "first", head, asked="go")
    _, told.records["2"], told.turns["2"] = recorded("2", "cut off", first)
    _, told.records["2.r1"], told.turns["2.r1"] = recorded("2.r1", "whole", first)
    return told


async def test_a_reply_that_was_asked_again_is_left_out(redone: Told) -> None:
    """Only the reply that counts is told, as only that one is sent on."""
    said = [piece.text for piece in pieces(retold("run", redone)) if piece.kind == "claude"]
    assert said == ["first", "whole"]


@pytest.mark.parametrize("lost", ["turn", "reply", "digest"])
async def test_a_gap_in_history_is_said(redone: Told, lost: str) -> None:
    """A conversation is told whole or not at all: the error names the step and what to do."""
    if lost == "turn":
        del redone.turns["1"]
    elif lost == "reply":
        del redone.records["1"]
    else:
        redone.turns["1"] = Turn(content='[{"type":"text","text":"other"}]').model_dump_json()
    with pytest.raises(HistoryGap, match=r"run 'run' cannot be told .* restore both"):
        retold("run", redone)


async def test_a_run_that_temporal_forgot_is_exit_4(cli: Cli) -> None:
    """An expired history is no run any more, and is said to be forgotten."""
    ran = await cli("transcript", "forgotten")
    assert (ran.code, ran.out) == (4, "")
    assert "forgotten after the namespace's retention" in ran.err


async def test_a_run_without_a_word_says_so(bench: Bench, cli: Cli) -> None:
    """Nobody has begun it: that is no empty transcript."""
    run = await bench.start(says())
    ran = await cli("transcript", run.name)
    assert (ran.code, "has no conversation: Claude has not answered" in ran.err) == (2, True)
    await run.handle.terminate()


async def test_a_reader_that_goes_away_is_no_error(bench: Bench, tmp_path: Path) -> None:
    """`transcript | head -1` ends quietly, however long it is, and not with a failed run's code."""
    run = await told(bench, uses(("look", {"what": "large"})))
    for form in ("text", "json", "html"):
        command = f"{sys.executable} {ROOT / 'starter.py'} transcript --whole {run.name}"
        ran = await asyncio.create_subprocess_shell(
            f"({command} --format {form}; echo $? >code) | head -c 1",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=tmp_path,
        )
        out, err = await ran.communicate()
        assert (len(out), b"Traceback" in err) == (1, False), err
        assert (tmp_path / "code").read_text() == "141\n"
