"""One request by the real client, without a run around it, and what is made of its failure."""

from typing import Any

import pytest
from agent_runs import MODEL

from onward import claude
from onward.claude_errors import Posture
from onward.claude_request import reply_request


def _unheard(*_: Any) -> None:
    """Hear nothing of the reply."""


async def asked(
    url: str,
    prompt: str = "Go.",
    *,
    api_key: str | None = "test",
    progress: claude.Progress = _unheard,
) -> dict[str, Any]:
    """Send a request to a server, and return the whole reply."""
    message = f'{{"role":"user","content":"{prompt}"}}'.encode()
    request = reply_request(f'{{"model":"{MODEL}","max_tokens":9}}', [message])
    async with claude.client(base_url=url, api_key=api_key) as client:
        return await claude.ask(client, request, progress, _unheard)


async def made_of(url: str, prompt: str = "Go.", *, api_key: str | None = "test") -> Posture:
    """Send a request that fails, and return what that means for the next."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  (`posture` says which ones)
        await asked(url, prompt, api_key=api_key)
    posture = claude.posture(caught.value)
    assert posture is not None, caught.value
    return posture
