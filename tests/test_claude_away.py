"""Claude's API is away for a while: who looks at the run sees it, and nobody need do a thing."""

import threading

import pytest
from agent_double import Cli
from agent_runs import Bench, app_of, says, uses
from typed_commands import line_with, piped, until_trouble

from onward import ToolContext, tool
from onward.local_services.ports import free_ports
from onward.testing import wait_until
from onward.testing.messages_api import Script, ScriptedAPI

SCRIPTS = {"away": Script(steps=[uses(("act", {})), uses(("act", {})), says("It is back.")])}


@pytest.mark.crash
async def test_an_outage_is_shown_and_waited_out(bench: Bench, cli: Cli) -> None:
    """Its stop is seen in `status`, `start --wait` and Temporal; with its start the run goes on."""
    acted: list[str] = []
    stopped = threading.Event()

    @tool(effect="keyed")
    def act(ctx: ToolContext) -> str:
        """Act, and return when Claude has gone."""
        acted.append(ctx.call)
        stopped.wait(30)
        return "acted"

    (port,) = free_ports(1)
    name, bench.api.url = bench.queue, f"http://127.0.0.1:{port}"
    wanted = f"cannot reach ANTHROPIC_BASE_URL '{bench.api.url}'"
    typed = ("[script:away] Go.", "--agent", "tester", "--id", name, "--wait")
    async with bench.worker(app_of(act)):
        async with ScriptedAPI(SCRIPTS, port=port):
            command = await piped("start", *typed)
            await wait_until(lambda: acted, 30, what="the first call")
        stopped.set()
        assert command.stderr is not None
        await line_with(command.stderr, wanted)
        await until_trouble(cli, name, wanted)
        pending = (await bench.temporal.get_workflow_handle(name).describe()).raw_description
        assert wanted in pending.pending_activities[0].last_failure.message
        async with ScriptedAPI(SCRIPTS, port=port) as api:
            out, _ = await command.communicate()
            assert not api.journal.violations()
    assert (command.returncode, out.decode()) == (0, "It is back.\n")
    assert acted == ["1.1", "2.1"]
