"""Which run an activity belongs to, and the proof of which ledger and transcript it means."""

from typing import Any, cast

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from onward.messages.base import Terse, Wire, terse


class RunRef(Terse):
    """Which run an activity belongs to. In every activity's input.

    Ids that are equal are written once: history holds them with every activity.
    """

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

    @model_validator(mode="before")
    @classmethod
    def _spelt_out(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        told = cast("dict[str, Any]", given)
        run_id = told.get("run_id") or told.get("first_run_id")
        return {"original_run_id": run_id, **told, "run_id": run_id}

    @model_serializer(mode="wrap")
    def _told_once(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        told = terse(self, whole)
        if self.original_run_id == self.run_id:
            del told["original_run_id"]
        if self.run_id == self.first_run_id:
            del told["run_id"]
        return told

    @property
    def has_lineage(self) -> bool:
        """This workflow run, or one before it in the chain, was made by a reset."""
        return self.reset_lineage or self.original_run_id != self.run_id


class Witness(Terse):
    """Proof, held in history, of which ledger was written to (docs/architecture.md)."""

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
