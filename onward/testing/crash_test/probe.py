"""How often did the effect happen? The user's probe says: a function, a URL or a command."""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from onward.errors import UsageError
from onward.managed_process import wait_until
from onward.testing.crash_test.loading import SPEC, load
from onward.testing.crash_test.unique import UNIQUE, filled

ProbeFunction = Callable[[dict[str, Any]], Any]
"""Gets the trial's input and returns how many effects it had so far; sync or async."""
_Ask = Callable[[Mapping[str, Any], str], Awaitable[object]]

_ANSWER_S = 30.0
_QUIET_S = 0.4
_QUIET_DEADLINE_S = 30.0
_NUMBER = re.compile(r"\d{1,18}")


class Probe:
    """Counts the effects of one input. Raises UsageError for an answer that is no number."""

    def __init__(self, source: ProbeFunction | str) -> None:
        self._name, self._ask = _asking(source)

    async def count(self, given: Mapping[str, Any], unique: str) -> int:
        """Return how many effects this input had so far."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                answer = await self._ask(given, unique)
        except UsageError:
            raise
        except Exception as error:  # the user's code, or whatever urllib raises
            raise UsageError(f"{self._name} failed: {type(error).__name__}: {error}") from error
        return self._number(answer)

    async def settled(self, given: Mapping[str, Any], unique: str) -> int:
        """Count once nothing is under way any more: as soon as the count stands still.

        Raises UsageError as `count`, and where it never does.
        """
        seen, since = await self.count(given, unique), asyncio.get_running_loop().time()

        async def quiet() -> bool:
            nonlocal seen, since
            now, before = asyncio.get_running_loop().time(), seen
            seen = await self.count(given, unique)
            since = now if seen != before else since
            return now - since > _QUIET_S

        try:
            await wait_until(quiet, _QUIET_DEADLINE_S)
        except TimeoutError as error:
            raise UsageError(
                f"{self._name} still changed {_QUIET_DEADLINE_S:g} s after the call (now {seen}); "
                "a probe counts the effects of one input, or of this test alone"
            ) from error
        return seen

    def _number(self, answer: object) -> int:
        if isinstance(answer, int) and not isinstance(answer, bool) and answer >= 0:
            return answer
        text = answer.decode(errors="replace").strip() if isinstance(answer, bytes) else None
        if text is not None and _NUMBER.fullmatch(text):
            return int(text)
        shown = repr(answer if text is None else text)[:200]
        raise UsageError(
            f"{self._name} answered {shown}, but a probe answers with one whole number: how often "
            "the effect of this input has happened"
        )


def _asking(source: ProbeFunction | str) -> tuple[str, _Ask]:
    if not isinstance(source, str):
        return f"probe {getattr(source, '__name__', source)!r}", _of_function(source)
    if source.startswith(("http://", "https://")):
        return f"probe {source!r}", _of_url(source)
    if not SPEC.fullmatch(source):
        return f"probe command {source!r}", _of_command(source)
    function = load(source)
    if not callable(function):
        raise UsageError(f"probe {source!r} is {function!r}; name a function of the tool's input")
    return f"probe {source!r}", _of_function(function)


def _of_function(function: ProbeFunction) -> _Ask:
    async def ask(given: Mapping[str, Any], _unique: str) -> object:
        # On a thread: it may block, and this loop serves the scripted Claude.
        found = await asyncio.to_thread(function, dict(given))
        return await found if inspect.isawaitable(found) else found

    return ask


def _of_url(template: str) -> _Ask:
    def get(url: str) -> bytes:
        with urlopen(url, timeout=_ANSWER_S) as reply:  # noqa: S310  (http and https only, above)
            found: bytes = reply.read()
        return found

    async def ask(_given: Mapping[str, Any], unique: str) -> object:
        return await asyncio.to_thread(get, template.replace(UNIQUE, unique))

    return ask


def _of_command(template: str) -> _Ask:
    async def ask(_given: Mapping[str, Any], unique: str) -> object:
        process = await asyncio.create_subprocess_shell(
            filled(template, unique),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=Path.cwd(),
        )
        out, err = await process.communicate()
        if process.returncode:
            said = err.decode(errors="replace").strip()[-300:]
            raise UsageError(f"probe command {template!r} ended with {process.returncode}: {said}")
        return out

    return ask
