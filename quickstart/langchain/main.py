"""An agent of LangChain with tools of your own, in a sandbox: python main.py "your task"."""

import os
import sys

from langchain.agents import create_agent
from langchain_core.tools import BaseTool, tool

from sandkasten import SyncSandboxClient, SyncSession
from sandkasten.agents import cut

TASK = "Write a Python program that prints the first 10 prime numbers, run it, and tell me what it printed."


def sandbox_tools(session: SyncSession) -> list[BaseTool]:
    @tool
    def run(command: str) -> str:
        """Run a shell command. Directory, variables and files stay for the next one."""
        result = session.exec(command, timeout_ms=120_000)
        return f"{cut(result.output)}\n[exit code {result.exit_code}]"

    @tool
    def write_file(path: str, content: str) -> str:
        """Write a text file; relative paths begin at /workspace."""
        session.write(path, content)
        return f"wrote {path}"

    return [run, write_file]


def main(task: str) -> str:
    with SyncSandboxClient() as client, client.create_session(image="python") as session:
        agent = create_agent(
            os.environ.get("MODEL", "anthropic:claude-sonnet-4-5"),
            tools=sandbox_tools(session),
            system_prompt="You work in a Linux sandbox. Its directory for your files is /workspace.",
        )
        result = agent.invoke({"messages": [{"role": "user", "content": task}]})
        for message in result["messages"]:
            for call in getattr(message, "tool_calls", []):
                print(f"> {call['name']} {call['args']}")
        return str(result["messages"][-1].text)


if __name__ == "__main__":
    print(main(" ".join(sys.argv[1:]) or TASK))
