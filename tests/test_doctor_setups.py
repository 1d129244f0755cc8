"""`doctor` in front of broken set-ups: it names the fault, and goes on to look at the rest."""

import json
import re
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from agent_runs import MODEL, connected, says
from doctor_setup import Setup
from google.protobuf.duration_pb2 import Duration
from redis_users import PASSWORD, USER, may
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from test_redis_servers import ClusterNode

from onward.connection import connect
from onward.console import Output
from onward.doctor import clocks, examining
from onward.doctor.command import doctor
from onward.local_services import TemporalServer, redis_server
from onward.local_services.data_dir import held_folder
from onward.local_services.redis import find_valkey
from onward.names import WAITING
from onward.redis_server.permissions import KEYS, NEEDED
from onward.search_attributes import register
from onward.settings import Settings
from onward.testing import wait_until
from onward.testing.messages_api import Script, ScriptedAPI
from onward.workers.payload_folder import mark

pytestmark = pytest.mark.timeout(60)


@pytest_asyncio.fixture(loop_scope="session")
async def setup(
    temporal: TemporalServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncGenerator[Setup]:
    """Set all up, so that nothing is wrong."""
    async with redis_server(None) as server, connected(server.url) as redis:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.address)
        monkeypatch.setenv("ONWARD_REDIS_URL", server.url)
        monkeypatch.setenv("ONWARD_TASK_QUEUE", f"setup-{uuid.uuid4().hex}")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "right")
        client = await connect(Settings())
        await register(client)
        made = Setup(client, server, redis, monkeypatch)
        made.app(MODEL)
        await made.living()
        async with made.stack:
            yield made


@pytest.fixture
def examine(capsys: pytest.CaptureFixture[str]) -> Any:
    async def examined(setup: Setup) -> dict[str, Any]:
        capsys.readouterr()
        code = await doctor(Output(as_json=True), call=setup.call)
        checks: dict[str, Any] = json.loads(capsys.readouterr().out)["checks"]
        states = {check["state"] for check in checks.values()}
        assert code == (3 if "away" in states else 1 if "wrong" in states else 0)
        return checks

    return examined


def sick(checks: dict[str, Any]) -> dict[str, str]:
    """State of each check that is not well, by name."""
    return {name: check["state"] for name, check in checks.items() if check["state"] != "ok"}


# ---- what may be broken


async def _no_temporal(setup: Setup) -> None:
    setup.set(TEMPORAL_ADDRESS="127.0.0.1:1")


async def _wrong_namespace(setup: Setup) -> None:
    setup.set(TEMPORAL_NAMESPACE="nobodys")


async def _short_retention(setup: Setup) -> None:
    setup.app(MODEL, "max_wall_time=10 * 86_400")


async def _bare_namespace(setup: Setup) -> None:
    name = f"bare-{uuid.uuid4().hex[:8]}"
    await setup.client.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace=name, workflow_execution_retention_period=Duration(seconds=86_400)
        )
    )
    setup.set(TEMPORAL_NAMESPACE=name)


async def _nothing_polls(setup: Setup) -> None:
    setup.set(ONWARD_TASK_QUEUE="nobodys")


async def _newer_worker(setup: Setup) -> None:
    await setup.living(identity="9@new", version="99.1.0")


async def _older_worker(setup: Setup) -> None:
    await setup.polls("onward-0.4.0")


async def _strange_worker(setup: Setup) -> None:
    await setup.polls("shop-1.0")


async def _other_app(setup: Setup) -> None:
    await setup.living(identity="9@new", agents=("billing",))


async def _folder_not_shared(setup: Setup) -> None:
    await setup.living(identity="9@new", payload_folder="/srv/payloads", payload_marker="b" * 32)


async def _no_redis(setup: Setup) -> None:
    setup.set(ONWARD_REDIS_URL="redis://127.0.0.1:1/0")


async def _workers_and_no_redis(setup: Setup) -> None:
    await setup.polls("onward-0.6.0")
    await _no_redis(setup)


async def _misspelt(setup: Setup) -> None:
    setup.set(ONWARD_DEPLOYMENTS="eu")


async def _no_url(setup: Setup) -> None:
    setup.set(ONWARD_REDIS_URL="http://127.0.0.1/0")


async def _wrong_password(setup: Setup) -> None:
    await may(setup.redis, [f"+{command}" for command in NEEDED], keys=[KEYS])
    setup.set(ONWARD_REDIS_URL=setup.server.url.replace("//", f"//{USER}:wrong@"))


async def _less_rights(setup: Setup) -> None:
    await may(setup.redis, [f"+{each}" for each in NEEDED if each != "hexists"], keys=[KEYS])
    setup.set(ONWARD_REDIS_URL=setup.server.url.replace("//", f"//{USER}:{PASSWORD}@"))


async def _cluster(setup: Setup) -> None:
    node = ClusterNode(setup.stack.enter_context(held_folder(None, "redis")), find_valkey())
    await node.start()
    setup.stack.push_async_callback(node.stop)
    setup.set(ONWARD_REDIS_URL=node.url)


