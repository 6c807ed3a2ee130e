"""What is sent, how often, and what becomes of the answers; without a daemon."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

import sandkasten
from sandkasten import _core

SESSION = {
    "id": "f5q2bz7lq4m3k5n6p7r2s3t4u5",
    "driver": "native",
    "image": "base",
    "status": "running",
    "cwd": "/workspace",
    "limits": {"memory_mb": 512},
    "network_mode": "none",
    "network": {"mode": "none"},
    "readonly_rootfs": False,
    "ttl_seconds": 1800,
    "stopped_retention_seconds": 604800,
    "on_idle": "destroy",
    "auto_resume": True,
    "created_at": "2026-11-21T09:00:00Z",
    "expires_at": "2026-11-21T09:30:00.123456789Z",
    "last_activity": "2026-11-21T09:00:00Z",
    "a_field_of_a_later_version": {"x": 1},
}
SNAPSHOT = {
    "id": "k5n6p7r2s3t4u5f5q2bz7lq4m3",
    "owner": "admin",
    "session_id": SESSION["id"],
    "scope": "workspace",
    "image": "base",
    "image_digest": "sha256:0",
    "cwd": "/workspace",
    "files": 3,
    "file_bytes": 4,
    "size_bytes": 5,
    "created_at": "2026-11-21T09:00:00Z",
}
STATS = {
    "memory_bytes": 1,
    "memory_peak": 1,
    "memory_limit": 1,
    "cpu_usage_usec": 1,
    "cpu_limit": 1,
    "pids": 1,
    "pids_limit": 1,
    "disk_bytes": 1,
    "disk_limit": 1,
    "files": 1,
    "files_limit": 1,
    "oom_kills": 0,
}
TIME = "2026-11-21T09:00:00Z"
USER = {
    "name": "dora",
    "role": "user",
    "state": "disabled",
    "has_password": False,
    "inspect": False,
    "images": "none",
    "created_at": TIME,
}
KEY = {"id": "k1", "user": "dora", "scope": "run", "created_at": TIME, "expires_at": "2026-11-21T10:00:00Z"}
SECRET = {"name": "git", "hosts": ["a.example.org"], "shared": False, "created_at": TIME, "updated_at": TIME}
UNAVAILABLE = {"error": "the daemon is starting", "code": "unavailable"}

Answer = Callable[[httpx.Request], httpx.Response] | httpx.Response | Exception


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """No test waits between tries; the pauses that were asked for are counted."""
    asked: list[float] = []
    real = _core.delay

    def delay(attempt: int, err: Any = None) -> float:
        asked.append(real(attempt, err))
        return 0.0

    monkeypatch.setattr(_core, "delay", delay)
    return asked


class Daemon(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Gives the answers in their order, and keeps the requests."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        return self._answer(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        await anyio.sleep(0)  # where a cancelled task notices
        return self._answer(request)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer


class Broken(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body whose connection breaks behind the pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    def __iter__(self) -> Any:
        yield from self.pieces
        raise httpx.ReadError("connection reset")

    async def __aiter__(self) -> Any:
        for piece in self.pieces:
            yield piece
        raise httpx.ReadError("connection reset")


async def piece_by_piece(*pieces: bytes) -> Any:
    for piece in pieces:
        yield piece


def error(status: int, body: Any, **headers: str) -> httpx.Response:
    return httpx.Response(status, json=body, headers=headers)


def connect(side: Any, daemon: Daemon, **options: Any) -> Any:
    return side.client("http://daemon:8787", "key", transport=daemon, **options)


def session(side: Any, daemon: Daemon, **options: Any) -> Any:
    daemon.answers.insert(0, httpx.Response(201, json=SESSION))
    made = side.call(connect(side, daemon, **options).create_session, image="base")
    daemon.requests.clear()
    return made


def test_create_is_repeated_with_the_same_key(side: Any, fast: list[float]) -> None:
    daemon = Daemon(
        httpx.ReadError("lost"),
        error(503, UNAVAILABLE, **{"Retry-After": "7"}),
        httpx.Response(201, json=SESSION),
    )
    made = side.call(connect(side, daemon).create_session, image="base", ttl_seconds=60)
    assert made.id == SESSION["id"]
    assert len({r.headers["Idempotency-Key"] for r in daemon.requests}) == 1
    assert [json.loads(r.content) for r in daemon.requests] == [{"image": "base", "ttl_seconds": 60}] * 3
    assert daemon.requests[0].headers["Authorization"] == "Bearer key"
    assert fast[1] == 7, "the pause that the daemon asked for"


def test_two_creates_have_two_keys(side: Any) -> None:
    daemon = Daemon(httpx.Response(201, json=SESSION), httpx.Response(201, json=SESSION))
    client = connect(side, daemon)
    side.call(client.create_session)
    side.call(client.create_session)
    assert len({r.headers["Idempotency-Key"] for r in daemon.requests}) == 2


@pytest.mark.parametrize(
    ("answer", "tries", "raised"),
    [
        (httpx.ReadError("lost"), 1, sandkasten.APIConnectionError),
        (httpx.ReadTimeout("late"), 1, sandkasten.APITimeoutError),
        (httpx.ConnectError("refused"), 3, sandkasten.APIConnectionError),
        ((503, UNAVAILABLE), 1, sandkasten.UnavailableError),
        ((429, {"error": "slow down", "code": "resource_exhausted"}), 3, sandkasten.RateLimitError),
        (
            (429, {"error": "4 of 4 cores", "code": "resource_exhausted", "reason": "quota_exceeded"}),
            1,
            sandkasten.RateLimitError,
        ),
        ((400, {"error": "no", "code": "invalid_argument"}), 1, sandkasten.InvalidArgumentError),
    ],
)
def test_a_command_is_sent_again_only_if_it_did_not_run(
    side: Any, answer: Any, tries: int, raised: type[Exception]
) -> None:
    daemon = Daemon()
    machine = session(side, daemon, retry_seconds=0)
    daemon.answers = [error(*answer) if isinstance(answer, tuple) else answer for _ in range(tries)]
    with pytest.raises(raised):
        side.call(machine.exec, "make")
    assert len(daemon.requests) == tries


def test_a_wait_that_is_too_long_is_not_waited_for(side: Any, fast: list[float]) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    fast.clear()
    daemon.answers = [error(429, {"error": "no", "code": "resource_exhausted"}, **{"Retry-After": "3600"})]
    with pytest.raises(sandkasten.RateLimitError) as caught:
        side.call(machine.exec, "make")
    assert (caught.value.retry_after, len(daemon.requests), fast) == (3600, 1, [])


def test_a_snapshot_is_of_all_files_or_of_those_that_the_driver_can_tell(side: Any) -> None:
    daemon = Daemon()
    made = session(side, daemon)
    daemon.answers += [httpx.Response(201, json=SNAPSHOT)] * 2
    side.call(made.snapshot)
    side.call(made.snapshot, name="n", scope="sandbox")
    assert [json.loads(request.content) for request in daemon.requests] == [
        {"scope": "sandbox", "fallback": "workspace"},
        {"name": "n", "scope": "sandbox"},
    ]


def test_a_read_is_repeated_when_its_body_breaks(side: Any) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    daemon.answers = [httpx.Response(200, stream=Broken(b'{"ca')), httpx.Response(200, json=SESSION)]
    assert side.call(machine.refresh).status == "running"


def test_errors_have_all_that_the_daemon_says(side: Any) -> None:
    body = {"error": "ttl_seconds must be at least 1", "code": "invalid_argument", "field": "ttl_seconds"}
    daemon = Daemon(error(400, {**body, "request_id": "R"}, **{"Retry-After": "3"}))
    with pytest.raises(sandkasten.InvalidArgumentError, match="at least 1") as caught:
        side.call(connect(side, daemon).create_session, ttl_seconds=0)
    err = caught.value
    assert (err.status, err.code, err.field, err.request_id, err.retry_after) == (
        400,
        "invalid_argument",
        "ttl_seconds",
        "R",
        3.0,
    )


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ((502, b"<html>"), sandkasten.APIError, "not Sandkasten's"),
        ((418, b'{"error": "new", "code": "a_later_code"}'), sandkasten.APIError, "new"),
        ((200, b"<html>"), sandkasten.ProtocolError, "no JSON"),
        ((200, b'{"id": "x"}'), sandkasten.ProtocolError, "no SessionInfo"),
        ((200, b"[]"), sandkasten.ProtocolError, "no SessionInfo"),
    ],
)
def test_answers_that_are_not_ours(
    side: Any, answer: tuple[int, bytes], kind: type[Exception], text: str
) -> None:
    daemon = Daemon(httpx.Response(answer[0], content=answer[1]))
    with pytest.raises(kind, match=text):
        side.call(connect(side, daemon, max_retries=0).get_session, "x")


def test_a_redirect_is_not_followed_with_the_key(side: Any) -> None:
    there = httpx.Response(307, headers={"Location": "http://elsewhere/"}, content=b"there")
    daemon = Daemon(there, there)
    machine = session(side, daemon)
    answer = side.call(machine.ports.fetch, 80)
    assert (answer.status_code, answer.content) == (307, b"there")
    with pytest.raises(sandkasten.APIError) as caught:
        side.call(machine.refresh)
    assert caught.value.status == 307
    assert [request.url.host for request in daemon.requests] == ["daemon", "daemon"]


def event(name: str, event_id: str | None, data: dict[str, Any]) -> bytes:
    head = f"id: {event_id}\n" if event_id else ""
    return f"event: {name}\n{head}data: {json.dumps(data)}\n\n".encode()


START = event("start", "e1:0", {"exec_id": "e1"})
END = {"exit_code": 3, "cwd": "/tmp", "duration_ms": 5, "exec_id": "e1", "cause": "exited"}


def chunk(text: str, offset: int) -> bytes:
    return event(
        "chunk",
        f"e1:{offset}",
        {"chunk": text, "timestamp": 1795251600001, "time": "2026-11-21T09:00:00.001Z"},
    )


def test_a_stream_goes_on_where_it_broke(side: Any) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    daemon.answers = [
        httpx.Response(200, stream=Broken(START + chunk("a", 1), chunk("b", 2), chunk("lost", 6)[:-1])),
        httpx.ConnectError("the daemon restarts"),
        httpx.Response(200, stream=Broken(b": alive\n\n")),
        httpx.Response(200, content=chunk("c", 3) + event("done", "e1:end", END)),
    ]
    stream = machine.exec_stream("make", raw_output=True)
    assert [piece.text for piece in side.drain(stream)] == ["a", "b", "c"]
    assert (stream.result.exit_code, stream.exec_id) == (3, "e1")
    again = daemon.requests[-1]
    assert again.method == "GET" and again.url.path.endswith("/execs/e1/stream")
    assert again.headers["Last-Event-ID"] == "e1:2" and again.url.params["raw_output"] == "true"


def test_a_stream_outlives_a_restart(side: Any, fast: list[float]) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    daemon.answers = [
        httpx.Response(200, stream=Broken(START + chunk("a", 1))),
        *(httpx.ConnectError("nothing listens") for _ in range(8)),
        *(error(503, UNAVAILABLE) for _ in range(8)),
        httpx.Response(200, content=chunk("b", 2) + event("done", "e1:end", END)),
    ]
    assert [piece.text for piece in side.drain(machine.exec_stream("make"))] == ["a", "b"]
    assert fast


def test_reads_outlive_a_restart_for_a_time(
    side: Any, fast: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    daemon.answers = [*(error(503, UNAVAILABLE) for _ in range(8)), httpx.Response(200, json=SESSION)]
    side.call(machine.refresh)
    clock = iter(range(0, 10_000, 7))
    monkeypatch.setattr("sandkasten._core.monotonic", lambda: next(clock))
    daemon.answers = [error(503, UNAVAILABLE) for _ in range(9)]
    with pytest.raises(sandkasten.UnavailableError):
        side.call(machine.refresh)
    assert 2 < len(daemon.answers) < 7  # it gave up after 30 s, and not before the second repetition


@pytest.mark.parametrize("verb", ["update", "heartbeat", "pause", "resume", "stop", "start"])
def test_what_may_be_asked_again_outlives_a_restart(side: Any, fast: list[float], verb: str) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    daemon.answers = [
        httpx.ReadError("cut"),
        *(error(503, UNAVAILABLE) for _ in range(8)),
        httpx.Response(200, json=SESSION),
    ]
    side.call(getattr(machine, verb))
    assert not daemon.answers


def test_a_signal_is_sent_once(side: Any) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    process = machine.processes.get("e1")
    daemon.answers = [httpx.ReadError("cut"), httpx.Response(200, json={"ok": True})]
    side.call(process.kill)
    assert not daemon.answers
    daemon.answers = [httpx.ReadError("cut")]
    with pytest.raises(sandkasten.APIConnectionError):
        side.call(process.signal, "USR1")


def test_a_wrong_address_is_told_soon(side: Any, fast: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Daemon(*(httpx.ConnectError("nothing listens") for _ in range(9)))
    clock = iter(range(100))
    monkeypatch.setattr("sandkasten._core.monotonic", lambda: next(clock))
    with pytest.raises(sandkasten.APIConnectionError, match="http://daemon:8787/v1/sessions/x: nothing"):
        side.call(connect(side, daemon).get_session, "x")
    assert len(daemon.answers) == 5  # after 3 s


def test_a_deletion_whose_answer_is_lost_has_succeeded(side: Any, fast: list[float]) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    gone = error(404, {"error": "no such session", "code": "not_found"})
    daemon.answers = [httpx.ReadError("cut"), gone]
    side.call(machine.destroy)
    for first in (
        httpx.ConnectError("nothing listens"),
        error(429, {"error": "slow down", "code": "resource_exhausted"}),
    ):
        daemon.answers = [first, gone]  # the first was not carried out
        with pytest.raises(sandkasten.NotFoundError):
            side.call(machine.destroy)
    daemon.answers = [gone]
    with pytest.raises(sandkasten.NotFoundError):
        side.call(machine.destroy)


def test_archives_are_bytes_and_streams(side: Any) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    daemon.answers = [httpx.Response(200, content=b"tar") for _ in range(2)]
    assert side.call(machine.read_archive, "src", format="tar") == b"tar"
    assert b"".join(side.drain(machine.archive_stream("src"))) == b"tar"
    unpacked = {"files": 1, "bytes": 3}
    daemon.answers = [httpx.Response(200, json=unpacked), httpx.Response(200, json=unpacked)]
    assert side.call(machine.write_archive, b"tar", "dst", format="tar").files == 1
    pieces = (b"t", b"ar")
    data: Any = piece_by_piece(*pieces) if side.client is sandkasten.SandboxClient else iter(pieces)
    assert side.call(machine.write_archive, data, "dst", size=3).bytes == 3
    assert [r.headers["Content-Length"] for r in daemon.requests[-2:]] == ["3", "3"]
    with pytest.raises(TypeError, match="size"):
        side.call(machine.write_archive, data, "dst")


def test_a_stream_gives_up_where_nothing_moves(side: Any) -> None:
    daemon = Daemon()
    machine = session(side, daemon, max_retries=1, retry_seconds=0)
    daemon.answers = [
        httpx.Response(200, content=START),
        *(httpx.Response(200, content=b"") for _ in range(2)),
    ]
    with pytest.raises(sandkasten.APIConnectionError, match="ended before the command"):
        side.drain(machine.exec_stream("make"))
    assert not daemon.answers


def test_a_command_whose_start_is_not_known_is_not_started_again(side: Any) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    daemon.answers = [httpx.Response(200, stream=Broken())]
    with pytest.raises(sandkasten.APIConnectionError):
        side.drain(machine.exec_stream("make"))
    assert len(daemon.requests) == 1


def test_an_error_in_a_stream_is_raised(side: Any) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    failure = event("error", None, {"error": "gone", "code": "conflict"})
    daemon.answers = [httpx.Response(200, content=START + failure)]
    stream = machine.exec_stream("make")
    with pytest.raises(sandkasten.ConflictError, match="gone"):
        side.drain(stream)
    with pytest.raises(RuntimeError):
        _ = stream.result


def test_a_watch_says_that_it_missed_something(side: Any) -> None:
    daemon = Daemon()
    machine = session(side, daemon, max_retries=0)
    ready = event("ready", None, {})
    daemon.answers = [
        httpx.Response(200, stream=Broken(ready, event("create", None, {"path": "a", "type": "file"}))),
        httpx.Response(200, content=ready + event("rename", None, {"path": "b", "from": "a"})
                       + event("error", None, {"error": "ended", "code": "conflict"})),
    ]  # fmt: skip
    changes = []
    watch = machine.watch("src")
    with pytest.raises(sandkasten.ConflictError):
        side.call(collect_async if side.client is sandkasten.SandboxClient else collect, watch, changes)
    assert [(c.kind, c.path, c.origin) for c in changes] == [
        ("create", "a", None),
        ("overflow", "", None),
        ("rename", "b", "a"),
    ]


NETWORK = {"mode": "allow", "allow": ["a.example.org"]}


def test_the_network_is_asked_for_changed_and_kept_in_info(side: Any, fast: list[float]) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    lost = httpx.ReadError("lost")
    opened = {**NETWORK, "allow": ["a.example.org", "b.example.org", "@pip"]}
    daemon.answers = [
        httpx.Response(200, json={"mode": "none"}),
        lost,
        httpx.Response(200, json=NETWORK),
        lost,
        httpx.Response(200, json=opened),
    ]
    assert side.call(machine.network).mode == "none"
    assert side.call(machine.set_network, NETWORK).allow == ["a.example.org"]
    assert (machine.info.network_mode, machine.info.network.allow) == ("allow", ["a.example.org"])
    assert side.call(machine.allow_network, "b.example.org", "@pip").allow[1:] == ["b.example.org", "@pip"]
    assert machine.info.network.allow == opened["allow"]
    asked = [(r.method, r.url.path.partition(SESSION["id"])[2], r.content) for r in daemon.requests]
    assert [(method, path) for method, path, _ in asked] == [
        ("GET", "/network"),
        *[("PUT", "/network")] * 2,
        *[("POST", "/network/allow")] * 2,
    ]
    assert json.loads(asked[1][2]) == NETWORK
    assert json.loads(asked[3][2]) == {"entries": ["b.example.org", "@pip"]}


def test_create_asks_for_a_network(side: Any) -> None:
    secret = {"name": "TOKEN", "hosts": ["a.example.org"], "header": "Authorization", "value": "Bearer x"}
    asked = {**NETWORK, "max_mbit": 10, "secrets": [secret]}
    shown = {**NETWORK, "secrets": [{"name": "TOKEN", "hosts": ["a.example.org"], "placeholder": "p"}]}
    daemon = Daemon(httpx.Response(201, json={**SESSION, "network_mode": "allow", "network": shown}))
    made = side.call(connect(side, daemon).create_session, network=asked)
    assert json.loads(daemon.requests[0].content) == {"network": asked}
    assert (made.info.network.allow, made.info.network.secrets[0].placeholder) == (["a.example.org"], "p")


def test_a_network_that_was_told_can_be_changed_and_given_back(side: Any) -> None:
    hosts = ["a.example.org"]
    told = [
        {"name": "A", "hosts": hosts, "header": "X-A", "placeholder": "p"},
        {"name": "B", "hosts": hosts, "header": "X-B", "placeholder": "q", "stored": "git"},
    ]
    daemon = Daemon()
    machine = session(side, daemon)
    shown = {**NETWORK, "max_mbit": 5, "secrets": told}
    daemon.answers = [httpx.Response(200, json=shown), httpx.Response(200, json=shown)]
    network = side.call(machine.network)
    side.call(machine.set_network, dataclasses.replace(network, deny=["b.example.org"]))
    assert json.loads(daemon.requests[-1].content) == {
        **NETWORK,
        "deny": ["b.example.org"],
        "max_mbit": 5,
        "secrets": [{"name": "A", "hosts": hosts, "header": "X-A"}, {"name": "B", "stored": "git"}],
    }


def test_a_quiet_log_that_stood_for_long_made_progress(
    side: Any, fast: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    clock = iter(range(0, 10_000, 31))
    for module in ("_core", "_async.streams", "_sync.streams"):
        monkeypatch.setattr(f"sandkasten.{module}.monotonic", lambda: next(clock))
    quiet = [httpx.Response(200, stream=Broken(b": alive\n\n")) for _ in range(9)]
    daemon.answers = [*quiet, httpx.Response(200, content=event("done", None, {}))]
    assert side.drain(machine.follow_network_log()) == []
    assert not daemon.answers


def denied(seq: int, name: str) -> bytes:
    return event("network", str(seq), decision(seq, name))


def decision(seq: int, name: str) -> dict[str, Any]:
    why = f"no entry of allow names {name}"
    shown = {"op": "resolve", "name": name, "allowed": False, "why": why, "count": 1}
    return {"seq": seq, "time": "2026-11-21T09:00:00.5Z", **shown}


def test_the_log_of_the_network_is_read_in_pages(side: Any) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    daemon.answers = [httpx.Response(200, json={"events": [decision(7, "a")], "next_seq": 7})]
    log = side.call(machine.network_log, since_seq=5, limit=1)
    assert (log.next_seq, log.events[0].name, log.events[0].time.year) == (7, "a", 2026)
    assert daemon.requests[0].url.params == httpx.QueryParams({"since_seq": "5", "limit": "1"})


def test_the_log_of_the_network_goes_on_where_it_broke_until_it_is_done(side: Any, fast: list[float]) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    daemon.answers = [
        httpx.ConnectError("nothing listens"),
        httpx.Response(200, stream=Broken(b": alive\n\n")),
        httpx.Response(200, stream=Broken(denied(7, "a"), denied(9, "b"), denied(11, "lost")[:-1])),
        httpx.Response(200, content=event("later", None, {}) + denied(11, "c")),
        httpx.Response(200, content=event("done", None, {})),
    ]
    events = side.drain(machine.follow_network_log(since_seq=5))
    assert [(e.seq, e.name) for e in events] == [(7, "a"), (9, "b"), (11, "c")]
    asked = [r.headers["Last-Event-ID"] for r in daemon.requests]
    assert asked == ["5", "5", "5", "9", "11"]


def told(kind: str, place: str, **fields: Any) -> bytes:
    return event(kind, place, {"id": place, "type": kind, "time": "2026-11-21T09:00:00Z", **fields})


def test_events_go_on_behind_the_last_one_or_a_mark_and_tell_a_gap(side: Any, fast: list[float]) -> None:
    daemon = Daemon()
    client = connect(side, daemon)
    burst = told("exec.burst", "a-2", session_id="s", exec_burst={"started": 3, "finished": 2})
    gap = told("gap", "b-1", reason="restarted", reload=["session"])
    daemon.answers = [
        httpx.Response(200, stream=Broken(told("ready", "a-1"), burst, b"id: a-7\n\n")),
        httpx.ConnectError("nothing listens"),
        httpx.Response(200, content=told("ready", "b-1") + gap),
    ]
    seen = side.take(client.events(since="a-0", types=["session", "exec"], session="s"), 3)
    assert [(e.id, e.type) for e in seen] == [("a-1", "ready"), ("a-2", "exec.burst"), ("b-1", "gap")]
    assert seen[1].session_id == "s"
    assert (seen[1].exec_burst.started, seen[1].exec_burst.finished) == (3, 2)
    assert (seen[2].reason, seen[2].reload) == ("restarted", ["session"])
    assert [r.headers["Last-Event-ID"] for r in daemon.requests] == ["a-0", "a-7", "a-7"]
    assert dict(daemon.requests[0].url.params) == {"types": "session,exec", "session": "s"}


def test_an_error_ends_the_log_of_the_network(side: Any) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    failure = event("error", None, {"error": "gone", "code": "not_found"})
    daemon.answers = [httpx.Response(200, content=denied(7, "a") + failure)]
    with pytest.raises(sandkasten.NotFoundError, match="gone"):
        side.drain(machine.follow_network_log())
    assert "Last-Event-ID" not in daemon.requests[0].headers


def test_results_and_stats_say_what_the_network_refused(side: Any) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    told = {"network_denied": [{"name": "a.example.org", "port": 443, "why": "denied by a.example.org"}]}
    result = {**END, "output": "", "output_encoding": "utf-8", "truncated": False, "dropped_bytes": 0}
    result |= {"timed_out": False, "shell_restarted": False, "output_bytes": 0}
    network = {"connections": 0, "opened": 3, "refused": 1, "bytes_sent": 1, "bytes_received": 2}
    network |= {"queries": 4, "queries_refused": 1, "limit_hits": {"max_connections": 2}}
    daemon.answers = [
        httpx.Response(200, json={**result, **told}),
        httpx.Response(200, content=START + event("done", "e1:end", {**END, **told})),
        httpx.Response(200, json={**STATS, "network": network}),
        httpx.Response(200, json=STATS),
    ]
    stream = machine.exec_stream("make")
    for denial in side.call(machine.exec, "make").network_denied + side.call(stream.wait).network_denied:
        assert (denial.name, denial.port, denial.why) == ("a.example.org", 443, "denied by a.example.org")
    assert side.call(machine.stats).network.limit_hits == {"max_connections": 2}
    assert side.call(machine.stats).network is None


def collect(stream: Any, into: list[Any]) -> None:
    for item in stream:
        into.append(item)


async def collect_async(stream: Any, into: list[Any]) -> None:
    async for item in stream:
        into.append(item)


def test_users_and_keys_are_made_changed_and_told(side: Any) -> None:
    daemon = Daemon(
        httpx.Response(201, json={**KEY, "key": "sk_text"}),
        httpx.Response(200, json=USER),
        httpx.Response(200, json={"owner": "dora", "admin": False, "user": USER, "key": KEY}),
        httpx.Response(200, json={"keys": [KEY]}),
    )
    client = connect(side, daemon)
    key = side.call(client.create_key, user="dora", ttl_seconds=3600)
    assert (key.key, key.expires_at.hour) == ("sk_text", 10)
    assert "sk_text" not in repr(key), "a log would keep it"
    assert side.call(client.update_user, "dora", email="", state="disabled").state == "disabled"
    me = side.call(client.me)
    assert (me.owner, me.user.name, me.key.id) == ("dora", "dora", "k1")
    assert [k.id for k in side.call(client.list_keys, user="dora")] == ["k1"]
    bodies = [json.loads(r.content or "null") for r in daemon.requests]
    assert bodies[:2] == [{"user": "dora", "ttl_seconds": 3600}, {"email": "", "state": "disabled"}]
    assert daemon.requests[3].url.query == b"user=dora"


def test_a_secret_is_for_a_list_of_hosts(side: Any) -> None:
    daemon = Daemon(httpx.Response(200, json=SECRET))
    client = connect(side, daemon)
    with pytest.raises(TypeError, match="list"):
        side.call(client.set_secret, "git", hosts="a.example.org", value="Bearer x", header="Authorization")
    side.call(client.set_secret, "git", hosts=("a.example.org",), value="Bearer x", header="Authorization")
    wanted = {"hosts": ["a.example.org"], "value": "Bearer x", "header": "Authorization"}
    assert [json.loads(r.content) for r in daemon.requests] == [wanted]


def test_what_would_be_made_twice_is_not_asked_again(side: Any) -> None:
    calls = {
        "set_secret": (("git",), {"hosts": ["h"], "value": "v"}, SECRET),
        "update_user": (("dora",), {"role": "admin"}, USER),
        "create_user": (("dora",), {}, None),
        "create_key": ((), {}, None),
    }
    for name, (args, options, answer) in calls.items():
        daemon = Daemon(httpx.ReadError("lost"), httpx.Response(200, json=answer))
        call = getattr(connect(side, daemon), name)
        if answer:
            side.call(call, *args, **options)
        else:
            with pytest.raises(sandkasten.APIConnectionError):
                side.call(call, *args, **options)
        assert len(daemon.requests) == (2 if answer else 1), name


def test_a_download_goes_on_where_it_broke(side: Any, tmp_path: Path) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    daemon.answers = [
        httpx.Response(200, headers={"ETag": '"1"'}, stream=Broken(b"hel", b"lo ")),
        httpx.Response(206, headers={"ETag": '"1"'}, content=b"world"),
    ]
    assert side.call(machine.download, "a.txt", tmp_path / "a") == 11
    assert (tmp_path / "a").read_bytes() == b"hello world"
    assert daemon.requests[1].headers["Range"] == "bytes=6-"
    assert daemon.requests[1].headers["If-Range"] == '"1"'


def test_a_download_of_a_file_that_changed_fails(side: Any, tmp_path: Path) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    daemon.answers = [
        httpx.Response(200, headers={"ETag": '"1"'}, stream=Broken(b"hel")),
        httpx.Response(200, headers={"ETag": '"2"'}, content=b"other"),
    ]
    with pytest.raises(sandkasten.ConflictError, match="has changed"):
        side.call(machine.download, "a.txt", tmp_path / "a")


def test_an_upload_is_sent_anew_from_its_beginning(side: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 600_000)
    daemon = Daemon()
    machine = session(side, daemon)
    daemon.answers = [
        error(429, {"error": "", "code": "resource_exhausted"}),
        httpx.Response(200, json={"ok": True}),
    ]
    side.call(machine.upload, tmp_path / "a", "b c/d", mode="0600")
    for request in daemon.requests:
        assert request.headers["Content-Length"] == "600000" == str(len(request.content))
        assert dict(request.url.params) == {"path": "b c/d", "mode": "0600"}


@pytest.mark.parametrize("kind", ["bytes", "file"])
def test_a_snapshot_is_uploaded_with_its_size(side: Any, kind: str, tmp_path: Path) -> None:
    archive = b"x" * 600_000
    (tmp_path / "a.tar").write_bytes(archive)
    daemon = Daemon(
        error(429, {"error": "", "code": "resource_exhausted"}), httpx.Response(201, json=SNAPSHOT)
    )
    given = archive if kind == "bytes" else tmp_path / "a.tar"
    made = side.call(connect(side, daemon).upload_snapshot, given, name="kept", label="a b")
    assert (made.id, made.exclude_paths, made.created_at.year) == (SNAPSHOT["id"], [], 2026)
    assert len(daemon.requests) == 2
    for request in daemon.requests:
        assert request.content == archive
        assert request.headers["Content-Length"] == "600000"
        assert dict(request.url.params) == {"name": "kept", "label": "a b"}


def test_a_snapshot_that_breaks_off_is_an_error(side: Any) -> None:
    daemon = Daemon(httpx.Response(200, stream=Broken(b"half")))
    with pytest.raises(sandkasten.APIConnectionError):
        side.drain(connect(side, daemon).download_snapshot("p"))
    assert len(daemon.requests) == 1


def test_a_session_is_destroyed_also_when_its_task_is_cancelled() -> None:
    daemon = Daemon(httpx.Response(201, json=SESSION), httpx.Response(200, json={"ok": True}))

    async def cancelled() -> bool:
        client = sandkasten.SandboxClient("http://daemon:8787", "key", transport=daemon)
        with anyio.CancelScope() as scope:
            async with await client.create_session():
                scope.cancel()
                await anyio.sleep(0)
        return scope.cancelled_caught

    assert anyio.run(cancelled)
    assert [r.method for r in daemon.requests] == ["POST", "DELETE"]


def test_names_are_one_segment_of_a_path(side: Any) -> None:
    daemon = Daemon(error(404, {"error": "no such session", "code": "not_found"}))
    with pytest.raises(sandkasten.NotFoundError):
        side.call(connect(side, daemon).get_session, "../workspaces?x=#")
    assert daemon.requests[0].url.raw_path == b"/v1/sessions/%2E%2E%2Fworkspaces%3Fx%3D%23"


def test_stdin_is_sent_until_all_of_it_is_taken(side: Any) -> None:
    daemon = Daemon()
    process = session(side, daemon).processes.get("p1")
    daemon.answers = [
        httpx.Response(200, json={"accepted_bytes": taken, "closed": False}) for taken in (2, 0, 3)
    ]
    side.call(process.write_stdin, "hello")
    assert [json.loads(r.content)["data_base64"] for r in daemon.requests] == ["aGVsbG8=", "bGxv", "bGxv"]


RESULT = {"exec_id": "e1", "status": "completed", "stdout": "", "stderr": "", "timed_out": False}
PROCESS = {**RESULT, "duration_ms": 1, "truncated": False, "dropped_bytes": 0, "output_bytes": 0}
UNKNOWN = {"error": "no such exec", "code": "not_found", "reason": "no_such_exec"}


def test_a_text_is_shell_code(side: Any) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    daemon.answers = [httpx.Response(200, json=PROCESS)]
    assert side.call(machine.processes.run, "ls -l; exit 3").stdout == ""
    assert json.loads(daemon.requests[0].content)["cmd"][-1] == "ls -l; exit 3"


def stop(cancelled: type[BaseException]) -> Answer:
    """What happens to a request whose caller cancels it."""

    def answer(_: httpx.Request) -> httpx.Response:
        raise cancelled

    return answer


@pytest.mark.parametrize("unknown", [0, 2], ids=["at once", "the daemon hears of the command later"])
@pytest.mark.parametrize("call", ["exec", "exec_stream", "run", "run_stream", "run_told"])
def test_a_cancelled_call_ends_its_command(side: Any, call: str, unknown: int) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    cancelled = KeyboardInterrupt if isinstance(machine, sandkasten.SyncSession) else asyncio.CancelledError
    calls: dict[str, Callable[[], Any]] = {
        "exec": lambda: machine.exec("make"),
        "exec_stream": lambda: machine.exec_stream("make").wait(),
        "run": lambda: machine.processes.run(["make"]),
        "run_stream": lambda: machine.processes.run_stream(["make"]).wait(),
        "run_told": lambda: machine.processes.run("make", on_stdout=print),
    }
    daemon.answers = [
        stop(cancelled),
        *(error(404, UNKNOWN) for _ in range(unknown)),
        httpx.Response(200, json={"ok": True}),
    ]
    with pytest.raises((cancelled, CancelledError)):
        side.call(calls[call])
    begun, *ends = daemon.requests
    exec_id = json.loads(begun.content)["exec_id"]
    assert re.fullmatch("[a-z2-7]{26}", exec_id)
    assert {end.url.path for end in ends} == {f"/v1/sessions/{machine.id}/execs/{exec_id}/cancel"}
    assert not daemon.answers


def test_a_lost_connection_ends_no_command(side: Any) -> None:
    daemon = Daemon()
    machine = session(side, daemon)
    daemon.answers = [httpx.ReadError("lost"), httpx.ReadError("lost")]
    for call in (machine.exec, lambda cmd: machine.exec_stream(cmd).wait()):
        with pytest.raises(sandkasten.APIConnectionError):
            side.call(call, "make")
    assert len(daemon.requests) == 2


class Silent(BaseHTTPRequestHandler):
    """A daemon without sessions, whose connections stay."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_: Any) -> None:
        pass


