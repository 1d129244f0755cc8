"""The contender `bare_client`: a loop and a list, and nothing that survives.

ANTHROPIC_BASE_URL=… python -m benchmarks.bare_loop PROMPT     # prints {"seconds": …}
"""

import asyncio
import json
import sys
import time
from typing import Any, cast

from anthropic import AsyncAnthropic

from benchmarks.work import MAX_TOKENS, MODEL, SYSTEM, page, tool_definitions


async def converse(prompt: str) -> None:
    """Ask Claude and run the tool until Claude has nothing more to do."""
    messages: list[Any] = [{"role": "user", "content": prompt}]
    async with AsyncAnthropic(max_retries=0) as client:
        while messages[-1]["role"] == "user":
            reply = await client.messages.create(
                model=MODEL,
                max_tokens=MAX_TOKENS,
                system=SYSTEM,
                messages=messages,
                tools=cast("Any", tool_definitions()),
            )
            messages.append({"role": "assistant", "content": reply.content})
            if results := [
                {
                    "type": "tool_result",
                    "tool_use_id": block.id,
                    "content": page(**cast("dict[str, int]", block.input)),
                }
                for block in reply.content
                if block.type == "tool_use"
            ]:
                messages.append({"role": "user", "content": results})


def main() -> None:
    """Run the conversations and say how long the last one took."""
    warm_up, prompt = sys.argv[1:]
    asyncio.run(converse(warm_up))
    began = time.perf_counter()
    asyncio.run(converse(prompt))
    sys.stdout.write(json.dumps({"seconds": time.perf_counter() - began}) + "\n")


if __name__ == "__main__":
    main()
