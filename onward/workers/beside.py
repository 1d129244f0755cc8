"""Work that goes on beside a block, and ends with it."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

_CANCEL_AGAIN_S = 0.1


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Run `work` while the block runs; it is cancelled, and over, when the block is left."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        # Python 3.11's `wait_for`, in which the Redis client sends, loses a cancel that comes
        # just as it ends: the work would go on, and a worker that was told to stop, too.
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=_CANCEL_AGAIN_S)
