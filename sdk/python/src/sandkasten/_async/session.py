"""A session: a machine that keeps its shell, files and processes between commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import anyio

from .. import _core
from .._core import STREAM_SILENCE, Request
from .._decode import decode, decode_list
from .._models import (
    CodeRun,
    ContextInfo,
    ExecRecord,
    ExecResult,
    Network,
    NetworkLog,
    SessionInfo,
    Shell,
    Snapshot,
    Stats,
    StatsHistory,
    WorkspaceInfo,
)
from .._types import NetworkOptions, OnDisconnect
from .cancel import Running
from .contexts import Callbacks, CodeContext, OnClear, OnError, OnResult, OnStart, OnText, run_code
from .files import Files
from .ports import Ports
from .processes import Processes, Records
from .sockets import Terminal
from .streams import ExecStream, FileWatch, NetworkEvents
from .transport import Transport

if TYPE_CHECKING:
    from typing_extensions import Self

Sessions = list["Session"]
OnIdle = Literal["pause", "stop", "destroy"]
OnExpiry = Literal["stop", "destroy"]
Shells = list[Shell]
Contexts = list[CodeContext]


class Session(Files):
    """A session, with its commands, processes and files.

    As a context manager it is destroyed at the end. Should the program die before, so is a
    session that nothing uses for its ttl_seconds, unless its create said on_expiry itself.
    """

    def __init__(self, transport: Transport, info: SessionInfo, *, on_expiry: OnExpiry | None = None) -> None:
        super().__init__(transport, _core.url_path("sessions", info.id))
        self._on_expiry = on_expiry
        self.info = info
        """The session as it was when a call last told; `refresh` asks anew."""
        self.processes = Processes(transport, self._path)
        """Programs that run beside the shells."""
        self.ports = Ports(transport, self._path)
        """Servers that run in the session."""

    @property
    def id(self) -> str:
        """The session's id."""
        return self.info.id

    async def __aenter__(self) -> Self:
        if self._on_expiry is None and self.info.on_expiry == "stop":
            await self.update(on_expiry="destroy")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.destroy()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.info.status}>"

    async def exec(
        self,
        cmd: str,
        *,
        timeout_ms: int | None = None,
        stdin: str | None = None,
        shell: str | None = None,
        output_file: str | None = None,
        raw_output: bool | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        on_disconnect: OnDisconnect | None = None,
        exec_id: str | None = None,
    ) -> ExecResult:
        """Runs shell code in the session's persistent shell and returns at its end.

        Directory, variables, functions and background jobs stay for the next command.
        A command that fails is no exception: see exit_code and cause. Commands of one
        shell run one after another; the name of another shell runs them beside it. The
        shell goes to cwd first, and stays there; env is for this command alone. When this
        call is cancelled or interrupted, so is the command; when the connection breaks it
        goes on, unless on_disconnect is kill. exec_id, 26 random characters of a-z and 2-7,
        is the command's id, which is a new one without it.
        """
        options = {
            "timeout_ms": timeout_ms,
            "stdin": stdin,
            "shell": shell,
            "output_file": output_file,
            "raw_output": raw_output,
            "cwd": cwd,
            "env": env,
            "on_disconnect": on_disconnect,
            "exec_id": exec_id,
        }
        body = _core.exec_body(cmd, options)
        async with Running(self._transport, self._path, body["exec_id"]):
            return decode(ExecResult, await self._post("/exec", body, wait=True))

    def exec_stream(
        self,
        cmd: str,
        *,
        timeout_ms: int | None = None,
        stdin: str | None = None,
        open_stdin: bool | None = None,
        shell: str | None = None,
        output_file: str | None = None,
        raw_output: bool | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        on_disconnect: OnDisconnect | None = None,
        exec_id: str | None = None,
    ) -> ExecStream:
        """The same, with the output as it is written. It starts with the first step of the iteration.

        With open_stdin the command reads what write_stdin of processes.get(exec_id)
        sends, until close_stdin; the exec_id is the stream's, from the first step on.
        """
        options = {
            "timeout_ms": timeout_ms,
            "stdin": stdin,
            "open_stdin": open_stdin,
            "shell": shell,
            "output_file": output_file,
            "raw_output": raw_output,
            "cwd": cwd,
            "env": env,
            "on_disconnect": on_disconnect,
            "exec_id": exec_id,
        }
        body = _core.exec_body(cmd, options)
        first = Request(method="POST", path=self._path + "/exec/stream", json=body, silence=STREAM_SILENCE)
        return ExecStream(self._transport, self._path, first)

    async def run_code(
        self,
        code: str,
        *,
        language: str | None = None,
        timeout_ms: int | None = None,
        on_start: OnStart | None = None,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
        on_result: OnResult | None = None,
        on_update: OnResult | None = None,
        on_clear: OnClear | None = None,
        on_error: OnError | None = None,
    ) -> CodeRun:
        """Runs code in the session's default context of a language, python without one.

        Variables, imports and functions stay from one call to the next, and what the code
        shows comes back as data: pictures, tables, texts. That code fails is no exception:
        see cause and error. The callbacks are told what it shows while it runs; the answer
        has all of it in any case. on_update gets a result that takes the place of the one with
        its display_id; after on_clear, what came before is not shown any more.
        """
        body = {"code": code, "language": language, "timeout_ms": timeout_ms}
        told = Callbacks(on_start, on_stdout, on_stderr, on_result, on_update, on_clear, on_error)
        return await run_code(self._transport, self._path + "/run-code", self._path, body, told)

    async def create_context(
        self,
        language: str,
        *,
        name: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CodeContext:
        """Starts a kernel of the image, and returns when it is ready."""
        options = {"language": language, "name": name, "cwd": cwd, "env": env}
        body = {field: value for field, value in options.items() if value is not None}
        info = decode(ContextInfo, await self._post("/contexts", body, wait=True))
        return CodeContext(self._transport, self._path, info.context_id, info)

    async def contexts(self) -> Contexts:
        """The contexts that run, or ended not long ago, oldest first."""
        infos = decode_list(ContextInfo, await self._get_path("/contexts"))
        return [CodeContext(self._transport, self._path, info.context_id, info) for info in infos]

    def context(self, context_id: str) -> CodeContext:
        """A context by its id or name. It is not asked whether it is there."""
        return CodeContext(self._transport, self._path, context_id)

    async def execs(self) -> Records:
        """The commands and processes that the session still knows, oldest first."""
        return decode_list(ExecRecord, await self._get_path("/execs"))

    def attach(self, exec_id: str, *, raw_output: bool | None = None) -> ExecStream:
        """The output of a command or process that is there, from its start to its end."""
        return self.processes.get(exec_id).stream(raw_output=raw_output)

    async def shells(self) -> Shells:
        """The session's shells, by name."""
        return decode_list(Shell, await self._get_path("/shells"))

    async def close_shell(self, name: str) -> None:
        """Ends a shell with all that it started. The next command that names it gets a new one."""
        path = f"{self._path}/shells/{_core.segment(name)}"
        await self._transport.json(Request(method="DELETE", path=path, safe=True, wait=True))

    async def open_terminal(
        self,
        *,
        rows: int | None = None,
        cols: int | None = None,
        term: str | None = None,
        command: Sequence[str] = (),
    ) -> Terminal:
        """Runs a program, a login shell without one, on a terminal of its own, and attaches to it.

        It needs websockets, the extra `terminal`: `pip install "websockets>=15,<18"`.
        """
        words = [("command", word) for word in command]
        query: _core.Pairs = [("rows", rows), ("cols", cols), ("term", term), *words]
        return await Terminal._open(self._transport, self._path, query)

    async def attach_terminal(
        self,
        terminal_id: str,
        *,
        rows: int | None = None,
        cols: int | None = None,
        since_seq: int | None = None,
    ) -> Terminal:
        """Attaches to a terminal, or a process with one, that is there.

        since_seq, a Terminal's seq, is where in all that it showed to begin; without it, it
        begins with the last 64 KiB.
        """
        query = [("terminal_id", terminal_id), ("rows", rows), ("cols", cols), ("since_seq", since_seq)]
        return await Terminal._open(self._transport, self._path, query)

    def watch(self, path: str = ".", *, recursive: bool | None = None, user: str | None = None) -> FileWatch:
        """Tells what changes in a directory. It does not count as use of the session."""
        query = {"path": path, "recursive": recursive, "user": user}
        return FileWatch(self._transport, f"{self._path}/fs/watch", query)

    async def refresh(self) -> SessionInfo:
        """Asks for the session's state, and keeps it in info."""
        return self._keep(await self._get_path(""))

    async def stats(self) -> Stats:
        """What the sandbox takes of memory, processor and disk."""
        return decode(Stats, await self._get_path("/stats"))

    async def stats_history(self, *, since: datetime | None = None, step: int | None = None) -> StatsHistory:
        """What the session used over its life, oldest first.

        step is the seconds between samples: 10, of the last hour, or 60, of the last day; without it the
        finest since that time.
        """
        query = {"since": since.isoformat() if since else None, "step": step}
        request = Request(method="GET", path=f"{self._path}/stats/history", query=query, safe=True)
        return decode(StatsHistory, await self._transport.json(request))

    async def network(self) -> Network:
        """What it may reach, and its secrets without their values. info keeps the answer."""
        return self._keep_network(await self._get_path("/network"))

    async def set_network(self, network: NetworkOptions | Network) -> Network:
        """Replaces what it may reach, from now on: connections that are not allowed any more are cut.

        What is left out is not kept, but for secrets. What network told may be changed and given back.
        """
        body = _core.network_body(network)
        request = Request(method="PUT", path=self._path + "/network", json=body, safe=True)
        return self._keep_network(await self._transport.json(request))

    async def allow_network(self, *entries: str) -> Network:
        """Adds to what it may reach: entries as in allow. A session of mode none gets mode allow."""
        body = {"entries": list(entries)}
        return self._keep_network(await self._post("/network/allow", body, safe=True))

    async def network_log(self, *, since_seq: int | None = None, limit: int | None = None) -> NetworkLog:
        """What its network decided lately, oldest first; behind since_seq, the next_seq of a log before."""
        query = {"since_seq": since_seq, "limit": limit}
        request = Request(method="GET", path=self._path + "/network/log", query=query, safe=True)
        return decode(NetworkLog, await self._transport.json(request))

    def follow_network_log(self, *, since_seq: int | None = None) -> NetworkEvents:
        """What its network decides, from what is kept or behind since_seq on, until the session ends."""
        return NetworkEvents(self._transport, self._path + "/network/log/stream", since_seq)

    async def update(
        self,
        *,
        ttl_seconds: int | None = None,
        on_expiry: OnExpiry | None = None,
        lifetime_seconds: int | None = None,
        on_idle: OnIdle | None = None,
        idle_timeout_seconds: int | None = None,
        auto_resume: bool | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> SessionInfo:
        """Changes what is given; labels replaces all labels."""
        body = {
            "ttl_seconds": ttl_seconds,
            "on_expiry": on_expiry,
            "lifetime_seconds": lifetime_seconds,
            "on_idle": on_idle,
            "idle_timeout_seconds": idle_timeout_seconds,
            "auto_resume": auto_resume,
            "labels": labels,
        }
        request = Request(method="PATCH", path=self._path, json=_core.given(body), safe=True)
        return self._keep(await self._transport.json(request))

    async def heartbeat(self) -> SessionInfo:
        """Is use of the session, and nothing else."""
        return self._keep(await self._post("/heartbeat", safe=True))

    async def pause(self, *, memory: Literal["ram", "disk"] | None = None) -> SessionInfo:
        """Stops its programs where they are; they keep their memory and cost no processor time."""
        return self._keep(await self._post("/pause", _core.given({"memory": memory}), safe=True, wait=True))

    async def resume(self) -> SessionInfo:
        """Lets them go on."""
        return self._keep(await self._post("/resume", safe=True, wait=True))

    async def stop(self) -> SessionInfo:
        """Kills all processes and keeps all files."""
        return self._keep(await self._post("/stop", safe=True, wait=True))

    async def start(self) -> SessionInfo:
        """Boots a stopped session on its files."""
        return self._keep(await self._post("/start", safe=True, wait=True))

    async def snapshot(
        self,
        *,
        name: str | None = None,
        label: str | None = None,
        scope: Literal["workspace", "sandbox"] | None = None,
        fallback: Literal["workspace"] | None = None,
        include_paths: Sequence[str] | None = None,
        exclude_paths: Sequence[str] | None = None,
        idempotency_key: str | None = None,
    ) -> Snapshot:
        """Saves files as they are at one moment; `create_session` with restore_snapshot_id begins with them.

        scope "workspace" is /workspace; "sandbox" is that and all other changes to the image, and is
        restored on that image only. Without one it is "sandbox" or, where the driver cannot tell
        other changes, "workspace": the snapshot's scope says which. A scope "sandbox" that must not
        fail there takes fallback "workspace". include_paths are all that is saved, exclude_paths
        what is not. A snapshot outlives the session.
        """
        if scope is None:
            scope, fallback = "sandbox", "workspace"
        body = {
            "name": name,
            "label": label,
            "scope": scope,
            "fallback": fallback,
            "include_paths": include_paths,
            "exclude_paths": exclude_paths,
        }
        request = _core.creation(f"{self._path}/snapshots", body, idempotency_key)
        return decode(Snapshot, await self._transport.json(request))

    async def fork(
        self,
        count: int | None = None,
        *,
        ttl_seconds: int | None = None,
        on_expiry: OnExpiry | None = None,
        lifetime_seconds: int | None = None,
        on_idle: OnIdle | None = None,
        idle_timeout_seconds: int | None = None,
        auto_resume: bool | None = None,
        env: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        cpu: float | None = None,
        memory_mb: int | None = None,
        pids: int | None = None,
        disk_mb: int | None = None,
        hostname: str | None = None,
        idempotency_key: str | None = None,
    ) -> Sessions:
        """Makes sessions, one if count is not given, that begin with this one's files.

        What is not given is as in this session. All are made or none. Processes, shells
        and memory are not copied. The caller destroys them.
        """
        body = {
            "count": count,
            "ttl_seconds": ttl_seconds,
            "on_expiry": on_expiry,
            "lifetime_seconds": lifetime_seconds,
            "on_idle": on_idle,
            "idle_timeout_seconds": idle_timeout_seconds,
            "auto_resume": auto_resume,
            "env": env,
            "labels": labels,
            "cpu": cpu,
            "memory_mb": memory_mb,
            "pids": pids,
            "disk_mb": disk_mb,
            "hostname": hostname,
        }
        request = _core.creation(f"{self._path}/fork", body, idempotency_key)
        answer = _core.as_object(await self._transport.json(request))
        infos = decode_list(SessionInfo, answer.get("sessions"))
        return [Session(self._transport, info) for info in infos]

    async def destroy(self) -> None:
        """Ends all processes and removes all files. Works in every state, and again."""
        await self._transport.json(Request(method="DELETE", path=self._path, safe=True))

    def _keep(self, answer: object) -> SessionInfo:
        self.info = decode(SessionInfo, answer)
        return self.info

    def _keep_network(self, answer: object) -> Network:
        network = decode(Network, answer)
        self.info = replace(self.info, network=network, network_mode=network.mode)
        return network

    async def _get_path(self, path: str) -> object:
        return await self._transport.json(Request(method="GET", path=self._path + path, safe=True))

    async def _post(
        self, path: str, body: dict[str, Any] | None = None, *, safe: bool = False, wait: bool = False
    ) -> object:
        request = Request(method="POST", path=self._path + path, json=body, safe=safe, wait=wait)
        return await self._transport.json(request)


class Workspace(Files):
    """A directory that outlives sessions, whose files can be reached without one."""

    def __init__(self, transport: Transport, info: WorkspaceInfo) -> None:
        super().__init__(transport, _core.url_path("workspaces", info.id))
        self.info = info
        """The workspace as it was when it was asked for."""

    @property
    def id(self) -> str:
        """The workspace's id."""
        return self.info.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"
