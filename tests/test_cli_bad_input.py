"""Bad input gets one clear error at once, and starts nothing."""

import asyncio
import os
import socket
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from agent_double import Cli, double_worker
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from onward import run_input
from onward.connection import connect
from onward.local_services import LocalAddresses, TemporalServer, write_local
from onward.settings import Settings

ROOT = Path(__file__).parent.parent
ODD_IDS = [
    "two words",
    "a/b/../c",
    "{curly}",
    'it\'s "quoted" `and` $more',
    "naïve-übung-日本-🦀",
    "[bold]100%[/bold]",
    "back\\slash?&#=%2F",
    "x" * 200,
]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    return Cli(capsys)


@pytest_asyncio.fixture
async def client(cli: Cli, monkeypatch: pytest.MonkeyPatch, temporal: TemporalServer) -> Client:
    assert cli
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.address)
    monkeypatch.setenv("ONWARD_TASK_QUEUE", f"bad-{uuid.uuid4().hex}")
    return await connect(Settings())


@pytest_asyncio.fixture
async def worker(client: Client) -> AsyncGenerator[None]:
    async with double_worker(client, os.environ["ONWARD_TASK_QUEUE"]):
        yield


# ---- servers


async def test_no_temporal_is_said_at_once(cli: Cli) -> None:
    """No server: exit 3 within seconds, with the address and what to do."""
    began = time.monotonic()
    ran = await cli("start", "do it")
    assert (ran.code, ran.out) == (3, "")
    assert "no Temporal server at '127.0.0.1:1'" in ran.err
    assert "Check TEMPORAL_ADDRESS" in ran.err
    assert time.monotonic() - began < 3


