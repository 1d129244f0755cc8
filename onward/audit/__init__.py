"""`onward audit`: every effect of a run, from history and ledger, and whether the two agree.

`timeline` reads what history says of each call, `held` what Redis holds, `effects` joins the two,
`comparing` looks for what differs, `report` prints it.
"""

from onward.audit.command import audit

__all__ = ["audit"]
