"""`onward` starts runs, tells how they ended, and looks at those that go on."""

import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from agent_double import Cli, double_worker
from temporalio.client import Client
from typed_commands import DONE, ROOT, new_id, until_doing, until_trouble, waiting

from onward.figures import exact_money, money
from onward.local_services import LocalAddresses, TemporalServer, write_local
from onward.testing import wait_until

# ---- starting


def test_starter_never_loads_the_model_client() -> None:
    """Commands start fast: loading them, and even all they can do, imports no `anthropic`."""
    program = (
        "import sys, starter; light = 'temporalio' not in sys.modules;"
        "import onward.commands; print(light, 'anthropic' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert ran.stdout.split() == ["True", "False"], ran.stderr


@pytest.mark.usefixtures("worker")
async def test_start_prints_the_id_and_the_limits(cli: Cli) -> None:
    """`start` prints the id alone on standard output; limits and server go to standard error."""
    ran = await cli("start", "completes at once")
    assert ran.code == 0
    assert ran.out.strip().startswith("coder-")
    assert ran.out.count("\n") == 1
    assert (
        "at most 100 steps, $5.00, 20,000,000 tokens (4,000,000 of output), 60 minutes" in ran.err
    )
    assert f"Temporal at {os.environ['TEMPORAL_ADDRESS']}" in ran.err


@pytest.mark.usefixtures("worker")
async def test_overridden_limits_reach_the_run(cli: Cli) -> None:
    """`--max-steps` replaces the agent's own limit, and the limits shown are the real ones."""
    ran = await cli("start", "completes", "--max-steps", "7", "--json")
    assert ran.json["limits"]["max_steps"] == 7
    assert ran.json["price_known"] is True


@pytest.mark.usefixtures("worker")
async def test_unknown_price_is_said_at_start(cli: Cli) -> None:
    """A model without a known price is a warning at start: no limit in money can hold."""
    ran = await cli("start", "completes", "--model", "unpriced", "--max-cost-usd", "none")
    assert "the price of this model is not known: only its tokens and steps are bounded" in ran.err


async def test_start_without_worker_says_what_to_run(cli: Cli, queue: str) -> None:
    """Nobody polls the task queue: `start` says so and what to run, and the run waits."""
    ran = await cli("start", "completes")
    assert ran.code == 0
    assert f"nothing polls the task queue '{queue}'" in ran.err
    assert "onward-worker" in ran.err


@pytest.mark.usefixtures("worker")
async def test_worker_without_the_agent_is_said_at_once(cli: Cli) -> None:
    """The worker lacks the agent: `start` prints its message and exits 1, without --wait."""
    ran = await cli("start", "completes", "--agent", "nobody")
    assert ran.code == 1
    assert "no agent 'nobody' on this worker" in ran.err


@pytest.mark.usefixtures("worker")
async def test_run_has_no_retry_policy_and_takes_killed_tasks_over_fast(
    cli: Cli, client: Client
) -> None:
    """A failed run does nothing again by itself (C20); its tasks have a timeout of 3 s."""
    run_id = (await cli("start", "fails", "--json")).json["run"]
    history = await client.get_workflow_handle(run_id).fetch_history()
    begun = history.events[0].workflow_execution_started_event_attributes
    assert not begun.HasField("retry_policy")
    assert begun.workflow_task_timeout.seconds == 3


@pytest.mark.usefixtures("worker")
async def test_memo_and_summary_tell_the_run_in_the_ui(cli: Cli, client: Client) -> None:
    """The Temporal UI shows what a run is about: agent, prompt, deployment, first line."""
    run_id = (await cli("start", "completes\nand more " + "x" * 400, "--json")).json["run"]
    found = await client.get_workflow_handle(run_id).describe()
    memo = await found.memo()
    assert (memo["agent"], memo["deployment"], len(memo["prompt"])) == ("coder", "default", 200)
    assert await found.static_summary() == "completes"


# ---- outcomes and exit codes


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("prompt", "outcome", "code"),
    [
        ("completes", "completed", 0),
        ("fails", "failed", 1),
        ("breaks", "failed", 1),
        ("limited", "limit_steps", 6),
        ("refused", "refused", 7),
        ("full", "context_exceeded", 7),
    ],
)
async def test_exit_code_is_the_outcomes(cli: Cli, prompt: str, outcome: str, code: int) -> None:
    """`start --wait` and `result` exit by the outcome, as documented."""
    run_id = new_id()
    waited = await cli("start", prompt, "--id", run_id, "--wait", "--json")
    assert (waited.code, waited.json["outcome"]) == (code, outcome)
    later = await cli("result", run_id, "--json")
    assert (later.code, later.json) == (code, waited.json)