def test_a_client_works_in_a_second_event_loop() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = sandkasten.SandboxClient(f"http://127.0.0.1:{server.server_port}", "key", max_retries=0)
        for _ in range(3):
            assert asyncio.run(client.list_sessions()) == []
        server.shutdown()


def test_a_with_block_asks_for_the_end(side: Any) -> None:
    """Unless the create said what becomes of its session itself, or nothing would stop it."""
    for given, told, asked in (
        (None, "stop", [{"on_expiry": "destroy"}]),
        ("stop", "stop", []),
        (None, "destroy", []),
        (None, None, []),
    ):
        daemon = Daemon(httpx.Response(200, json=SESSION | ({"on_expiry": told} if told else {})))
        machine = side.call(connect(side, daemon).create_session, on_expiry=given)
        daemon.answers = [httpx.Response(200, json=SESSION | {"on_expiry": "destroy"}) for _ in asked]
        daemon.answers.append(httpx.Response(200, json={"ok": True}))
        begin = getattr(machine, "__aenter__", None) or machine.__enter__
        end = getattr(machine, "__aexit__", None) or machine.__exit__
        assert side.call(begin) is machine
        side.call(end, None, None, None)
        assert [r.method for r in daemon.requests] == ["POST", *("PATCH" for _ in asked), "DELETE"]
        assert [json.loads(r.content) for r in daemon.requests if r.method == "PATCH"] == asked


