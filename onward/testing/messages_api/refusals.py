"""Error replies in the documented shape."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from aiohttp import web

from onward.testing.messages_api.journal import Entry
from onward.testing.messages_api.literal_json import Object, dumps


class Violation(NamedTuple):
    """Why a request is refused."""

    name: str
    """Short, for the journal."""
    message: str
    """As the API words it."""
    status: int = 400


ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}

MESSAGES = {
    429: "This request would exceed your organization's rate limit of 8,000 output tokens per "
    "minute. For details, refer to: https://docs.claude.com/en/api/rate-limits.",
    500: "Internal server error",
    503: "Service unavailable",
    529: "Overloaded",
}
"""What a scripted refusal says if the script does not."""

NO_KEY = Violation("key", "x-api-key header is required", 401)
WRONG_KEY = Violation("key", "invalid x-api-key", 401)
TOO_LARGE = Violation("too_large", "Request exceeds the maximum size", 413)


def request_id(salt: str) -> str:
    """Return the request id that goes with `salt`."""
    return f"req_01{hashlib.sha256(salt.encode()).hexdigest()[:22]}"


def error_body(error: Object, salt: str) -> str:
    """Return the JSON text of an error reply."""
    return dumps({"type": "error", "error": error, "request_id": request_id(salt)})


def response(violation: Violation, salt: str = "") -> web.Response:
    """Return the reply that refuses for `violation`."""
    kind = ERROR_TYPES[violation.status]
    text = error_body({"type": kind, "message": violation.message}, salt)
    headers = {"request-id": request_id(salt), "x-should-retry": "false"}
    return web.Response(
        status=violation.status, text=text, content_type="application/json", headers=headers
    )


def refuse(entry: Entry, violations: Sequence[Violation]) -> web.Response:
    """Record all violations and return the reply that names the first."""
    first = violations[0]
    entry.violations = [violation.name for violation in violations]
    entry.status = first.status
    entry.outcome = f"{first.status} {first.message}"
    return response(first, entry.body_sha256)
