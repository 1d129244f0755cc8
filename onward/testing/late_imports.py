"""What forked workers share: half of what one costs, if each had to load it.

Imported for that alone, by the process that workers are forked from.
"""

import gc

from onward import preload
from onward.agents import Agent

__all__ = ["preload"]

Agent("tester", model="claude-sonnet-5-5").definition()
# A collector that visits what was inherited would copy all of it into every child.
gc.collect()
gc.freeze()
