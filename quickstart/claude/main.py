"""Claude with tool use, in a sandbox: python main.py "your task"."""

import asyncio
import os
import sys
from typing import Any

from anthropic import AsyncAnthropic

from sandkasten import SandboxClient
from sandkasten.agents import SandboxTools

TASK = "Write a Python program that prints the first 10 prime numbers, run it, and tell me what it printed."


async def run(task: str) -> str:
    model = AsyncAnthropic()
    async with SandboxClient() as client, await client.create_session(image="python") as session:
        tools = SandboxTools(session)
        messages: list[Any] = [{"role": "user", "content": task}]
        while True:
            reply = await model.messages.create(
                model=os.environ.get("MODEL", "claude-sonnet-4-5"),
                max_tokens=4096,
                tools=tools.anthropic(),
                messages=messages,
            )
            messages.append({"role": "assistant", "content": reply.content})
            if reply.stop_reason != "tool_use":
                return "".join(block.text for block in reply.content if block.type == "text")
            results: list[Any] = []
            for block in reply.content:
                if block.type == "tool_use":
                    print(f"> {block.name} {block.input}")
                    result = await tools.call(block.name, block.input)
                    results.append(
                        {
                            "type": "tool_result",
                            "tool_use_id": block.id,
                            "content": result.text,
                            "is_error": result.is_error,
                        }
                    )
            messages.append({"role": "user", "content": results})


if __name__ == "__main__":
    print(asyncio.run(run(" ".join(sys.argv[1:]) or TASK)))