def test_a_with_block_deletes_a_context(side: Any) -> None:
    daemon = Daemon()
    context = session(side, daemon).context("a/b")
    daemon.answers = [httpx.Response(200, json={"ok": True})]
    begin = getattr(context, "__aenter__", None) or context.__enter__
    end = getattr(context, "__aexit__", None) or context.__exit__
    assert side.call(begin) is context
    side.call(end, None, None, None)
    request = daemon.requests[-1]
    assert (request.method, request.url.raw_path.rpartition(b"/contexts/")[2]) == ("DELETE", b"a%2Fb")


def test_times_are_read(side: Any) -> None:
    info = session(side, Daemon()).info
    assert info.expires_at.isoformat() == "2026-11-21T09:30:00.123456+00:00"
    assert info.limits.memory_mb == 512


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"base_url": "127.0.0.1:8787", "api_key": "k"}, "base_url must be like"),
        ({"base_url": "http://x"}, "SANDKASTEN_API_KEY"),
        ({"api_key": "a\nb"}, "no header can have"),
        ({"api_key": "k", "timeout": 0}, "more than 0"),
    ],
)
def test_a_client_that_cannot_work_is_refused(
    side: Any, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], text: str
) -> None:
    monkeypatch.delenv("SANDKASTEN_URL", raising=False)
    monkeypatch.delenv("SANDKASTEN_API_KEY", raising=False)
    with pytest.raises(sandkasten.ConfigurationError, match=text):
        side.client(**options)


def test_the_environment_is_used(side: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDKASTEN_URL", "http://other:1/prefix/")
    monkeypatch.setenv("SANDKASTEN_API_KEY", "from-env")
    daemon = Daemon(httpx.Response(200, json=[]))
    assert side.call(side.client(transport=daemon).list_sessions, include_ended=True) == []
    assert str(daemon.requests[0].url) == "http://other:1/prefix/v1/sessions?include_ended=true"
    assert daemon.requests[0].headers["Authorization"] == "Bearer from-env"


def test_the_key_is_not_shown() -> None:
    assert "secret" not in repr(_core.settings("http://x", "secret", 1, 0, 0))
