"""Names that stay the same however often a thing is tried: of a run, of a request, of its key.

Each can be computed from Temporal's history alone, so it survives the loss of Redis.
"""

import base64
import hashlib
from urllib.parse import quote

import simplejson

from onward import json_text
from onward.messages import BusinessKey, RunRef

_MAX_DEPTH = 200
_KEY = "k:"


def run_key(workflow_id: str, first_run_id: str) -> str:
    """Return R, the name of a run in Redis: the same over resets and continue-as-new.

    The workflow id is percent-encoded: a `}` in it would end the hash tag of `onward:{R}` early,
    and the run's keys would land in different slots of a cluster.
    """
    return f"{quote(workflow_id, safe='', errors='surrogatepass')}:{first_run_id}"


def fingerprint(tool: str, input_json: str) -> str:
    """Hex SHA-256 of what a call asks for: canonical JSON of `{tool, input}`.

    Key order and escapes make no difference; the spelling of a number does (`1.0` is not `1.00`),
    because a downstream that reads the literal sees two different requests. Never raises: text that
    is no JSON, or nested deeper than 200, is taken as it stands.
    """
    return hashlib.sha256(_canonical(tool, input_json).encode()).hexdigest()


def idempotency_key(deployment: str, run: str, call: str, fp: str) -> str:
    """Return the key that the downstream sees: `onw_` and 40 characters, under Stripe's 255.

    `run` is R of `run_key`, `call` is like `12.1`, `fp` the call's fingerprint. After a reset
    another decision at the same position has another key: it never gets the first one's answer.
    """
    digest = hashlib.sha256(f"{deployment}|{run}|{call}|{fp}".encode(errors="surrogatepass"))
    return "onw_" + base64.b32encode(digest.digest()).decode()[:40]


def downstream_key(run: RunRef, call: str, fp: str, business: BusinessKey | None) -> str:
    """Return the key of this call, or of all calls that its `key_from` calls the same."""
    whole = run_key(run.workflow_id, run.first_run_id)
    if business is None:
        return idempotency_key(run.deployment, whole, call, fp)
    scope = "" if business.everywhere else whole
    return idempotency_key(run.deployment, scope, business.position, "")


def business_position(tool: str, name: str) -> str:
    """Return where the ledger keeps what `name`, of a tool's `key_from`, asks for."""
    return _KEY + hashlib.sha256(f"{tool}|{name}".encode(errors="surrogatepass")).hexdigest()


def is_business_key(position: str) -> bool:
    """Say whether a position of the ledger is a business key's; others are steps' and calls'."""
    return position.startswith(_KEY)


def shared_hash(deployment: str, position: str) -> str:
    """Return the Redis key of a business key that every run of a deployment recognises.

    No run's hash has this name: the first letter would be percent-encoded in a workflow id.
    """
    digest = hashlib.sha256(f"{deployment}|{position}".encode(errors="surrogatepass")).hexdigest()
    return f"onward:{{={digest}}}"


def _canonical(tool: str, input_json: str) -> str:
    try:
        # Two attempts could otherwise take two fingerprints of one input.
        if json_text.depth(input_json) > _MAX_DEPTH:
            return _sorted({"raw": input_json, "tool": tool})
        return _sorted({"input": json_text.loads(input_json), "tool": tool})
    except ValueError:
        return _sorted({"raw": input_json, "tool": tool})


def _sorted(value: dict[str, object]) -> str:
    # ASCII, so that a lone surrogate stays the escape that it was.
    return simplejson.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
