"""The prompt cache: what of a request the API has read before, by its documented rules.

An entry is written where a block is marked, if all up to there is long enough. It is found by
looking back from each mark, over 20 blocks with the marked one. It lives five minutes or an hour
after the start of the last request that used it, and all requests made with one key share it.
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching, autumn of 2026)

One rule is stricter than Claude's own endpoint is: there, a run of tool calls or of results counts
as one of the twenty blocks. On other platforms each counts, and so it does here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onward.testing.messages_api.literal_json import Object
from onward.testing.messages_api.prompt import Prefix, prefixes

LOOK_BACK = 20
"""Blocks that are tried for each mark, the marked one included."""
LIFETIMES_S = {"5m": 300.0, "1h": 3600.0}

_MINIMUM_TOKENS = {
    512: ("fable-5", "mythos-5", "opus-5", "sonnet-5-5", "haiku-5-5"),
    2048: ("mythos-preview", "opus-4-7"),
    4096: ("opus-4-6", "opus-4-5", "haiku-4-5"),
}
"""By how a model's id begins after `claude-`."""
_USUAL_MINIMUM = 1024


def minimum_tokens(model: str) -> int:
    """Return how long a prefix must be; the mark of a shorter one has no effect."""
    name = model.removeprefix("claude-")
    fits = (least for least, names in _MINIMUM_TOKENS.items() if name.startswith(names))
    return next(fits, _USUAL_MINIMUM)


@dataclass(frozen=True)
class Reading:
    """What of one request's prompt is in the cache, what is written to it, and what is neither."""

    began_s: float
    hit: Prefix | None
    marked: Sequence[Prefix]
    tokens: int
    """Of the whole prompt."""

    @property
    def usage(self) -> Object:
        """The counters of a reply's `usage` that tell of its prompt."""
        read = self.hit.tokens if self.hit else 0
        an_hour = max(read, *(p.tokens for p in self.marked if _lifetime(p) == "1h"), 0)
        ends = max(an_hour, *(p.tokens for p in self.marked), 0)
        return {
            "input_tokens": self.tokens - ends,
            "cache_creation_input_tokens": ends - read,
            "cache_read_input_tokens": read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": ends - an_hour,
                "ephemeral_1h_input_tokens": an_hour - read,
            },
        }


@dataclass
class _Entry:
    lifetime_s: float
    until_s: float = 0.0

    def used(self, now_s: float) -> None:
        """Live on from the start of a request that read or wrote this."""
        self.until_s = max(self.until_s, now_s + self.lifetime_s)


class PrefixCache:
    """The entries of one server. `clock` tells seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries = dict[str, _Entry]()

    def read(self, key: str, body: Object) -> Reading:
        """Look a request up; nothing is kept before the reply begins."""
        now_s, prompt = self._clock(), prefixes(key, body)
        least = minimum_tokens(str(body["model"]))
        places = [n for n, p in enumerate(prompt) if p.mark and p.tokens >= least]
        return Reading(
            began_s=now_s,
            hit=self._hit(prompt, places, now_s),
            marked=[prompt[place] for place in places],
            tokens=prompt[-1].tokens,
        )

    def _hit(self, prompt: Sequence[Prefix], places: Sequence[int], now_s: float) -> Prefix | None:
        for place in reversed(places):
            for prefix in reversed(prompt[max(0, place + 1 - LOOK_BACK) : place + 1]):
                if self._alive(prefix, now_s):
                    return prefix
        return None

    def keep(self, reading: Reading) -> None:
        """Write what the request marked, and let what it read live on. The reply has begun."""
        for prefix in reading.marked:
            self._write(prefix, reading.began_s)
        if reading.hit and (entry := self._alive(reading.hit, reading.began_s)):
            entry.used(reading.began_s)

    def _write(self, prefix: Prefix, now_s: float) -> None:
        entry = self._alive(prefix, now_s) or _Entry(LIFETIMES_S[_lifetime(prefix)])
        entry.used(now_s)
        self._entries[prefix.digest] = entry

    def _alive(self, prefix: Prefix, now_s: float) -> _Entry | None:
        entry = self._entries.get(prefix.digest)
        return entry if entry and entry.until_s >= now_s else None


def _lifetime(prefix: Prefix) -> str:
    return str((prefix.mark or {}).get("ttl") or "5m")
