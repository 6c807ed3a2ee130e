"""An agent of the OpenAI Agents SDK, in a sandbox: python main.py "your task"."""

import asyncio
import json
import os
import sys
from typing import Any

from agents import Agent, FunctionTool, Runner

from sandkasten import SandboxClient
from sandkasten.agents import SandboxTools, Tool

TASK = "Write a Python program that prints the first 10 prime numbers, run it, and tell me what it printed."


def function_tool(tools: SandboxTools, tool: Tool) -> FunctionTool:
    async def invoke(context: Any, arguments: str) -> str:
        print(f"> {tool.name} {arguments}")
        return (await tools.call(tool.name, json.loads(arguments))).text

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


async def run(task: str) -> str:
    async with SandboxClient() as client, await client.create_session(image="python") as session:
        tools = SandboxTools(session)
        agent = Agent(
            name="Developer",
            instructions="You work in a Linux sandbox. Its directory for your files is /workspace.",
            model=os.environ.get("MODEL", "gpt-5.1"),
            tools=[function_tool(tools, tool) for tool in tools.tools],
        )
        result = await Runner.run(agent, task)
        return str(result.final_output)


if __name__ == "__main__":
    print(asyncio.run(run(" ".join(sys.argv[1:]) or TASK)))
