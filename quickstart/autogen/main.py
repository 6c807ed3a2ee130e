"""An agent of AutoGen that runs its Python code in a sandbox: python main.py "your task"."""

import asyncio
import os
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.code_execution import PythonCodeExecutionTool

from sandkasten import SandboxClient
from sandkasten.autogen import SandkastenCodeExecutor

TASK = "Write a Python program that prints the first 10 prime numbers, run it, and tell me what it printed."


async def run(task: str) -> str:
    async with SandboxClient() as client, SandkastenCodeExecutor(client) as executor:
        agent = AssistantAgent(
            "developer",
            model_client=OpenAIChatCompletionClient(model=os.environ.get("MODEL", "gpt-4.1")),
            tools=[PythonCodeExecutionTool(executor)],
            max_tool_iterations=10,
            reflect_on_tool_use=True,
            system_message="Your Python code runs in a Linux sandbox. Its files stay, in /workspace.",
        )
        result = await agent.run(task=task)
        last = result.messages[-1]
        return last.content if isinstance(last, TextMessage) else str(last)


if __name__ == "__main__":
    print(asyncio.run(run(" ".join(sys.argv[1:]) or TASK)))