@pytest.mark.usefixtures("worker")
async def test_result_is_on_stdout_alone_and_untouched(cli: Cli) -> None:
    """Standard output of `--wait` is Claude's text as it is; outcome and spend are beside it."""
    ran = await cli("start", "completes", "--wait")
    assert ran.out == DONE + "\n"
    assert "completed: 1 step, 120 tokens, $0.2500, 1 request to Claude" in ran.err


@pytest.mark.parametrize(
    ("amount", "spent", "limit"),
    [
        ("0", "$0.00", "$0.00"),
        ("0.00004", "less than $0.0001", "$0.00004"),
        ("0.0001", "$0.0001", "$0.0001"),
        ("0.125", "$0.1250", "$0.125"),
        ("5", "$5.00", "$5.00"),
        ("1234.5", "$1,234.50", "$1,234.50"),
    ],
)
def test_no_money_is_shown_as_none(amount: str, spent: str, limit: str) -> None:
    """A limit is shown as it was given; what was spent is rounded, but never to nothing."""
    assert money(Decimal(amount)) == spent
    assert exact_money(Decimal(amount)) == limit


@pytest.mark.usefixtures("worker")
async def test_failure_nobody_foresaw_has_a_reason_and_an_honest_spend(cli: Cli) -> None:
    """A run that failed without a result says why, and that its spend is a lower bound."""
    ran = await cli("start", "breaks", "--wait", "--json")
    assert ran.json["detail"] == "something nobody thought of"
    assert (ran.json["spend"]["cost_usd"], ran.json["spend_complete"]) == ("0.25", False)
    assert "at least 120 tokens" in ran.err


@pytest.mark.usefixtures("worker")
async def test_terminated_run_is_failed_with_the_reason(cli: Cli, client: Client) -> None:
    """Terminated in Temporal: `result`, `spend` and `status` say so, and what is known of spend."""
    run_id = await waiting(cli)
    await client.get_workflow_handle(run_id).terminate(reason="wrong list")
    ran = await cli("result", run_id, "--json")
    assert (ran.code, ran.json["detail"]) == (1, "it was terminated: wrong list")
    assert ran.json["spend_complete"] is False
    assert (await cli("status", run_id, "--json")).json["outcome"] == "failed"
    assert "state    terminated\n" in (await cli("status", run_id)).out
    spent = await cli("spend", run_id, "--json")
    assert spent.json["cost_usd"] == "0.25"
    assert "only finished steps" in spent.err


@pytest.mark.usefixtures("worker")
async def test_cancelled_in_the_ui_still_has_its_result(cli: Cli, client: Client) -> None:
    """Cancelled by Temporal itself: the outcome is found in the last activity's result, exit 5."""
    run_id = await waiting(cli)
    handle = client.get_workflow_handle(run_id)
    await handle.cancel()
    ran = await cli("result", run_id, "--wait", "--json")
    assert (ran.code, ran.json["outcome"]) == (5, "cancelled")
    assert ran.json["detail"] == "cancelled in the Temporal UI"
    assert ran.json["spend_complete"] is True


@pytest.mark.usefixtures("worker")
async def test_cancel_stops_cleanly_and_twice_is_no_error(cli: Cli) -> None:
    """`cancel` signals with the reason, the run ends as cancelled; later it does nothing."""
    run_id = await waiting(cli)
    assert (await cli("cancel", run_id, "--reason", "enough")).code == 0
    ran = await cli("result", run_id, "--wait", "--json")
    assert (ran.code, ran.json["outcome"], ran.json["detail"]) == (5, "cancelled", "enough")
    again = await cli("cancel", run_id)
    assert again.code == 0
    assert "has ended already" in again.err


@pytest.mark.usefixtures("worker")
async def test_result_of_a_running_run_needs_wait(cli: Cli) -> None:
    """`result` never takes a run that goes on for one that has completed."""
    run_id = await waiting(cli)
    ran = await cli("result", run_id)
    assert ran.code == 2
    assert "Add --wait" in ran.err


