"""Runs are found again by status, agent and tags; the dearest first; and all that waits at once."""

import uuid
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import forked as forks
import pytest
import pytest_asyncio
from agent_double import Cli, Ran
from agent_runs import MODEL, Bench, Run, says, uses
from people import waiting
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from onward import Agent, App, tool
from onward.errors import UsageError
from onward.listing import STATES, Which, finding
from onward.names import AGENT, COST, STATUS, STEP, TAGS, WORKFLOW
from onward.tags import MAX_VALUE_CHARS, parse_tags
from onward.testing import wait_until
from onward.testing.messages_api import Step


@tool(effect="keyed", ask="always")
async def refund(cents: int) -> str:
    """Refund."""
    return f"refunded {cents}"


@dataclass
class Team:
    """An agent of the test's own, whose runs alone are looked at."""

    name: str
    bench: Bench
    cli: Cli

    @property
    def app(self) -> App:
        """Has the agent."""
        return App(Agent(self.name, model=MODEL, tools=[refund]))

    async def start(self, *steps: Step, options: Sequence[str] = ()) -> Run:
        """Start a run as people do."""
        run = f"run-{uuid.uuid4().hex[:12]}"
        self.bench.api.scripts[run] = self.bench.script(*steps)
        asked = ("start", f"Go. [script:{run}]", "--agent", self.name, "--id", run)
        ran = await self.cli(*asked, *options)
        assert ran.code == 0, ran.err
        return forks.found(self.bench, run)

    async def listed(self, *options: str) -> list[dict[str, Any]]:
        """What `list --json` says of the agent's runs."""
        ran = await self.cli("list", "--agent", self.name, "--json", *options)
        assert ran.code == 0, ran.err
        found: list[dict[str, Any]] = ran.json["runs"]
        return found

    async def until(self, *options: str, runs: Sequence[str]) -> list[dict[str, Any]]:
        """Wait until `list` shows these runs; Temporal's index is a little behind."""
        seen: list[dict[str, Any]] = []

        async def shown() -> bool:
            seen[:] = await self.listed(*options)
            return {row["run"] for row in seen} == {*runs}

        await wait_until(shown, 20, what=f"the runs of list {options}")
        return seen


@pytest.fixture
def team(bench: Bench, cli: Cli) -> Team:
    return Team(f"team-{uuid.uuid4().hex[:8]}", bench, cli)


# ---- tags


def test_tags_are_read_as_typed() -> None:
    """Names and values of all kinds that can be shown, in the order given."""
    typed = ["order=1042", "customer.name=Zoë O'Neil", "query=a=b", 'odd="quoted" \\ %']
    tags = {"order": "1042", "customer.name": "Zoë O'Neil", "query": "a=b"}
    assert parse_tags(typed) == {**tags, "odd": '"quoted" \\ %'}


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        (["order"], "expected name=value"),
        (["=1042"], "expected name=value"),
        (["order="], "expected name=value"),
        (["order number=1"], "expected name=value"),
        ([f"{'n' * 65}=1"], "1 to 64 letters"),
        (["order=1", "order=2"], "found --tag order twice"),
        ([f"order={'1' * (MAX_VALUE_CHARS + 1)}"], "at most 190"),
        (["order=1\n2"], "cannot be shown"),
        ([f"tag{n}={'é' * 60}" for n in range(6)], "2,048"),
    ],
)
def test_a_tag_that_no_server_takes_is_refused(typed: list[str], why: str) -> None:
    """Before anything is started: Temporal's own refusal would come at the first step, for ever."""
    with pytest.raises(UsageError, match=why):
        parse_tags(typed)


