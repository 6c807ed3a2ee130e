"""A stand-in for a model's HTTP API: the real wire format, replies written down before."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "model-key"


class Model:
    """The requests that came, and where it listens."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[dict[str, Any]] = []


@contextmanager
def model(path: str, replies: list[dict[str, Any]]) -> Iterator[Model]:
    """Answers POSTs to path that have KEY with the replies, in their order."""
    left = list(replies)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            keys = (self.headers.get("Authorization"), self.headers.get("x-api-key"))
            if keys not in ((f"Bearer {KEY}", None), (None, KEY)):
                self.answer(401, {"error": {"type": "authentication_error", "message": "wrong key"}})
            elif self.path != path:
                self.answer(404, {"error": {"type": "not_found_error", "message": f"no {self.path}"}})
            elif not left:
                self.answer(400, {"error": {"type": "invalid_request_error", "message": "no reply is left"}})
            else:
                state.requests.append(body)
                self.answer(200, left.pop(0))

        def answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = Model(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def anthropic(*content: dict[str, Any]) -> dict[str, Any]:
    """A reply of the Messages API."""
    tools = any(block["type"] == "tool_use" for block in content)
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": list(content),
        "stop_reason": "tool_use" if tools else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 10},
    }


def use(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call of the Messages API."""
    return {"type": "tool_use", "id": f"toolu_{number:02}", "name": name, "input": arguments}


def openai(*output: dict[str, Any]) -> dict[str, Any]:
    """A reply of the Responses API."""
    return {
        "id": "resp_01",
        "object": "response",
        "created_at": 1763000000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "gpt-5.1",
        "output": list(output),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 20,
        },
    }


def function_call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call of the Responses API."""
    return {
        "type": "function_call",
        "id": f"fc_{number:02}",
        "call_id": f"call_{number:02}",
        "name": name,
        "arguments": json.dumps(arguments),
        "status": "completed",
    }


def message(text: str) -> dict[str, Any]:
    """A text of the Responses API."""
    return {
        "type": "message",
        "id": "msg_01",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def chat(**said: Any) -> dict[str, Any]:
    """A reply of the Chat Completions API: content, or tool_calls."""
    return {
        "id": "chatcmpl-01",
        "object": "chat.completion",
        "created": 1763000000,
        "model": "gpt-4.1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None, **said},
                "finish_reason": "tool_calls" if "tool_calls" in said else "stop",
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
    }


def chat_call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call of the Chat Completions API."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"type": "function", "id": f"call_{number:02}", "function": function}
