"""A daemon that answers as it was told to, for what a real one does too seldom or too slowly."""

from __future__ import annotations

import json
from typing import Any

import httpx
from test_transport import SESSION

LIMIT_MS = 600_000
LIMITS = {
    "command_bytes": 1,
    "file_bytes": 1,
    "limits": {},
    "output_bytes": 1,
    "read_bytes": 1,
    "timeout_ms": LIMIT_MS,
    "ttl_seconds": 1,
    "upload_bytes": 1,
    "write_bytes": 1,
}
DEFAULTS = {
    "idle_timeout_seconds": 1,
    "image": "base",
    "limits": {},
    "network_mode": "none",
    "readonly_rootfs": False,
    "stopped_retention_seconds": 1,
    "timeout_ms": 120_000,
    "ttl_seconds": 1,
}
INFO = {
    "api": "v1",
    "defaults": DEFAULTS,
    "driver": "native",
    "drivers": ["native"],
    "limits": LIMITS,
    "version": "1",
}


def process(**differs: Any) -> tuple[int, dict[str, Any]]:
    """The answer of a process that has ended."""
    ended = {
        "dropped_bytes": 0,
        "duration_ms": 1,
        "exec_id": "e1",
        "exit_code": 0,
        "output_bytes": 0,
        "status": "completed",
        "stderr": "",
        "stdout": "",
        "timed_out": False,
        "truncated": False,
    }
    return 200, {**ended, **differs}


def refusal(status: int, code: str) -> tuple[int, dict[str, Any]]:
    """An answer that is an error."""
    return status, {"error": f"why it is {code}", "code": code}


class Scripted(httpx.MockTransport):
    """Answers for the paths below a session, and keeps what was asked: the path and the body."""

    def __init__(self, **answers: tuple[int, dict[str, Any]]) -> None:
        super().__init__(self._answer)
        self._answers = answers
        self.asked: list[tuple[str, Any]] = []

    def bodies(self, path: str) -> list[Any]:
        """What was sent to a path."""
        return [body for asked, body in self.asked if asked == path]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/v1/").removeprefix(f"sessions/{SESSION['id']}/")
        kind = request.headers.get("Content-Type", "")
        self.asked.append((path, json.loads(request.content) if kind == "application/json" else None))
        known = {"info": (200, INFO), "sessions": (201, SESSION), **self._answers}
        status, body = known.get(path.replace("/", "_"), (200, {"ok": True}))
        return httpx.Response(status, json=body)
