"""Run the payments service: `python -m onward.testing.payments --port N --db FILE`."""

import asyncio
import json
import signal
import sys
from argparse import ArgumentParser
from pathlib import Path

from aiohttp import web

from onward.testing.payments.service import application


async def serve(port: int, file: Path) -> None:
    """Serve on loopback until SIGTERM; prints `{"url": …}` when ready. Port 0: a random one."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    runner = web.AppRunner(application(file), access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    port = runner.addresses[0][1]
    sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{port}"}) + "\n")
    sys.stdout.flush()
    await ended.wait()
    await runner.cleanup()


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--db", type=Path, required=True)
    asked = parser.parse_args()
    asyncio.run(serve(asked.port, asked.db))
