"""What a worker would import or read only when it first needs it, brought forward to its start.

In the middle of a request it would hold up the heartbeats of all that go on: on a busy machine for
so long that they count as dead, and each of them pays for its reply twice. Imported for that alone.
"""

import httpcore2
import jsonschema
from anyio._backends import _asyncio as anyio_backend

from onward.pricing import price_known

__all__ = ["anyio_backend", "httpcore2", "jsonschema"]

price_known("claude-sonnet-5-5")  # reads the table of prices