async def test_server_that_never_answers_is_given_up(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something listens but says nothing: exit 3 after the deadline, no hanging."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        ran = await cli("list")
        assert ran.code == 3
        assert "no answer in 3 s" in ran.err
        assert time.monotonic() - began < 6


@pytest.mark.parametrize("address", ["not an address", "nosuch.invalid:7233", "", "127.0.0.1"])
async def test_wrong_address_is_said(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """An address that cannot be is exit 3 with that address, no traceback."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    ran = await cli("status", "any")
    assert ran.code == 3
    assert "no Temporal server at" in ran.err


async def test_nothing_configured_says_how_to_begin(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A newcomer without any server is told of `onward-worker --local`."""
    monkeypatch.delenv("TEMPORAL_ADDRESS")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("onward.connection.DEFAULT_ADDRESS", "127.0.0.1:1")
    ran = await cli("list")
    assert ran.code == 3
    assert "Start `onward-worker --local`" in ran.err


async def test_a_lone_redis_says_why_the_local_servers_are_not_used(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`onward-worker --local` runs in this very folder: "start it" would send people in circles."""
    monkeypatch.delenv("TEMPORAL_ADDRESS")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ONWARD_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setattr("onward.connection.DEFAULT_ADDRESS", "127.0.0.1:1")
    (tmp_path / ".onward").mkdir()
    write_local(
        tmp_path / ".onward",
        LocalAddresses(
            temporal_address="127.0.0.1:2",
            namespace="default",
            redis_url="redis://127.0.0.1:3",
            ui_url="http://127.0.0.1:4",
        ),
    )
    ran = await cli("list")
    assert (ran.code, "ONWARD_REDIS_URL is set, so the servers" in ran.err) == (3, True)


@pytest.mark.usefixtures("client")
async def test_wrong_namespace_is_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace that the server lacks is exit 3, named, with what to do."""
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "nowhere")
    ran = await cli("list")
    assert ran.code == 3
    assert "has no namespace 'nowhere'" in ran.err


async def test_wrong_setting_is_usage(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that cannot be is exit 2, by name, before anything is connected."""
    monkeypatch.setenv("ONWARD_TAKEOVER_S", "never")
    ran = await cli("list")
    assert ran.code == 2
    assert "ONWARD_TAKEOVER_S is 'never'" in ran.err


async def test_unknown_command_is_told_what_it_may_have_meant(cli: Cli) -> None:
    """A slip in a command is exit 2 with the nearest one, and no list that breaks off."""
    ran = await cli("aprove", "any")
    assert ran.code == 2
    assert 'Did you mean "approve"? `onward --help` shows what is possible' in ran.err


# ---- runs


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("command", ["status", "spend", "cancel", "result"])
async def test_unknown_run_is_exit_4(cli: Cli, command: str) -> None:
    """No such run: exit 4 with the id, for every command that takes one."""
    ran = await cli(command, "no-such-run")
    assert (ran.code, ran.out) == (4, "")
    assert "knows no run 'no-such-run'" in ran.err


@workflow.defn(name="somebody-elses", sandboxed=False)
class Foreign:
    @workflow.run
    async def run(self) -> None:
        """End."""


async def test_workflow_of_somebody_else_is_left_alone(cli: Cli, client: Client) -> None:
    """Another team's workflow is no run: exit 4 to look at, exit 2 to start under its id."""
    queue, name = os.environ["ONWARD_TASK_QUEUE"], f"theirs-{uuid.uuid4().hex[:8]}"
    async with Worker(
        client,
        task_queue=queue,
        workflows=[Foreign],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        await client.execute_workflow("somebody-elses", id=name, task_queue=queue)
    for command in ("status", "cancel", "result"):
        ran = await cli(command, name)
        assert ran.code == 4
        assert "of type 'somebody-elses'" in ran.err
    assert (await cli("start", "do it", "--id", name)).code == 2


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("run_id", ODD_IDS)
async def test_odd_id_works_everywhere(cli: Cli, run_id: str) -> None:
    """Spaces, slashes, quotes, braces, markup and every script in an id work in every command."""
    mine = f"{run_id[:190]}~{uuid.uuid4().hex[:8]}"
    started = await cli("start", "completes", "--id", mine, "--wait", "--json")
    assert (started.code, started.json["run"]) == (0, mine)
    for command in ("status", "spend", "cancel", "result"):
        assert (await cli(command, mine)).code == 0
    assert mine in (await cli("status", mine)).out
    assert mine in (await cli("list", "--limit", "1000")).out


@pytest.mark.parametrize(
    ("run_id", "said"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("x" * 201, "201 bytes"),
        ("ü" * 101, "202 bytes"),
        ("a\nb", r"'a\nb' holds '\n'"),
        ("a\x1b[2Jb", r"holds '\x1b'"),
        ("a\udcffb", r"holds '\udcff'"),
    ],
)
async def test_impossible_id_is_refused(cli: Cli, run_id: str, said: str) -> None:
    """An id that is empty, too long or unprintable is exit 2, before anything is connected."""
    ran = await cli("start", "do it", "--id", run_id)
    assert ran.code == 2
    assert said in ran.err


# ---- prompts


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([], "no prompt is given"),
        ([""], "the prompt is empty"),
        ([" \n\t"], "the prompt is empty"),
        (["do it", "--file", "p.md"], "two prompts are given"),
        (["--file", "missing.md"], "cannot read the prompt from 'missing.md': No such file"),
        (["--file", "."], "Is a directory"),
        (["half \udcff letter"], "not valid Unicode text"),
        (["half \ud83d pair"], "not valid Unicode text"),
        (["--wiat"], "unknown option '--wiat'"),
        (["do it", "--wiat"], "Did you mean --wait? `onward start --help`"),
        (["two", "words"], "in quotes"),
        (["do it", "--agent", "no such"], "--agent is 'no such'"),
        (["do it", "--model", ""], "--model is empty"),
        (["do it", "--again"], "give that --id too"),
    ],
)
async def test_prompt_that_cannot_be_is_refused(cli: Cli, tokens: list[str], said: str) -> None:
    """A prompt that is missing, doubled, unreadable or no text: exit 2 with what to do."""
    ran = await cli("start", *tokens)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"caf\xe9", "not UTF-8 text: byte 0xe9 at 3"),
        (b"a\0b", "NUL byte at character 1"),
        (b"", "the prompt is empty"),
        (b"x" * 1_000_001, "1,000,001 bytes"),
        (b"\n" * 300_000 + b"\x01" * 300_000, "as JSON"),
    ],
)
async def test_file_that_is_no_prompt_is_refused(
    cli: Cli, tmp_path: Path, content: bytes, said: str
) -> None:
    """A prompt file that is binary, empty or too long is exit 2, with the size or place."""
    (tmp_path / "p.md").write_bytes(content)
    ran = await cli("start", "--file", "p.md")
    assert ran.code == 2
    assert said in ran.err


async def test_prompt_of_5_mb_says_what_to_do(cli: Cli, tmp_path: Path) -> None:
    """5 MB: how big it is, how big it may be, and to put it into the workspace instead."""
    (tmp_path / "p.md").write_text("all of it\n" * 500_000)
    ran = await cli("start", "--file", "p.md")
    assert ran.code == 2
    assert "5,000,000 bytes; at most 1,000,000 can be sent" in ran.err
    assert "file in the workspace" in ran.err


