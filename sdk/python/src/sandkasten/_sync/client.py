# Written by scripts/generate.py from _async/client.py. Change that instead.
"""The client of a daemon."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from typing import Literal

import httpx

from .. import _core
from .._core import Request
from .._decode import decode, decode_list
from .._models import DaemonInfo, PoolStatus, SessionInfo, Snapshot, WorkspaceInfo
from .closing import Closing
from .files import pieces
from .session import OnIdle, SyncSession, SyncWorkspace
from .transport import SyncTransport

NetworkMode = Literal["none"]


class SyncSandboxClient(Closing):
    """The client of one daemon.

    base_url and api_key are taken from SANDKASTEN_URL and SANDKASTEN_API_KEY if they are
    not given. timeout is in seconds and for requests that are answered at once; one
    that waits for a command has none but the command's own. Requests that may be repeated
    are, max_retries times, when the connection breaks or the daemon says that it is
    overloaded. transport replaces that of httpx, for tests and proxies.

    A call that is interrupted or cancelled ends only here: what was asked for goes on in the daemon.
    Close it, or use it as a context manager.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = 60.0,
        max_retries: int = 2,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._transport = SyncTransport(_core.settings(base_url, api_key, timeout, max_retries), transport)

    def close(self) -> None:
        """Closes the connections. Sessions go on."""
        self._transport.close()

    def create_session(
        self,
        *,
        image: str | None = None,
        driver: str | None = None,
        ttl_seconds: int | None = None,
        lifetime_seconds: int | None = None,
        on_idle: OnIdle | None = None,
        idle_timeout_seconds: int | None = None,
        auto_resume: bool | None = None,
        workspace_id: str | None = None,
        restore_snapshot_id: str | None = None,
        env: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        cpu: float | None = None,
        memory_mb: int | None = None,
        pids: int | None = None,
        disk_mb: int | None = None,
        hostname: str | None = None,
        network_mode: NetworkMode | None = None,
        readonly_rootfs: bool | None = None,
        idempotency_key: str | None = None,
    ) -> SyncSession:
        """Makes a session and returns when it can run commands.

        What is not given is as the daemon is configured. Each call makes one session,
        also if it has to be sent more than once; an idempotency_key of your own
        makes that last over several calls. It begins with the files of the snapshot
        restore_snapshot_id, and with its image if none is given.
        """
        body = {
            "image": image,
            "driver": driver,
            "ttl_seconds": ttl_seconds,
            "lifetime_seconds": lifetime_seconds,
            "on_idle": on_idle,
            "idle_timeout_seconds": idle_timeout_seconds,
            "auto_resume": auto_resume,
            "workspace_id": workspace_id,
            "restore_snapshot_id": restore_snapshot_id,
            "env": env,
            "labels": labels,
            "cpu": cpu,
            "memory_mb": memory_mb,
            "pids": pids,
            "disk_mb": disk_mb,
            "hostname": hostname,
            "network_mode": network_mode,
            "readonly_rootfs": readonly_rootfs,
        }
        request = _core.creation(_core.url_path("sessions"), body, idempotency_key)
        return SyncSession(self._transport, decode(SessionInfo, self._transport.json(request)))

    def get_session(self, session_id: str) -> SyncSession:
        """A session that is there; NotFoundError if it is not, or belongs to another key."""
        return SyncSession(self._transport, decode(SessionInfo, self._get("sessions", session_id)))

    def list_sessions(self, *, include_ended: bool | None = None) -> list[SyncSession]:
        """The key's sessions, oldest first; with include_ended also those that ended not long ago."""
        path = _core.url_path("sessions")
        request = Request(method="GET", path=path, query={"include_ended": include_ended}, safe=True)
        infos = decode_list(SessionInfo, self._transport.json(request))
        return [SyncSession(self._transport, info) for info in infos]

    def create_workspace(
        self,
        workspace_id: str | None = None,
        *,
        size_mb: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> SyncWorkspace:
        """Makes an empty workspace; AlreadyExistsError if the key has one of that id."""
        body = _core.given({"id": workspace_id, "size_mb": size_mb, "labels": labels})
        request = Request(method="POST", path=_core.url_path("workspaces"), json=body, wait=True)
        return SyncWorkspace(self._transport, decode(WorkspaceInfo, self._transport.json(request)))

    def get_workspace(self, workspace_id: str) -> SyncWorkspace:
        """A workspace that is there, with its files."""
        return SyncWorkspace(self._transport, decode(WorkspaceInfo, self._get("workspaces", workspace_id)))

    def list_workspaces(self) -> list[SyncWorkspace]:
        """The key's workspaces, oldest first."""
        answer = _core.as_object(self._get("workspaces"))
        infos = decode_list(WorkspaceInfo, answer.get("workspaces"))
        return [SyncWorkspace(self._transport, info) for info in infos]

    def delete_workspace(self, workspace_id: str, *, force: bool | None = None) -> None:
        """Removes a workspace with all that is in it; force destroys the sessions that have it."""
        path = _core.url_path("workspaces", workspace_id)
        self._transport.json(
            Request(method="DELETE", path=path, query={"force": force}, safe=True, wait=True)
        )

    def list_snapshots(self, *, session_id: str | None = None, name: str | None = None) -> list[Snapshot]:
        """The key's snapshots, oldest first; session_id and name select some."""
        path, query = _core.url_path("snapshots"), {"session_id": session_id, "name": name}
        request = Request(method="GET", path=path, query=query, safe=True)
        answer = _core.as_object(self._transport.json(request))
        return decode_list(Snapshot, answer.get("snapshots"))

    def get_snapshot(self, snapshot_id: str) -> Snapshot:
        """A snapshot that is there; NotFoundError if it is not, or belongs to another key."""
        return decode(Snapshot, self._get("snapshots", snapshot_id))

    def delete_snapshot(self, snapshot_id: str) -> None:
        """Removes a snapshot. Sessions that began with it keep their files."""
        path = _core.url_path("snapshots", snapshot_id)
        self._transport.json(Request(method="DELETE", path=path, safe=True, wait=True))

    def download_snapshot(self, snapshot_id: str) -> Generator[bytes, None]:
        """A snapshot as an archive, piece by piece, which `upload_snapshot` takes, here or at another daemon.

        APIConnectionError where the connection breaks: then it is to be downloaded anew.
        """
        path = _core.url_path("snapshots", snapshot_id) + "/download"
        with self._transport.stream(Request(method="GET", path=path, safe=True)) as response:
            for piece in response.iter_bytes():
                yield piece

    def upload_snapshot(
        self, archive: bytes | os.PathLike[str], *, name: str | None = None, label: str | None = None
    ) -> Snapshot:
        """Makes a snapshot of an archive, which is given as it is or as a local file (a `pathlib.Path`)."""
        size = len(archive) if isinstance(archive, bytes) else os.stat(archive).st_size
        request = Request(
            method="POST",
            path=_core.url_path("snapshots"),
            query={"name": name, "label": label},
            body=archive if isinstance(archive, bytes) else lambda: pieces(archive),
            headers={"Content-Type": "application/x-tar", "Content-Length": str(size)},
            wait=True,
        )
        return decode(Snapshot, self._transport.json(request))

    def pool_status(self) -> PoolStatus:
        """What is ready for sessions that are about to come."""
        return decode(PoolStatus, self._get("pool", "status"))

    def info(self) -> DaemonInfo:
        """The daemon's version, defaults and limits."""
        return decode(DaemonInfo, self._get("info"))

    def _get(self, *path: str) -> object:
        return self._transport.json(Request(method="GET", path=_core.url_path(*path), safe=True))
