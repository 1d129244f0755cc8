"""Lists of runs: those that are like so, the newest or dearest first, and what waits for people."""

from onward.listing.finding import Sort, find, with_outcomes
from onward.listing.which import STATES, Which

__all__ = ["STATES", "Sort", "Which", "find", "with_outcomes"]