async def _replica(setup: Setup) -> None:
    await setup.redis.replicaof("127.0.0.1", "1")


async def _evicting_redis(setup: Setup) -> None:
    await setup.redis.config_set("maxmemory-policy", "allkeys-lru")


async def _full_redis(setup: Setup) -> None:
    used = (await setup.redis.info("memory"))["used_memory"]
    await setup.redis.config_set("maxmemory", int(used * 1.1))


async def _forgetful_redis(setup: Setup) -> None:
    await setup.redis.config_set("appendonly", "no")


async def _refusing_redis(setup: Setup) -> None:
    await setup.redis.config_set("min-replicas-to-write", 1)


async def _no_folder(setup: Setup) -> None:
    setup.set(ONWARD_PAYLOAD_DIR=__file__)


async def _another_folder(setup: Setup) -> None:
    setup.set(ONWARD_PAYLOAD_DIR="mine")
    mark(Path("mine"))


async def _no_app(setup: Setup) -> None:
    setup.set(ONWARD_APP="nobodys:app")


async def _another_app(setup: Setup) -> None:
    setup.set(ONWARD_APP="")


async def _unknown_model(setup: Setup) -> None:
    setup.app("claude-opus-55")


async def _retired_model(setup: Setup) -> None:
    setup.app("claude-3-opus-20240229")


async def _no_key(setup: Setup) -> None:
    setup.set(ANTHROPIC_API_KEY="")


async def _quoted_key(setup: Setup) -> None:
    setup.set(ANTHROPIC_API_KEY='"right"')


async def _refused_key(setup: Setup) -> None:
    api = await setup.stack.enter_async_context(ScriptedAPI({}, accept_keys=["another"]))
    setup.set(ANTHROPIC_BASE_URL=api.url)
    setup.call = True


async def _api_away(setup: Setup) -> None:
    setup.set(ANTHROPIC_BASE_URL="http://127.0.0.1:1")
    setup.call = True


async def _doubt(setup: Setup) -> None:
    waiting = SearchAttributePair(SearchAttributeKey.for_keyword(WAITING), "doubt")
    name = f"doubtful-{uuid.uuid4().hex[:8]}"
    run = await setup.client.start_workflow(
        "agent",
        id=name,
        task_queue=f"none-{name}",
        search_attributes=TypedSearchAttributes([waiting]),
    )
    setup.stack.push_async_callback(run.terminate)
    query = f"{WAITING} = 'doubt' AND WorkflowId = '{name}'"
    await wait_until(lambda: _listed(setup.client, query), 20, what="the run in the index")


async def _listed(client: Client, query: str) -> bool:
    return (await client.count_workflows(query)).count == 1


async def _clock_off(setup: Setup) -> None:
    clock = SimpleNamespace(time=lambda: time.time() - 120)
    setup.monkeypatch.setattr(clocks, "time", clock)


async def _blind_look(setup: Setup) -> None:
    async def fails(_: object) -> AsyncGenerator[None]:
        raise ZeroDivisionError("a fault of our own")
        yield

    setup.monkeypatch.setitem(examining.LOOKS, "clocks", fails)


