"""Which run an activity belongs to, and the proof of which ledger and transcript it means."""

from onward.messages.base import Terse, Wire


class RunRef(Terse):
    """Which run an activity belongs to. In every activity's input (ledger.md 1.1, 1.3)."""

    workflow_id: str
    first_run_id: str
    """`first_execution_run_id`: the same over reset and continue-as-new."""
    run_id: str
    """The run that scheduled this activity; after a reset it is not the activity's own."""
    original_run_id: str
    """`original_execution_run_id`: differs from `run_id` in a reset run."""
    reset_lineage: bool = False
    """An earlier workflow run of the chain was made by a reset."""
    deployment: str = ""

    @property
    def has_lineage(self) -> bool:
        """This workflow run, or one before it in the chain, was made by a reset."""
        return self.reset_lineage or self.original_run_id != self.run_id


class Witness(Terse):
    """Proof, held in history, of which ledger was written to (ledger.md 1.3)."""

    nonce: str
    """Birth nonce of the run's hash in Redis; empty: no witness, nothing is trusted."""
    inc: str
    """The Redis server's run id and replication id at that moment."""
    run_id: str
    """The workflow run that took it."""
    strict: bool = True
    """The server was strict at that moment. On another one a restart and a failover look alike, so
    a later worker that finds it strict (a promoted replica is) must not trust by the nonce alone.
    """


class Head(Wire):
    """The end of the transcript so far: a step and the digest over all up to it."""

    step: str
    """Step id whose reply is last; `0` is the frozen beginning."""
    digest: str
    """Hex SHA-256, chained over frozen beginning, turns and replies."""
