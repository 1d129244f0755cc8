"""Everything that a chaos run needs: real servers, proxies, workers, Claude's side, payments."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from temporalio.client import Client

from chaos.app import FORGETFUL, transactions
from chaos.crew import Crew
from chaos.nemesis import Targets
from chaos.proxy import Proxy
from chaos.traffic import TASK_QUEUE
from onward.connection import quiet_runtime
from onward.local_services import redis_server, temporal_server
from onward.payload_store import data_converter
from onward.testing import PaymentsProcess, payments_service
from onward.testing.messages_api import ScriptedAPI

_TAKEOVER_S = 3.0
"""Longer than a worker's own: a busy machine that stalls for a moment is no fault of ours."""


@dataclass(frozen=True)
class Arena:
    """The stage that runs and faults share."""

    targets: Targets
    temporal: Client
    api: ScriptedAPI
    payments: PaymentsProcess
    transactions_db: Path


@asynccontextmanager
async def arena(folder: Path, *, workers: int, forgetful: bool) -> AsyncGenerator[Arena]:
    """Start everything; at the end all of it is gone but the files in `folder`."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        temporal = await enter(temporal_server(folder, ui=False))
        redis = await enter(redis_server(folder))
        payments = await enter(payments_service(folder / "payments.db"))
        transactions(folder / "transactions.db").close()
        api = await enter(ScriptedAPI({}, folder / "claude.jsonl"))
        proxies = {
            "redis": await enter(Proxy(redis.ports[0])),
            "payments": await enter(Proxy(urlsplit(payments.url).port or 0)),
        }
        env = {
            "TEMPORAL_ADDRESS": temporal.address,
            "ONWARD_PAYLOAD_DIR": str(folder / "payloads"),
            "ONWARD_REDIS_URL": f"redis://127.0.0.1:{proxies['redis'].port}/0",
            "ONWARD_TASK_QUEUE": TASK_QUEUE,
            "ONWARD_TAKEOVER_S": str(_TAKEOVER_S),
            "ONWARD_APP": "chaos.app:app",
            "ANTHROPIC_BASE_URL": api.url,
            "ANTHROPIC_API_KEY": "chaos",
            "PAYMENTS_URL": f"http://127.0.0.1:{proxies['payments'].port}",
            "TRANSACTIONS_DB": str(folder / "transactions.db"),
            FORGETFUL: "1" if forgetful else "",
        }
        crew = Crew(env, folder, workers)
        stack.push_async_callback(crew.stop)
        await crew.start()
        client = await Client.connect(
            temporal.address,
            data_converter=data_converter(folder / "payloads"),
            runtime=quiet_runtime(),
        )
        targets = Targets(crew, redis, temporal, proxies)
        yield Arena(targets, client, api, payments, folder / "transactions.db")