@pytest.mark.usefixtures("worker")
async def test_longest_prompt_goes_through(cli: Cli, tmp_path: Path) -> None:
    """A prompt of exactly 1,000,000 bytes, half of it quotes, starts and is told apart by id."""
    (tmp_path / "p.md").write_text("completes " + '"' * 500_000 + "x" * 499_990)
    name = uuid.uuid4().hex
    assert (await cli("start", "--file", "p.md", "--id", name, "--wait")).code == 0
    ran = await cli("start", "completes " + '"' * 500_000 + "y", "--id", name)
    assert ran.code == 2
    assert len(ran.err) < 2000, "both prompts are shown where they differ, not whole"


def test_json_size_is_that_of_the_json() -> None:
    """What is checked before a start is the size that Temporal will see."""
    text = "".join(map(chr, range(1, 0x250))) + '"\\/日🦀'
    assert run_input.checked_text(text) == text
    assert run_input.json_bytes(text) >= len(Settings(app=text).model_dump_json()) - 2


@pytest.mark.usefixtures("worker")
async def test_prompt_from_standard_input(tmp_path: Path) -> None:
    """`-` reads the prompt from a pipe, with a byte order mark or not; broken bytes are exit 2."""
    command = [sys.executable, str(ROOT / "starter.py"), "start", "-", "--wait"]
    codes = list[int]()
    for given in (b"\xef\xbb\xbflimited", b"\xff\xfe"):
        ran = await asyncio.to_thread(
            subprocess.run, command, input=given, capture_output=True, check=False, cwd=tmp_path
        )
        codes.append(ran.returncode)
    assert codes == [6, 2]


# ---- limits


@pytest.mark.parametrize(
    "option", ["steps", "cost-usd", "tokens", "output-tokens", "minutes", "repeats"]
)
@pytest.mark.parametrize("value", ["-1", "0"])
async def test_limit_that_is_not_positive_is_refused(cli: Cli, option: str, value: str) -> None:
    """No limit can be zero or negative: exit 2 with the option and the value, whoever takes it."""
    for command in (("start", "do it"), ("fork", "some-run"), ("limit", "some-run")):
        ran = await cli(*command, f"--max-{option}", value)
        assert ran.code == 2
        assert f"--max-{option} is {value}" in ran.err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("minutes", "inf"),
        ("minutes", "nan"),
        ("minutes", "1e300"),
        ("cost-usd", "inf"),
        ("cost-usd", "nan"),
        ("cost-usd", "1e999999"),
        ("cost-usd", "five"),
        ("cost-usd", "1e7"),
        ("output-tokens", "1" + "0" * 30),
        ("steps", "many"),
        ("steps", "1.5"),
        ("steps", "none"),
        ("minutes", "none"),
    ],
)
async def test_limits_are_always_finite_numbers(cli: Cli, option: str, value: str) -> None:
    """Nobody gets a run without an end by a clever number."""
    ran = await cli("start", "do it", f"--max-{option}", value)
    assert ran.code == 2
    assert f"--max-{option}" in ran.err


# ---- workspaces


@pytest.mark.usefixtures("client")
async def test_workspace_that_cannot_be_is_refused(cli: Cli, tmp_path: Path) -> None:
    """A workspace that is missing or a file is exit 2 with its path, and no run is started."""
    (tmp_path / "file").write_text("")
    for name in ("missing", "file"):
        ran = await cli("start", "do it", "--workspace", name)
        assert (ran.code, ran.out) == (2, "")
        assert str(tmp_path / name) in ran.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_unreadable_workspace_is_refused(cli: Cli, tmp_path: Path) -> None:
    """A workspace that this user may not read is exit 2 with what to do."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=stat.S_IXUSR)
    ran = await cli("start", "do it", "--workspace", "locked")
    assert ran.code == 2
    assert "permissions" in ran.err


@pytest.mark.usefixtures("worker")
async def test_dirty_tree_is_refused_for_a_new_run_only(cli: Cli, tmp_path: Path) -> None:
    """A new run needs a clean git tree; attaching to one that has edited it does not."""
    tree, name = tmp_path / "tree", uuid.uuid4().hex
    tree.mkdir()
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(tree)], check=True)
    begin = ("start", "waits", "--id", name, "--workspace", "tree")
    assert (await cli(*begin)).code == 0
    (tree / "edited").write_text("by the run")
    assert (await cli(*begin)).code == 0
    ran = await cli("start", "waits", "--workspace", "tree")
    assert ran.code == 2
    assert "--allow-dirty" in ran.err
    assert (await cli("cancel", name)).code == 0
    assert (await cli("start", "completes", "--workspace", "tree", "--allow-dirty")).code == 0
