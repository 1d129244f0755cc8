"""What a person decides from: every field of a call, and nothing that Claude could have forged."""

import json
from decimal import Decimal
from typing import Any

import pytest
from agent_runs import Bench, app_of, says, uses
from calls_prepared import prepared
from people import say, waiting

from onward import tool
from onward.console import Output
from onward.figures import cost_line, spend_line
from onward.identity import fingerprint
from onward.messages import RunRequest, Settler, Spend, Waiting
from onward.spending.tables import COLUMNS
from onward.terminal import visible
from workflows.card import card
from workflows.carrying import state_of


@tool(effect="keyed", ask="always")
async def pay(memo: str, amount_cents: int) -> str:
    """Pay."""
    return f"paid {amount_cents} for {memo}"


LONG = "x" * 300
GONE = "its worker went away while it was under way"
FORGED = {
    "spaces": "gift amount_cents=100",
    "quotes": '" amount_cents=100 "',
    "cut": f"gift… amount_cents=100 {LONG}",
    "turned": "\u202egift",
    "lines": "gift\namount_cents=100",
}


@pytest.mark.parametrize("memo", FORGED.values(), ids=list(FORGED))
def test_no_field_hides_another(memo: str) -> None:
    """Whatever Claude writes in one field stays within its quotes, and the others are seen."""
    given = json.dumps({"memo": memo, "amount_cents": 900_000})
    summary = prepared(pay, given).summary
    quoted, real = summary.removeprefix("memo=").rsplit(" ", 1)
    assert real == "amount_cents=900000"
    assert isinstance(json.loads(quoted), str)
    assert summary.isprintable()
    assert len(summary) <= 160


def test_bare_words_need_no_quotes() -> None:
    """The usual summary is easy to read."""
    summary = prepared(pay, '{"memo": "order-7/A", "amount_cents": 5}').summary
    assert summary == "memo=order-7/A amount_cents=5"


def test_what_is_cut_says_so() -> None:
    """More than fits is never shown as if it were all."""
    many: dict[str, Any] = {f"{LONG}{number}": LONG for number in range(40)}
    summary = prepared(pay, json.dumps(many)).summary
    assert (len(summary) <= 160, "…" in summary[-2:]) == (True, True)


def test_the_temporal_ui_shows_what_can_be_typed() -> None:
    """Its Markdown has a list, commands for a shell, and no link or markup of Claude's making."""
    state = state_of(RunRequest(prompt="p", agent="clerk"))
    state.waiting.ask(
        Waiting(
            call="1.1",
            kind="approval",
            tool="pay",
            summary='memo="` [free](http://x)"',
            why="why",
            view="v",
            since_ms=0,
        )
    )
    parts = card(state, "run 1", "Pay.").split("\n\n")
    assert parts[0] == "**clerk** is `waiting` at step 1"
    assert """`memo="' [free](http://x)"`""" in parts[1]
    assert "`onward approve 'run 1' 1.1`" in parts[1]
    assert parts[2].startswith(r"- spent: \$0\.0000 of \$5, 0 of 20,000,000 tokens, in 0 requests")
    assert "onward cancel 'run 1'" in parts[3].splitlines()
    state.outcome, state.steps = "completed", 1
    assert card(state, "run 1", "Pay.").startswith("**clerk** ended as `completed`, after 1 step")


async def test_status_has_the_whole_input(bench: Bench) -> None:
    """The summary is one line; what a person approves can be read to its end, or a mark of it."""
    calls = [("pay", {"memo": memo, "amount_cents": 5}) for memo in (LONG, "é" * 5000)]
    async with bench.worker(app_of(pay)):
        run = await bench.start(uses(*calls), says())
        first, second = await waiting(run, 2)
        assert json.loads(first.input) == calls[0][1]
        assert second.input.endswith("… (cut: it has 10,028 bytes)")
        approved = await say(run, "approve", "1.1")
        assert approved["input"] == ""
        await say(run, "deny", "1.2")
        await run.ended()
    scheduled = [event.user_metadata.summary.data for event in (await run.history()).events]
    assert max(map(len, scheduled)) < 400


@pytest.mark.parametrize("settler", ["person", "model"])
async def test_a_doubt_is_told_in_words(bench: Bench, settler: Settler) -> None:
    """The ledger's codes mean nothing to whoever must find out what happened."""

    @tool(ask="always", in_doubt=settler)
    async def send() -> str:
        """Send."""
        raise AssertionError("must not run")

    async with bench.worker(app_of(send)):
        run = await bench.start(uses(("send", {})), says())
        await waiting(run)
        ledger, fp = bench.ledger(run), fingerprint("send", "{}")
        await ledger.doubt("1.1", fp=fp, cls="at_most_once", token="dead", why="owner_lost")
        await say(run, "approve", "1.1")
        if settler == "person":
            (doubt,) = await waiting(run)
            assert doubt.why == GONE
            await say(run, "resolve", "1.1", outcome="done")
        await run.ended()
    assert (GONE in run.requests[-1].body) == (settler == "model")


@pytest.mark.parametrize("columns", ["80", "100"])
def test_a_narrow_terminal_shows_the_cost(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a table is too wide, names and headings are folded; no figure is cut or left out."""
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": columns}.items():
        monkeypatch.setenv(name, value)
    figures = ("81", "177,013", "10,188", "5,863", "74,941", "$1.13")
    row = ("refund-desk", "claude-sonnet-4-5-20250929", *figures)
    Output().table(("agent", "model", *COLUMNS), [row], figures=len(COLUMNS))
    shown = capsys.readouterr().out
    assert [figure for figure in figures if figure not in shown.split()] == []


def test_an_unknown_cost_is_no_lower_bound() -> None:
    """What is known is a lower bound; of what is not known, nothing is said but that."""
    unpriced = Spend(requests=1, output_tokens=7, unpriced_requests=1)
    assert "tokens, cost unknown (1 request of unknown price)" in spend_line(
        unpriced, complete=False
    )
    priced = unpriced.model_copy(update={"cost_usd": Decimal(2)})
    assert cost_line(priced, complete=False) == "at least $2.00 and 1 request of unknown price"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \t text\n", "plain \t text\n"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("pay \u202e001 ot\u202c", "pay \\u202e001 ot\\u202c"),
        ("\u2067a\u2069", "\\u2067a\\u2069"),
        ("שלום, 你好", "שלום, 你好"),
    ],
)
def test_nothing_turns_what_an_approver_reads(text: str, shown: str) -> None:
    """Neither a terminal's commands nor a change of direction is sent; other scripts are."""
    assert visible(text) == shown
