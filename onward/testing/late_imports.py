"""What forked workers share: half of what one costs, if each had to load it.

Imported for that alone, by the process that workers are forked from.
"""

import gc

from onward.own_code import own
from onward.plugin import standing
from onward.workers import preload

__all__ = ["preload", "standing"]

own("activities.every")
own("workflows.agent")
# A collector that visits what was inherited would copy all of it into every child.
gc.collect()
gc.freeze()
