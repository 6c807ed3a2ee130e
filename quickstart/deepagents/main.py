"""A deep agent of LangChain whose files and commands are in a sandbox: python main.py "your task"."""

import os
import sys

from deepagents import create_deep_agent

from sandkasten import SyncSandboxClient
from sandkasten.deepagents import SandkastenSandbox

TASK = "Write a Python program that prints the first 10 prime numbers, run it, and tell me what it printed."


def run(task: str) -> str:
    with SyncSandboxClient() as client, client.create_session(image="python") as session:
        agent = create_deep_agent(
            model=os.environ.get("MODEL", "anthropic:claude-sonnet-4-5"),
            backend=SandkastenSandbox(session),
            system_prompt="You work in a Linux sandbox. Its directory for your files is /workspace.",
        )
        result = agent.invoke({"messages": [{"role": "user", "content": task}]})
        for message in result["messages"]:
            for call in getattr(message, "tool_calls", []):
                print(f"> {call['name']} {call['args']}")
        return str(result["messages"][-1].text)


if __name__ == "__main__":
    print(run(" ".join(sys.argv[1:]) or TASK))
