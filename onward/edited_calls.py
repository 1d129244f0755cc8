"""Calls that a person gave another input than Claude's, as their records tell of them."""

from onward.messages import PreparedCall

_EDITED = "with the input that a person gave it"


def as_recorded(call: PreparedCall, fingerprint: str) -> PreparedCall:
    """Describe a call as its record has it, whose fingerprint this is.

    It differs from the reply's only where a person edited the call: then its key and its input are
    known to the histories alone that tell of the approval, and are left out here.
    """
    if fingerprint in {"", call.fingerprint}:
        return call
    asked = {"asked": call.fingerprint, "fingerprint": fingerprint}
    return call.model_copy(update=asked | {"key": "", "summary": _EDITED})