async def test_a_run_is_found_by_its_tags_everywhere(team: Team) -> None:
    """In `list`, `status`, `spend` and `audit`; from its start on, and of forks too."""
    cli, order = team.cli, f"order={uuid.uuid4().hex[:8]}"
    odd = 'by=Zoë "Z" O\'Neil \\ 100%'
    async with team.bench.worker(team.app, search_attributes=True):
        tagged = await team.start(
            uses(("refund", {"cents": 5})), says(), options=("--tag", order, "--tag", odd)
        )
        other = await team.start(says(), options=("--tag", "order=another"))
        await waiting(tagged)
        (row,) = await team.until("--tag", order, "--tag", odd, runs=[tagged.name])
        assert row["tags"] == parse_tags([order, odd])
        assert order in (await cli("status", tagged.name)).out
        assert (await cli("status", tagged.name, "--json")).json["tags"] == row["tags"]
        again = await cli(
            *("start", f"Go. [script:{tagged.name}]", "--agent", team.name),
            *("--id", tagged.name, "--tag", "order=changed"),
        )
        assert (again.code, "its tags stay as they are" in again.err) == (0, True)
        assert (await cli("approve", tagged.name, "1.1")).code == 0
        await tagged.ended()
        await other.ended()
        fork = await forks.fork(cli, tagged, "--message", "And now?", then=[says()])
        await fork.ended()
    both = [tagged.name, fork.name]
    await team.until("--tag", order, runs=both)
    summed = (await cli("spend", "--tag", order, "--json")).json
    assert (summed["runs"], summed["tags"]) == (2, parse_tags([order]))
    audited = (await cli("audit", "--tag", order, "--json")).json
    assert [run["run"] for run in audited["runs"]] == both
    assert (audited["calls"], audited["outcomes"]) == (1, {"done": 1})
    told = (await cli("audit", "--tag", order, "--verify")).out
    assert f"1 call of 2 runs with {order}: 1 done" in told


# ---- lists


@dataclass
class Sixty:
    """Sixty runs that no worker has, each dearer than the one before."""

    team: Team
    names: list[str]

    async def first(self, *options: str) -> list[str]:
        """Names of the runs that a list begins with."""
        return [row["run"] for row in await self.team.listed(*options)]


@pytest_asyncio.fixture(loop_scope="session")
async def sixty(team: Team) -> AsyncGenerator[Sixty]:
    names = [f"{team.name}-{number:02}" for number in range(60)]
    for number, name in enumerate(names):
        await _start(team, name, number)
    await team.until("--limit", "100", runs=names)
    yield Sixty(team, names)
    for name in names:
        await team.bench.temporal.get_workflow_handle(name).terminate()


async def _start(team: Team, name: str, number: int) -> None:
    status = "waiting" if number % 10 == 0 else "running"
    tags = ["kind=odd" if number % 2 else "kind=even", f"ten={number // 10}"]
    known: list[SearchAttributePair[Any]] = [
        SearchAttributePair(SearchAttributeKey.for_keyword(AGENT), team.name),
        SearchAttributePair(SearchAttributeKey.for_keyword(STATUS), status),
        SearchAttributePair(SearchAttributeKey.for_keyword_list(TAGS), tags),
        SearchAttributePair(SearchAttributeKey.for_int(STEP), 60 - number),
    ]
    if number:
        cost = SearchAttributeKey.for_float(COST)
        known.append(SearchAttributePair(cost, number / 100))
    await team.bench.temporal.start_workflow(
        WORKFLOW,
        id=name,
        task_queue=f"nobody-{team.bench.queue}",
        memo={"agent": team.name, "tags": parse_tags(tags), "prompt": f"number {number}"},
        search_attributes=TypedSearchAttributes(known),
    )