BREAKS: dict[str, tuple[Callable[[Setup], Awaitable[None]], str, str, str]] = {
    "no Temporal": (_no_temporal, "Temporal", "away", "no Temporal server at.*TEMPORAL_ADDRESS"),
    "wrong namespace": (_wrong_namespace, "Temporal", "away", "no namespace 'nobodys'.*create"),
    "retention shorter than a run": (
        _short_retention,
        "retention",
        "note",
        "kept for 3 days, and a run may take 10 days.*namespace update.*--retention 11d",
    ),
    "no search attributes": (
        _bare_namespace,
        "search attributes",
        "note",
        "lacks search attributes: OnwardStatus.*search-attribute create.*--name OnwardStatus",
    ),
    "nothing polls": (_nothing_polls, "workers", "wrong", "nothing polls.*'nobodys'.*Start `"),
    "a newer worker beside an older one": (
        _newer_worker,
        "workers",
        "wrong",
        r"9@new cannot work beside .*this one of 99\.1\.0.*minor numbers.*ONWARD_TASK_QUEUE",
    ),
    "an older worker, which tells nothing": (
        _older_worker,
        "other workers",
        "wrong",
        r"77@elsewhere \(onward-0\.4\.0\).*stop 77@elsewhere",
    ),
    "a worker that nobody knows": (
        _strange_worker,
        "other workers",
        "note",
        r"77@elsewhere \(shop-1\.0\).*no worker of Onward's, or has another Redis",
    ),
    "two apps": (
        _other_app,
        "workers",
        "wrong",
        "9@new cannot.*'coder', this one 'billing'.*a task queue of",
    ),
    "a folder that is not shared": (
        _folder_not_shared,
        "workers",
        "wrong",
        "this one in '/srv/payloads'.*ONWARD_PAYLOAD_DIR",
    ),
    "workers, of which only Redis could tell": (
        _workers_and_no_redis,
        "workers",
        "note",
        r"1 worker polled 'setup-.*in the last minutes: 77@elsewhere.*only that Redis could tell",
    ),
    "a setting that is none": (_misspelt, "settings", "note", "is ONWARD_DEPLOYMENT meant"),
    "no Redis": (_no_redis, "Redis", "away", "no Redis at 'redis://127.*ONWARD_REDIS_URL"),
    "no URL of a Redis": (_no_url, "Redis", "wrong", "ONWARD_REDIS_URL is 'http.*redis://"),
    "wrong password": (_wrong_password, "Redis", "away", "does not let us in.*ONWARD_REDIS_URL"),
    "a permission lacks": (_less_rights, "permissions", "wrong", "SETUSER app .* .hexists$"),
    "Redis is a cluster": (_cluster, "guarantee", "wrong", "is a cluster.*cluster mode off"),
    "Redis is a replica": (_replica, "guarantee", "wrong", "a replica.*primary in ONWARD_REDIS"),
    "Redis evicts": (_evicting_redis, "guarantee", "wrong", "allkeys-lru.*Set maxmemory-policy"),
    "Redis is full": (_full_redis, "memory", "wrong", r"used \(\d+%\).*raise maxmemory"),
    "Redis forgets": (_forgetful_redis, "persistence", "note", "no append.*SET appendonly yes"),
    "Redis takes no writes": (_refusing_redis, "writes", "wrong", "NOREPLICAS.*settings and log"),
    "the folder cannot be written": (
        _no_folder,
        "payload folder",
        "wrong",
        "/test_doctor_setups.py': .*Not a directory.*ONWARD_PAYLOAD_DIR",
    ),
    "another folder here": (
        _another_folder,
        "payload folder",
        "note",
        "the workers keep theirs in '.*/payloads', .*/mine'.*ONWARD_PAYLOAD_DIR",
    ),
    "no app": (_no_app, "app", "wrong", "no module 'nobodys'.*Set ONWARD_APP"),
    "another app here": (_another_app, "app", "note", "built-in.*living workers have 'coder'"),
    "a model that nobody knows": (
        _unknown_model,
        "models",
        "wrong",
        "'claude-opus-55' is not in this release's table.*runs of agent 'coder' are refused",
    ),
    "a retired model": (_retired_model, "models", "wrong", "retired on 2026-01-05.*choose another"),
    "no key": (_no_key, "key", "note", "no key.*Set ANTHROPIC_API_KEY"),
    "a key in quotes": (_quoted_key, "key", "wrong", "has quotes.*Correct ANTHROPIC_API_KEY"),
    "a key that is refused": (_refused_key, "call", "wrong", "401.*Check ANTHROPIC_API_KEY"),
    "no API": (_api_away, "call", "away", "cannot reach ANTHROPIC_BASE_URL 'http://127.0.0.1:1'"),
    "a doubt": (_doubt, "doubts", "note", "1 run waits for somebody.*'doubtful-.*list --waiting"),
    "a clock that is off": (_clock_off, "clocks", "note", "of Redis is 120 s ahead of.*NTP"),
    "a look that fails": (_blind_look, "clocks", "wrong", "ZeroDivisionError: a fault of our own"),
}
"""How it is broken; the check that names it; its state; what it says, with what to do."""
ALSO = {
    "no search attributes": {"doubts": "note", "workers": "wrong"},
    "a newer worker beside an older one": {"versions": "note"},
    "two apps": {"app": "note"},
    "workers, of which only Redis could tell": {"Redis": "away"},
    "no Redis": {"workers": "wrong"},
    "no URL of a Redis": {"workers": "wrong"},
    "wrong password": {"workers": "wrong"},
    "Redis is a cluster": {"workers": "wrong"},
    "Redis forgets": {"guarantee": "note"},
    "a permission lacks": {"watching": "note", "guarantee": "note"},
}
"""What else follows from it."""


async def test_where_all_is_well_nothing_is_said(setup: Setup, examine: Any) -> None:
    """What the others break is whole: no check finds fault."""
    assert sick(await examine(setup)) == {}


@pytest.mark.parametrize("broken", BREAKS)
async def test_the_fault_is_named(setup: Setup, examine: Any, broken: str) -> None:
    """One check says what was found and what to do; the others are looked at, and are well."""
    breaks, name, state, said = BREAKS[broken]
    await breaks(setup)
    checks = await examine(setup)
    assert sick(checks) == {name: state, **ALSO.get(broken, {})}
    told = f"{checks[name]['found']}. {checks[name]['todo']}"
    assert re.search(said, told, re.DOTALL), told


async def test_a_key_that_works(setup: Setup, examine: Any) -> None:
    """One tiny request is sent, only when asked for, and what it cost is told."""
    async with ScriptedAPI({"default": Script(steps=[says("Well.")])}) as api:
        setup.set(ANTHROPIC_BASE_URL=api.url)
        assert "call" not in await examine(setup)
        assert not api.journal
        setup.call = True
        call = (await examine(setup))["call"]
        (sent,) = api.journal
    assert json.loads(sent.body)["max_tokens"] <= 16
    assert call["state"] == "ok"
    assert re.search(rf"{MODEL} answered: \d+ tokens, .*\$0.0\d+, 1 request", call["found"])
