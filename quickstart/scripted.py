"""Runs a quickstart without a model and its key: python scripted.py python claude/main.py

A small server stands in for the APIs of Anthropic and OpenAI. What it answers is written
below: it calls one tool, which prints the first 10 prime numbers, and repeats the result.
For the data analyst it looks at the data, draws a chart, and repeats the last result.
"""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "scripted"
PROGRAM = "print([n for n in range(2, 30) if all(n % d for d in range(2, n))])"

ANALYSIS = (
    """\
import pandas as pd
sales = pd.read_csv("sales.csv", parse_dates=["month"])
sales.groupby("region")["revenue"].describe()""",
    """\
import matplotlib.pyplot as plt
revenue = sales.pivot(index="month", columns="region", values="revenue")
revenue.plot(title="Revenue by region", ylabel="thousand EUR")
plt.show()
growth = revenue.iloc[-1] / revenue.iloc[0] - 1
f"{growth.idxmax()} grew most, by {growth.max():.0%}\"""",
)


def choose(tools: list[dict[str, Any]], step: int = 0) -> tuple[str, dict[str, str]]:
    """The first tool that runs a command or code, and what it is called with."""
    for tool in tools:
        function = tool.get("function", tool)
        if function["name"] == "run_code":
            return "run_code", {"code": ANALYSIS[step]}
        fields = (function.get("input_schema") or function.get("parameters") or {}).get("properties", {})
        if "command" in fields:
            return function["name"], {"command": f'python3 -c "{PROGRAM}"'}
        if "code" in fields:
            return function["name"], {"code": PROGRAM}
    raise SystemExit("the quickstart has no tool that runs a command")


def result(messages: list[dict[str, Any]]) -> str:
    """What the tool said, or nothing before its call."""
    for message in reversed(messages):
        if message.get("role") == "tool":
            return str(message["content"])
        if message.get("type") == "function_call_output":
            return str(message["output"])
        content = message.get("content")
        for block in content if isinstance(content, list) else []:
            if block.get("type") == "tool_result":
                said = block["content"]
                return said if isinstance(said, str) else "".join(part.get("text", "") for part in said)
    return ""


def anthropic(body: dict[str, Any]) -> dict[str, Any]:
    """Answers as Anthropic's messages do."""
    told = result(body["messages"])
    step = sum(message["role"] == "assistant" for message in body["messages"])
    analyses = any(tool["name"] == "run_code" for tool in body["tools"])
    done = step == len(ANALYSIS) if analyses else bool(told)
    if done:
        content: dict[str, Any] = {
            "type": "text",
            "text": f"The sandbox printed: {told}",
        }
    else:
        name, arguments = choose(body["tools"], step)
        content = {
            "type": "tool_use",
            "id": "toolu_01",
            "name": name,
            "input": arguments,
        }
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [content],
        "stop_reason": "end_turn" if done else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def chat(body: dict[str, Any]) -> dict[str, Any]:
    """Answers as OpenAI's chat completions do."""
    told = result(body["messages"])
    content = f"The sandbox printed: {told}" if told else None
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if not told:
        name, arguments = choose(body["tools"])
        function = {"name": name, "arguments": json.dumps(arguments)}
        message["tool_calls"] = [{"id": "call_01", "type": "function", "function": function}]
    reason = "stop" if told else "tool_calls"
    return {
        "id": "chatcmpl-01",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def responses(body: dict[str, Any]) -> dict[str, Any]:
    """Answers as OpenAI's responses do."""
    asked = body["input"]
    told = result(asked if isinstance(asked, list) else [])
    if told:
        text = {
            "type": "output_text",
            "text": f"The sandbox printed: {told}",
            "annotations": [],
        }
        output: dict[str, Any] = {
            "type": "message",
            "id": "msg_01",
            "role": "assistant",
            "content": [text],
        }
    else:
        name, arguments = choose(body["tools"])
        output = {
            "type": "function_call",
            "id": "fc_01",
            "call_id": "call_01",
            "name": name,
        }
        output["arguments"] = json.dumps(arguments)
    return {
        "id": "resp_01",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": body["model"],
        "output": [{**output, "status": "completed"}],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }


class Model(BaseHTTPRequestHandler):
    """The scripted model, at the paths of its providers."""

    def do_POST(self) -> None:
        """Answers a request by its path."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for end, answer in (
            ("/messages", anthropic),
            ("/chat/completions", chat),
            ("/responses", responses),
        ):
            if self.path.split("?")[0].endswith(end):
                data = json.dumps(answer(body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                return
        self.send_error(404)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def main() -> int:
    """Runs the program that the arguments are, with the model's address in its environment."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    # The client of JavaScript wants the version in the address, that of Python adds it.
    anthropic_url = url if "python" in os.path.basename(sys.argv[1]) else f"{url}/v1"
    env = {
        **os.environ,
        "ANTHROPIC_BASE_URL": anthropic_url,
        "ANTHROPIC_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": KEY,
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }
    return subprocess.run(sys.argv[1:], env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
