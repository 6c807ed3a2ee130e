"""Every operation of the API is called by something, or sdk/contract/operations.json says why not."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

import sandkasten
import sandkasten.agents

SDK = Path(__file__).resolve().parents[2]
OPENAPI = SDK.parent / "internal" / "api" / "v1" / "openapi.json"
LEFT_OUT = SDK / "contract" / "operations.json"
CALLS = SDK.parent / "internal" / "api" / "site" / "assets" / "calls.json"


class Daemon:
    """Refuses everything, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        daemon = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                daemon.asked.add(f"{self.command} {self.path.partition('?')[0]}")
                body = b'{"error": "no", "code": "invalid_argument"}'
                self.send_response(400)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def refusing() -> Iterator[Daemon]:
    made = Daemon()
    thread = Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def of_files(files: Any, local: Path) -> list[Callable[[], Any]]:
    return [
        lambda: files.write("x", "x"),
        lambda: files.upload_files({"x": "x"}, "x"),
        lambda: files.read("x"),
        lambda: files.list("x"),
        lambda: files.stat("x"),
        lambda: files.edit("x", "a", "b"),
        lambda: files.make_dir("x"),
        lambda: files.move("x", "y"),
        lambda: files.copy("x", "y"),
        lambda: files.remove("x"),
        lambda: files.chmod("x", "0644"),
        lambda: files.glob("x"),
        lambda: files.grep("x"),
        lambda: files.download_archive("x", local),
        lambda: files.upload_archive(local, "x"),
    ]


def everything(client: Any, session: Any, workspace: Any, local: Path) -> list[Callable[[], Any]]:
    """Calls with an operation, by which all names are x."""
    process = session.processes.get("x")
    return [
        client.info,
        client.pool_status,
        client.host_history,
        client.host_findings,
        client.create_session,
        lambda: client.get_session("x"),
        client.list_sessions,
        client.create_workspace,
        lambda: client.get_workspace("x"),
        client.list_workspaces,
        lambda: client.delete_workspace("x"),
        lambda: client.set_secret("x", hosts=["x"], value="x"),
        lambda: client.get_secret("x"),
        client.list_secrets,
        lambda: client.delete_secret("x"),
        client.me,
        client.my_usage,
        lambda: client.user_usage("x"),
        client.all_usage,
        client.usage_days,
        client.list_inspections,
        lambda: client.create_user("x"),
        lambda: client.get_user("x"),
        client.list_users,
        lambda: client.update_user("x"),
        lambda: client.delete_user("x"),
        client.create_key,
        client.list_keys,
        lambda: client.revoke_key("x"),
        lambda: client.complete_scope("x:x"),
        lambda: client.change_sessions("stop", ["x"]),
        client.list_audit,
        client.list_snapshots,
        lambda: client.get_snapshot("x"),
        lambda: client.delete_snapshot("x"),
        lambda: client.upload_snapshot(b"x"),
        client.list_images,
        lambda: client.get_image("x"),
        lambda: client.delete_image("x"),
        lambda: client.pull_image("x"),
        lambda: client.build_image("x"),
        lambda: client.commit_image("x"),
        lambda: client.import_image("x", b"x"),
        client.list_image_jobs,
        lambda: client.get_image_job("x"),
        lambda: client.cancel_image_job("x"),
        lambda: client.wait_image_job("x"),
        lambda: session.exec("x"),
        lambda: session.exec_stream("x").wait(),
        lambda: session.attach("x").wait(),
        lambda: session.run_code("1"),
        lambda: session.run_code("1", on_stdout=print),
        lambda: session.create_context("python"),
        session.contexts,
        session.context("x").refresh,
        lambda: session.context("x").run("1"),
        lambda: session.context("x").run("1", on_stdout=print),
        lambda: session.context("x").get_run("x"),
        lambda: session.context("x").follow_run("x"),
        session.context("x").interrupt,
        session.context("x").restart,
        session.context("x").delete,
        session.execs,
        session.shells,
        lambda: session.close_shell("x"),
        session.open_terminal,
        session.refresh,
        session.update,
        session.heartbeat,
        session.stats,
        session.stats_history,
        session.network,
        lambda: session.set_network({"mode": "none"}),
        lambda: session.allow_network("x"),
        session.network_log,
        session.pause,
        session.resume,
        session.stop,
        session.start,
        session.snapshot,
        session.fork,
        session.destroy,
        lambda: session.processes.run(["x"]),
        lambda: session.processes.run_stream(["x"]).wait(),
        session.processes.list,
        process.get,
        process.output,
        lambda: process.write_stdin("x"),
        lambda: process.signal("TERM"),
        process.kill,
        lambda: process.resize(rows=1, cols=1),
        session.ports.list,
        lambda: session.ports.preview(1),
        lambda: session.ports.connect(1),
        *of_files(session, local),
        *of_files(workspace, local),
    ]