async def test_lists_are_filtered_and_sorted(
    sixty: Sixty, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over all runs, page by page; what is not known comes last, and it is said."""
    monkeypatch.setattr(finding, "_PAGE", 25)
    newest = sixty.names[::-1]
    assert await sixty.first() == newest[:20]
    assert await sixty.first("--limit", "3", "--sort", "cost") == newest[:3]
    assert await sixty.first("--limit", "3", "--sort", "step") == sixty.names[:3]
    dearest = await cli("list", "--agent", sixty.team.name, "--sort", "cost", "--limit", "60")
    lines = [line.split("\t") for line in dearest.out.splitlines()]
    assert (lines[0][0], lines[0][3:5]) == (newest[0], ["1", "$0.5900"])
    assert (lines[-1][0], lines[-1][4]) == (sixty.names[0], "")
    assert "the cost of 1 run is not known" in dearest.err
    tagged = await sixty.first("--tag", "kind=even", "--tag", "ten=3")
    assert tagged == [f"{sixty.team.name}-{number}" for number in (38, 36, 34, 32, 30)]
    asking = await sixty.first("--status", "waiting", "--tag", "kind=even")
    assert asking == [f"{sixty.team.name}-{number:02}" for number in (50, 40, 30, 20, 10, 0)]
    assert await sixty.first("--status", "completed") == []
    none = await cli("list", "--agent", sixty.team.name, "--tag", "kind=none")
    assert (none.code, "no run is like that" in none.err) == (0, True)


async def test_where_nobody_answers_few_are_asked(
    sixty: Sixty, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are named and the exit is 3, after seconds, not after a timeout for each of hundreds."""
    monkeypatch.setattr("onward.reports.QUERY_TIMEOUT", timedelta(seconds=0.2))
    monkeypatch.setattr(finding, "_AT_ONCE", 1)
    monkeypatch.setattr("onward.listing.waiting._SILENT", 2)
    ran = await cli("list", "--waiting", "--agent", sixty.team.name)
    assert (ran.code, ran.out.count("its worker does not answer")) == (3, 6)
    assert ran.err.count("not asked: of task queue") == 4


async def test_only_as_much_is_read_as_the_newest_need(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A namespace that holds a million ended runs is not read whole for the last twenty."""
    monkeypatch.setattr(finding, "_PAGE", 2)
    names = list[str]()
    async with team.bench.worker(team.app, search_attributes=True):
        for _ in range(4):
            run = await team.start(says())
            await run.ended()
            names.append(run.name)
    await team.until("--status", "completed", runs=names)
    pages, queries = list[int](), list[str]()
    read = finding.pages

    async def counted(client: Client, query: str) -> AsyncGenerator[Sequence[Any]]:
        queries.append(query)
        async for page in read(client, query):
            pages.append(len(page))
            yield page

    monkeypatch.setattr(finding, "pages", counted)
    rows = await team.listed("--limit", "1")
    # Not how many: other tests leave runs in the namespace that may be meant, too.
    there = await team.bench.temporal.count_workflows(queries[0])
    assert ([row["run"] for row in rows], sum(pages) < there.count) == (names[-1:], True)
    assert (rows[0]["status"], rows[0]["steps"], rows[0]["model"]) == ("completed", 1, MODEL)
    assert rows[0]["cost_usd"] > 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--status", "done"), "expected one of: running, waiting"),
        (("--tag", "order"), "expected name=value"),
        (("--agent", "no such"), "a name has 1 to 64"),
        (("--limit", "0"), "at least 1"),
        (("--waiting", "--sort", "cost"), "not for --waiting"),
        (("--waiting", "--status", "failed"), "not for --waiting"),
    ],
)
async def test_what_cannot_be_listed_is_refused(
    cli: Cli, options: tuple[str, ...], why: str
) -> None:
    """A slip of the pen lists nothing, instead of something else."""
    ran = await cli("list", *options)
    assert (ran.code, why in ran.err) == (2, True), ran.err


async def test_every_status_can_be_asked_of_a_server(bench: Bench) -> None:
    """No word of ours makes a query that Temporal refuses, whichever attributes it has."""
    for state in STATES:
        which = Which(state=state, agent="nobody", tags={"a": "'\"\\"}, going=True)
        for known in ((), (STATUS, AGENT, TAGS)):
            found = await finding.runs_of(bench.temporal, which.query(known))
            assert not any(map(which.means, found))


# ---- what waits


async def test_all_that_waits_is_listed_with_what_settles_it(team: Team) -> None:
    """An approval, a limit and a paused run; of the agent's runs that wait for nobody, nothing."""
    cli = team.cli

    async def asks(*options: str) -> Ran | None:
        ran = await cli("list", "--waiting", "--agent", team.name, *options)
        return ran if "paused" in ran.out and "approval" in ran.out else None

    async with team.bench.worker(team.app, search_attributes=True):
        asking = await team.start(uses(("refund", {"cents": 5})), says())
        paused = await team.start(uses(("refund", {"cents": 6})), says())
        await waiting(asking)
        await waiting(paused)
        await (await team.start(says())).ended()
        assert (await cli("pause", paused.name, "--reason", "incident 7")).code == 0
        assert (await cli("deny", paused.name, "1.1", "--why", "no")).code == 0
        await wait_until(lambda: _is_paused(paused), 20, what="the run being paused")
        seen = await wait_until(asks, 20, what="both in the list")
        assert seen is not None
        lines = [line.split("\t") for line in seen.out.splitlines()]
        assert [line[:3] for line in lines] == [
            [asking.name, "1.1", "approval"],
            [paused.name, "", "paused"],
        ]
        assert lines[1][5].endswith(": incident 7")
        assert f"approve {asking.name} 1.1" in seen.err
        assert f"resume {paused.name}" in seen.err
        document = (await asks("--json") or seen).json
        assert f"approve {asking.name} 1.1" in document["waiting"][0]["answer"]
        assert [each["run"] for each in document["paused"]] == [paused.name]
        assert document["unanswered"] == []
        assert (await cli("resume", paused.name)).code == 0
        assert (await cli("approve", asking.name, "1.1")).code == 0
        await asking.ended()
        await paused.ended()


async def _is_paused(run: Run) -> bool:
    status = await run.status()
    return status.state == "paused" and not status.waiting
