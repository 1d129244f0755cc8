"""The process in which `grep` searches; started by `onward.tools.files`, by this file's path.

Arguments: folder, pattern, path. Prints what was found, or says on stderr what is wrong.
"""

import asyncio
import sys


async def search(folder: str, pattern: str, path: str) -> int:
    """Run the SDK's grep and print what it found. Returns the exit code."""
    from anthropic.lib.tools import ToolError, agent_toolset  # noqa: PLC0415  (costs a second)

    context = agent_toolset.AgentToolContext(workdir=folder)
    try:
        found = await agent_toolset.beta_grep_tool(context).call({"pattern": pattern, "path": path})
    except ToolError as error:
        sys.stderr.buffer.write(str(error).encode(errors="replace"))
        return 1
    sys.stdout.buffer.write(str(found).encode(errors="replace"))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(search(*sys.argv[1:])))