def named_x(kind: Any, transport: Any) -> Any:
    """A session or workspace that no daemon told of."""
    return kind(transport, SimpleNamespace(id="x", status="running"))


def test_every_operation_is_called_or_left_out(side: Any, refusing: Daemon, tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.write_bytes(b"x")
    client = side.client(refusing.url, "key", max_retries=0)
    sync = side.client is sandkasten.SyncSandboxClient
    session = named_x(sandkasten.SyncSession if sync else sandkasten.Session, client._transport)
    workspace = named_x(sandkasten.SyncWorkspace if sync else sandkasten.Workspace, client._transport)
    for call in everything(client, session, workspace, local):
        with contextlib.suppress(sandkasten.SandkastenError):
            side.call(call)
    scoped = sandkasten.agents.SyncScopeTools if sync else sandkasten.agents.ScopeTools
    with contextlib.suppress(sandkasten.SandkastenError):
        side.call(scoped(client, "agent:x").anthropic)
    for stream in (
        client.events(),
        client.download_snapshot("x"),
        session.watch("x"),
        session.follow_network_log(),
    ):
        with contextlib.suppress(sandkasten.SandkastenError):
            side.drain(stream)
    side.call(getattr(client, "aclose", None) or client.close)

    rows = json.loads(LEFT_OUT.read_text())["left_out"]
    left_out = {name for row in rows if "python" in row["sdks"] for name in row["operations"]}
    operations = {}
    for path, methods in json.loads(OPENAPI.read_text())["paths"].items():
        asked = re.sub(r"\{\w+\}", "x", path)
        operations |= {f"{method.upper()} {asked}": op["operationId"] for method, op in methods.items()}
    assert refusing.asked <= operations.keys(), "the API has no such operations"
    called = {operations[asked] for asked in refusing.asked}
    missing = set(operations.values()) - called - left_out
    assert missing == set(), "teach the SDK, or say in sdk/contract/operations.json why not"
    assert called & left_out == set(), "these are called, against sdk/contract/operations.json"


def test_the_reference_calls_what_it_says(
    refusing: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The documentation's reference shows for each operation a call that makes it."""
    monkeypatch.chdir(tmp_path)
    for name in ("root.tar", "src.tar.gz", "work.tar"):
        (tmp_path / name).write_bytes(b"x")
    calls = json.loads(CALLS.read_text())["operations"]
    rows = json.loads(LEFT_OUT.read_text())["left_out"]
    left_out = {name for row in rows if "python" in row["sdks"] for name in row["operations"]}
    client = sandkasten.SyncSandboxClient(refusing.url, "key", max_retries=0)
    session = named_x(sandkasten.SyncSession, client._transport)
    workspace = named_x(sandkasten.SyncWorkspace, client._transport)
    process = session.processes.get("x")
    names = {"client": client, "session": session, "workspace": workspace, "process": process}
    for path, methods in json.loads(OPENAPI.read_text())["paths"].items():
        for method, operation in methods.items():
            name = operation["operationId"]
            call = calls.get(name, {}).get("python")
            assert (call is None) == (name in left_out), f"{name}: calls.json has {call}"
            if call is None:
                continue
            refusing.asked.clear()
            with contextlib.suppress(sandkasten.SandkastenError):
                exec(call, {**names, "Path": Path})
            wanted = f"{method.upper()} " + re.sub(r"\{\w+\}", "[^/]+", path)
            did = [asked for asked in refusing.asked if re.fullmatch(wanted, asked)]
            assert did, f"{name}: {call} asks {refusing.asked}"
    client.close()
