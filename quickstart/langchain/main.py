"""An agent of LangChain with a tool of its own that uses a sandbox: python main.py "your task"."""

import os
import sys

from langchain.agents import create_agent
from langchain.tools import BaseTool, tool

from sandkasten import SyncSandboxClient, SyncSession

TASK = "Write a Python program that prints the first 10 prime numbers, run it, and tell me what it printed."


def python_tool(session: SyncSession) -> BaseTool:
    @tool
    def run_python(code: str) -> str:
        """Run a Python program in a sandbox. Files in /workspace stay there for the next one."""
        print(f"> run_python {code}")
        session.write("main.py", code)
        done = session.exec("python3 main.py", timeout_ms=60_000)
        return f"{done.output}\n[exit code {done.exit_code}, {done.cause}]"

    return run_python


def run(task: str) -> str:
    with SyncSandboxClient() as client, client.create_session(image="python") as session:
        agent = create_agent(
            model=os.environ.get("MODEL", "anthropic:claude-sonnet-4-5"),
            tools=[python_tool(session)],
            system_prompt="You write Python programs and run them.",
        )
        result = agent.invoke({"messages": [{"role": "user", "content": task}]})
        return str(result["messages"][-1].text)


if __name__ == "__main__":
    print(run(" ".join(sys.argv[1:]) or TASK))
