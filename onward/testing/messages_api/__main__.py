"""`python -m onward.testing.messages_api`: the scripted server as a process of its own.

Prints one line of JSON, `{"url": …}`, when it listens; stops on SIGTERM or SIGINT.
"""

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from onward.testing.messages_api.script import load_scripts
from onward.testing.messages_api.server import ScriptedAPI


def main() -> None:
    """Serve until a signal ends it."""
    parser = argparse.ArgumentParser(prog="python -m onward.testing.messages_api")
    parser.add_argument("--port", type=int, default=0, help="0 (default): any free one")
    parser.add_argument("--scripts", type=Path, required=True, help="JSON file {key: script}")
    parser.add_argument("--journal", type=Path, help="JSON lines file, appended to")
    parser.add_argument("--accept-key", action="append", help="others get a 401; repeatable")
    parser.add_argument("--model", action="append", help="others get a 404; repeatable")
    asyncio.run(_serve(parser.parse_args()))


async def _serve(options: argparse.Namespace) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    api = ScriptedAPI(
        load_scripts(options.scripts),
        options.journal,
        accept_keys=options.accept_key,
        models=options.model,
        port=options.port,
    )
    async with api:
        sys.stdout.write(json.dumps({"url": api.url}) + "\n")
        sys.stdout.flush()
        await ended.wait()


if __name__ == "__main__":
    main()
