"""The key for Claude's API, as far as it can be judged without a request."""

import re

_LIKE_A_KEY = re.compile(r"[!#-&(-~]+")


def key_trouble(key: str) -> str:
    """Say why this cannot be a key, without telling it; empty: it may be one."""
    if not key:
        return "no key for Claude's API"
    if _LIKE_A_KEY.fullmatch(key):
        return ""
    # A line break comes from a secret's file, quotes from an `--env-file` of Docker's.
    return "the key for Claude's API has quotes, a space, a line break or a letter that no key has"
