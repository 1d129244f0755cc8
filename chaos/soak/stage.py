"""What the soak stands on: real servers, a worker that is never killed, and one that is."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from redis.asyncio import Redis
from temporalio.client import Client as TemporalClient

from chaos.app import transactions
from chaos.crew import Crew
from chaos.nemesis import Targets
from onward.client import Client
from onward.connection import Connection, Target, connect
from onward.local_services import RedisServer, TemporalServer, redis_server
from onward.local_services.data_dir import held_folder
from onward.local_services.temporal import find_temporal
from onward.rates import Rates
from onward.redis_server.connection import redis_client
from onward.settings import Settings
from onward.testing import PaymentsProcess, WorkerProcess, payments_service
from onward.testing.messages_api import ScriptedAPI

MODEL = "claude-sonnet-5-5"
RETENTION = timedelta(minutes=3)
"""How long Temporal knows a run that has ended: so short that an hour sees them go."""
_FLAGS = {
    "system.namespaceMinRetentionLocal": '"1m"',  # an hour otherwise
    "history.retentionTimerJitterDuration": '"10s"',  # half an hour otherwise
}
_HISTORY_EVENTS = 40
_JANITOR_EVERY_S = 30
_PLENTY = Rates(requests=4_000, input_tokens=2_000_000, output_tokens=400_000)
"""Limits that are never met: but their keys are there."""


class ForgetfulTemporal(TemporalServer):
    """A Temporal server that forgets ended runs after minutes."""

    retention = RETENTION

    def _command(self) -> list[str]:
        given = [f"{name}={value}" for name, value in _FLAGS.items()]
        flags = [part for each in given for part in ("--dynamic-config-value", each)]
        return [*super()._command(), *flags]


@dataclass(frozen=True)
class Stage:
    """All that takes part."""

    targets: Targets
    """The worker that is killed, and the servers."""
    steady: WorkerProcess
    """The worker that is never killed."""
    client: Client
    redis: Redis
    api: ScriptedAPI
    payments: PaymentsProcess
    transactions_db: Path
    folder: Path

    @property
    def temporal(self) -> TemporalClient:
        """The connection to Temporal."""
        return self.client.connection.client

    @property
    def pids(self) -> Mapping[str, int]:
        """Process ids now, by name."""
        return {
            "steady worker": self.steady.pid,
            "killed worker": self.targets.crew.pid(1),
            "redis": self.targets.redis.pid,
            "temporal": self.targets.temporal.pid,
        }


@asynccontextmanager
async def stage(folder: Path) -> AsyncGenerator[Stage]:
    """Start everything; at the end all of it is gone but the files in `folder`."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        temporal = await enter(_temporal(folder))
        redis = await enter(redis_server(folder))
        payments = await enter(payments_service(folder / "payments.db"))
        transactions(folder / "transactions.db").close()
        api = await enter(ScriptedAPI({}, rate_limits={MODEL: _PLENTY}))
        env = {
            "TEMPORAL_ADDRESS": temporal.address,
            "ONWARD_PAYLOAD_DIR": str(folder / "payloads"),
            "ONWARD_REDIS_URL": redis.url,
            "ONWARD_APP": "chaos.soak.app:app",
            "ONWARD_HISTORY_EVENTS": str(_HISTORY_EVENTS),
            "ONWARD_JANITOR_EVERY_S": str(_JANITOR_EVERY_S),
            "ANTHROPIC_BASE_URL": api.url,
            "ANTHROPIC_API_KEY": "soak",
            "PAYMENTS_URL": payments.url,
            "TRANSACTIONS_DB": str(folder / "transactions.db"),
        }
        crew = Crew(env, folder, size=1)
        stack.push_async_callback(crew.stop)
        await crew.start()
        # From nothing and not forked: what it holds is then its own.
        steady = await WorkerProcess.start(env, log=folder / "steady.log")
        stack.push_async_callback(steady.stop)
        await steady.ready()
        records = redis_client(redis.url)
        stack.push_async_callback(records.aclose)
        yield Stage(
            targets=Targets(crew, redis, temporal, {}),
            steady=steady,
            client=await _client(temporal, redis, folder),
            redis=records,
            api=api,
            payments=payments,
            transactions_db=folder / "transactions.db",
            folder=folder,
        )


@asynccontextmanager
async def _temporal(folder: Path) -> AsyncGenerator[ForgetfulTemporal]:
    with held_folder(folder, "temporal") as held:
        server = ForgetfulTemporal(held, find_temporal(), ui=False)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


async def _client(temporal: TemporalServer, redis: RedisServer, folder: Path) -> Client:
    settings = Settings(redis_url=redis.url, payload_dir=folder / "payloads")
    target = Target(temporal.address, temporal.namespace, "configured")
    return Client(Connection(await connect(settings, target), target, settings))
