"""What a worker imports or reads only when it first needs it: half of what a forked one costs.

Imported for that alone, by the process that workers are forked from.
"""

import gc

import httpcore2
import jsonschema
from anyio._backends import _asyncio as anyio_backend

from onward.agents import Agent
from onward.pricing import price_known

__all__ = ["anyio_backend", "httpcore2", "jsonschema"]

price_known("claude-sonnet-5-5")  # reads the table of prices
Agent("tester", model="claude-sonnet-5-5").definition()
# A collector that visits what was inherited would copy all of it into every child.
gc.collect()
gc.freeze()
