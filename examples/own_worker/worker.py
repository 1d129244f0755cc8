"""The team's own worker: one line brings the agents.

python -m examples.own_worker.worker
"""

import asyncio
import logging
import signal

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker

from examples.own_worker.agents import app
from examples.own_worker.workflows import SettleReturn, book
from onward import OnwardPlugin

TASK_QUEUE = "returns"


async def main() -> None:
    """Work until SIGTERM."""
    logging.basicConfig(level=logging.INFO)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    config = ClientConfig.load_client_connect_config()
    config.setdefault("target_host", "localhost:7233")
    client = await Client.connect(**config, plugins=[OnwardPlugin(app)])
    async with Worker(client, task_queue=TASK_QUEUE, workflows=[SettleReturn], activities=[book]):
        await stopping.wait()


if __name__ == "__main__":
    asyncio.run(main())