# ---- looking


@pytest.mark.usefixtures("worker")
async def test_status_and_spend_are_the_workers_answer(cli: Cli) -> None:
    """`status` and `spend` of a running run are its queries' answers, JSON alike."""
    run_id = await waiting(cli)
    seen = await cli("status", run_id, "--json")
    assert (seen.json["state"], seen.json["step"], seen.json["doing"]) == (
        "running",
        "1",
        "12.1 bash",
    )
    assert (seen.json["live"], seen.json["troubles"]) == (True, [])
    spent = await cli("spend", run_id, "--json")
    assert set(spent.json) == {
        "requests",
        "lost_requests",
        "input_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "cache_write_1h_tokens",
        "output_tokens",
        "thinking_tokens",
        "web_searches",
        "web_fetches",
        "cost_usd",
        "unpriced_requests",
        "lost",
        "saved",
        "models",
    }


async def test_everything_can_be_told_without_a_worker(
    cli: Cli, client: Client, queue: str
) -> None:
    """With no worker: ended runs are told whole; of running ones what history knows, and why."""
    ended, running = new_id(), new_id()
    async with double_worker(client, queue):
        await cli("start", "completes", "--id", ended, "--wait")
        await cli("start", "waits", "--id", running)
        await until_doing(cli, running, "12.1 bash")
    assert (await cli("result", ended)).out == DONE + "\n"
    assert (await cli("status", ended, "--json")).json["outcome"] == "completed"
    seen = (await cli("status", running, "--json")).json
    assert (seen["live"], seen["doing"], seen["step"]) == (False, "waiting for a worker", "1")
    assert f"no worker of task queue '{queue}' answers" in seen["troubles"][0]
    assert (seen["limits"]["max_steps"], seen["spend"]["cost_usd"]) == (100, "0.25")


@pytest.mark.usefixtures("worker")
async def test_overload_is_shown_with_the_next_try(cli: Cli) -> None:
    """`status` says what holds a run up: the last failure, and when it is tried again."""
    run_id = (await cli("start", "overloaded", "--json")).json["run"]
    await until_trouble(cli, run_id, "call_claude: Claude answers 529; next try in")


@pytest.mark.field("C13")
@pytest.mark.usefixtures("worker")
async def test_workflow_that_fails_on_its_worker_shows_why(cli: Cli) -> None:
    """A run stuck because its code fails says so in `status`, with the reason."""
    run_id = (await cli("start", "loops", "--json")).json["run"]
    await until_trouble(cli, run_id, "a bug in the loop")


@pytest.mark.usefixtures("worker")
async def test_list_has_a_line_a_run_when_piped(cli: Cli) -> None:
    """Piped, `list` prints a line a run with tabs and cuts nothing off; `--json` has the same."""
    run_id = new_id() + " long " + "x" * 120
    await cli("start", "completes\twith a tab", "--id", run_id, "--wait")
    row = await wait_until(lambda: row_of(cli, run_id), 20, what="the run being listed")
    assert row.split("\t")[2] == "coder"
    assert len(row.split("\t")) == 8
    listed = (await cli("list", "--json", "--limit", "50")).json["runs"]
    assert run_id in [run["run"] for run in listed]


async def row_of(cli: Cli, run_id: str) -> str:
    lines = (await cli("list", "--limit", "50")).out.splitlines()
    return next((line for line in lines if line.startswith(run_id)), "")


@pytest.mark.usefixtures("worker")
async def test_local_worker_is_found_and_its_ui_linked(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, temporal: TemporalServer, tmp_path: Path
) -> None:
    """With nothing configured the server of `onward-worker --local` is used, said, and linked."""
    monkeypatch.delenv("TEMPORAL_ADDRESS")
    monkeypatch.delenv("ONWARD_REDIS_URL", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".onward").mkdir()
    write_local(
        tmp_path / ".onward",
        LocalAddresses(
            temporal_address=temporal.address,
            namespace="default",
            redis_url="redis://127.0.0.1:1",
            ui_url="http://127.0.0.1:2",
        ),
    )
    ran = await cli("start", "completes", "--id", f"{new_id()} 100%")
    assert f"Temporal at {temporal.address}, namespace default, of onward-worker --local" in ran.err
    assert "http://127.0.0.1:2/namespaces/default/workflows/run%2F" in ran.err
    assert "%20100%25" in ran.err
