# Written by scripts/generate.py from _async/client.py. Change that instead.
"""The client of a daemon."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime
from typing import Literal

import httpx

from .. import _core
from .._core import Request
from .._decode import decode, decode_list
from .._errors import APIConnectionError
from .._models import (
    AuditPage,
    BulkResult,
    CompletedScope,
    DaemonInfo,
    HostFindings,
    HostHistory,
    Image,
    ImageJob,
    ImageProgress,
    Inspection,
    Key,
    Me,
    Network,
    NewKey,
    OwnersUsage,
    OwnerUsage,
    PoolStatus,
    Secret,
    SessionInfo,
    Snapshot,
    UsageDay,
    User,
    WorkspaceInfo,
)
from .._types import KeyScope, NetworkMode, NetworkOptions, UserRole
from .closing import Closing
from .files import pieces
from .session import OnExpiry, OnIdle, SyncSession, SyncWorkspace
from .streams import SyncEvents
from .transport import SyncTransport

FileScope = Literal["workspace", "sandbox"]
EventKind = Literal["session", "exec", "network", "workspace", "snapshot", "image", "pool", "account"]


class SyncSandboxClient(Closing):
    """The client of one daemon.

    base_url and api_key are taken from SANDKASTEN_URL and SANDKASTEN_API_KEY if they are
    not given. timeout is in seconds and for requests that are answered at once; one
    that waits for a command has none but the command's own. Requests that may be repeated
    are, when the connection breaks or the daemon is not ready, for retry_seconds from the first
    failure on, so that they outlive its restart; for 3 s at most while nothing has ever answered
    at the address. Over a limit of rate they are repeated max_retries times. With max_retries 0
    nothing is repeated. transport replaces that of httpx, for tests and proxies.

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
        retry_seconds: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._transport = SyncTransport(
            _core.settings(base_url, api_key, timeout, max_retries, retry_seconds), transport
        )

    def close(self) -> None:
        """Closes the connections. Sessions go on."""
        self._transport.close()

    def create_session(
        self,
        *,
        name: str | None = None,
        image: str | None = None,
        driver: str | None = None,
        ttl_seconds: int | None = None,
        on_expiry: OnExpiry | None = None,
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
        network: NetworkOptions | Network | None = None,
        network_mode: NetworkMode | None = None,
        readonly_rootfs: bool | None = None,
        file_scope: FileScope | None = None,
        idempotency_key: str | None = None,
    ) -> SyncSession:
        """Makes a session and returns when it can run commands.

        What is not given is as the daemon is configured. Each call makes one session,
        also if it has to be sent more than once; an idempotency_key of your own
        makes that last over several calls. It begins with the files of the snapshot
        restore_snapshot_id, and with its image if none is given. When nothing has used it for
        ttl_seconds it is stopped and keeps its files for a while if it has a name, and destroyed
        otherwise; on_expiry says so, too. With file_scope sandbox its
        files calls reach any path, as /tmp and home directories, and not /workspace alone.
        It reaches what network says; network_mode is short for one that has only a mode.
        """
        body = {
            "name": name,
            "image": image,
            "driver": driver,
            "ttl_seconds": ttl_seconds,
            "on_expiry": on_expiry,
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
            "network": None if network is None else _core.network_body(network),
            "network_mode": network_mode,
            "readonly_rootfs": readonly_rootfs,
            "file_scope": file_scope,
        }
        request = _core.creation(_core.url_path("sessions"), body, idempotency_key)
        info = decode(SessionInfo, self._transport.json(request))
        return SyncSession(self._transport, info, on_expiry=on_expiry)

    def events(
        self,
        *,
        types: Sequence[EventKind] | None = None,
        session: str | None = None,
        owner: str | None = None,
        since: str | None = None,
    ) -> SyncEvents:
        """What happens, as it happens: of everything that the key may see, or what is chosen.

        types says what events are about, session leaves those about one session, and owner,
        for admins, those of one owner. since is the id of the last event that is known.
        """
        query = {"types": ",".join(types) if types else None, "session": session, "owner": owner}
        return SyncEvents(self._transport, query, since)

    def get_session(self, session_id: str) -> SyncSession:
        """A session that is there, by its id, its name or the beginning of its id.

        NotFoundError if it is not there, or belongs to another key.
        """
        return SyncSession(self._transport, decode(SessionInfo, self._get("sessions", session_id)))

    def list_sessions(
        self,
        *,
        include_ended: bool | None = None,
        scope: str | None = None,
        status: Sequence[str] | None = None,
        image: str | None = None,
        label: Sequence[str] | None = None,
        owner: str | None = None,
        mine: bool | None = None,
        search: str | None = None,
        sort: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        usage: bool | None = None,
    ) -> list[SyncSession]:
        """The key's sessions, oldest first; with include_ended also those that ended not long ago.

        scope (such as workflow:run-1), status (one of them), image, label (name or name=value, all of
        them), owner and search (a text in the id, name, image or labels) select. sort is created, activity
        or name, with a minus the other way round. limit makes pages: after is the cursor of the last
        session of the one before. With usage each has what it used a few seconds ago. An admin gets the
        sessions of all owners, and with mine those of the key's own.
        """
        query = {
            "include_ended": include_ended,
            "scope": scope,
            "status": status,
            "image": image,
            "label": label,
            "owner": owner,
            "mine": mine,
            "search": search,
            "sort": sort,
            "limit": limit,
            "after": after,
            "usage": usage,
        }
        request = Request(method="GET", path=_core.url_path("sessions"), query=query, safe=True)
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

    def list_images(self) -> list[Image]:
        """The images that the key's sessions may use, newest first."""
        return decode_list(Image, _core.as_object(self._get("images")).get("images"))

    def get_image(self, name: str) -> Image:
        """The image of a name or digest."""
        return decode(Image, self._get("images", name))

    def delete_image(self, name: str) -> None:
        """Takes an image's name away, and the image with its last name.

        Only the daemon's own key may do this, and what else changes images.
        """
        path = _core.url_path("images", name)
        self._transport.json(Request(method="DELETE", path=path, safe=True, wait=True))

    def pull_image(self, ref: str, *, name: str | None = None, insecure: bool | None = None) -> ImageJob:
        """Has the daemon store the image of a registry; `wait_image_job` follows the job."""
        return self._image_job("pull", {"ref": ref, "name": name, "insecure": insecure})

    def build_image(
        self,
        name: str,
        *,
        recipe: str | None = None,
        files: Mapping[str, bytes] | None = None,
        if_absent: bool | None = None,
        no_cache: bool | None = None,
    ) -> ImageJob:
        """Has the daemon make an image of a recipe: its text, or else the daemon's recipe of that name.

        files are what the recipe's copy may take, by their paths beside it.
        """
        beside = [
            {"path": path, "content_base64": base64.b64encode(content).decode()}
            for path, content in (files or {}).items()
        ]
        body = {
            "name": name,
            "recipe": recipe,
            "files": beside or None,
            "if_absent": if_absent,
            "no_cache": no_cache,
        }
        return self._image_job("build", body)

    def commit_image(
        self, name: str, *, session_id: str | None = None, snapshot_id: str | None = None
    ) -> ImageJob:
        """Has the daemon make an image of a session's image and what was changed of its root.

        Of the session as it is, or of a snapshot of scope sandbox.
        """
        body = {"name": name, "session_id": session_id, "snapshot_id": snapshot_id}
        return self._image_job("commit", body)

    def import_image(
        self, name: str, archive: bytes | os.PathLike[str], *, source: str | None = None
    ) -> Image:
        """Makes an image of the tar file of a whole root file system: plain, gzip or zstd.

        The archive is given as it is or as a local file (a `pathlib.Path`).
        """
        size = len(archive) if isinstance(archive, bytes) else os.stat(archive).st_size
        request = Request(
            method="POST",
            path=_core.url_path("images", "import"),
            query={"name": name, "source": source},
            body=archive if isinstance(archive, bytes) else lambda: pieces(archive),
            headers={"Content-Type": "application/x-tar", "Content-Length": str(size)},
            wait=True,
        )
        return decode(Image, self._transport.json(request))

    def list_image_jobs(self) -> list[ImageJob]:
        """The jobs that the daemon knows, oldest first."""
        return decode_list(ImageJob, _core.as_object(self._get("image-jobs")).get("jobs"))

    def get_image_job(self, job_id: str) -> ImageJob:
        """A job as it is."""
        return decode(ImageJob, self._get("image-jobs", job_id))

    def cancel_image_job(self, job_id: str) -> ImageJob:
        """Ends a job; the answer is the job as it is then."""
        path = _core.url_path("image-jobs", job_id)
        request = Request(method="DELETE", path=path, safe=True, wait=True)
        return decode(ImageJob, self._transport.json(request))

    def wait_image_job(
        self, job_id: str, *, on_progress: Callable[[ImageProgress], None] | None = None
    ) -> ImageJob:
        """Follows a job to its end. One that failed or was canceled is a result, too: status says which.

        A connection that breaks is made anew. To leave ends nothing.
        """
        path = _core.url_path("image-jobs", job_id) + "/events"
        request = Request(method="GET", path=path, safe=True)
        patience = _core.Patience(self._transport.settings)
        while True:
            broken = APIConnectionError("the stream of the job ended early")
            try:
                for event in self._transport.events(request):
                    if event.name == "done":
                        return decode(ImageJob, event.json())
                    patience.progress()
                    if on_progress:
                        on_progress(decode(ImageProgress, event.json()))
            except APIConnectionError as err:
                broken = err
            self._transport.before_resuming(patience, request, broken)

    def _image_job(self, what: str, body: Mapping[str, object]) -> ImageJob:
        # The same request while its job is under way gives that job, so it may be sent again.
        path = _core.url_path("images", what)
        request = Request(method="POST", path=path, json=_core.given(body), safe=True)
        return decode(ImageJob, self._transport.json(request))

    def set_secret(
        self,
        name: str,
        *,
        hosts: Sequence[str],
        value: str,
        header: str | None = None,
        query: str | None = None,
        shared: bool | None = None,
    ) -> Secret:
        """Stores a secret, in the place of the key's of the same name.

        hosts get the value, as names that may begin with one wildcard label: in the header of a request
        or in the parameter query, one of which is needed. Sessions refer to it by its name, as stored of
        NetworkSecretOptions. shared lets sessions of every key refer to it, which only the daemon's own
        key may. Running sessions have the earlier value until their network is set, they are started or
        the daemon restarts.
        """
        options = {"value": value, "header": header, "query": query, "shared": shared}
        path, body = _core.url_path("secrets", name), _core.secret_body(hosts, options)
        request = Request(method="PUT", path=path, json=body, safe=True)
        return decode(Secret, self._transport.json(request))

    def get_secret(self, name: str) -> Secret:
        """A stored secret, without its value."""
        return decode(Secret, self._get("secrets", name))

    def list_secrets(self) -> list[Secret]:
        """The key's stored secrets by name, without their values."""
        return decode_list(Secret, _core.as_object(self._get("secrets")).get("secrets"))

    def delete_secret(self, name: str) -> None:
        """Forgets a stored secret.

        Running sessions have it until their network is set, they are started or the daemon restarts.
        """
        path = _core.url_path("secrets", name)
        self._transport.json(Request(method="DELETE", path=path, safe=True))

    def me(self) -> Me:
        """Whose the client's key is, and what it may do."""
        return decode(Me, self._get("me"))

    def my_usage(self, *, month: str | None = None) -> OwnerUsage:
        """What the owner of the client's key uses, in a month of UTC (as 2026-11) or the current one."""
        return self._usage(_core.url_path("me", "usage"), month)

    def user_usage(self, name: str, *, month: str | None = None) -> OwnerUsage:
        """my_usage of a user, or of an owner of the daemon's configuration. Only admins may."""
        return self._usage(_core.url_path("users", name, "usage"), month)

    def all_usage(self, *, month: str | None = None) -> OwnersUsage:
        """What all owners use in a month, with the memory that their sessions use now. Only admins may."""
        request = Request(method="GET", path=_core.url_path("usage"), query={"month": month}, safe=True)
        return decode(OwnersUsage, self._transport.json(request))

    def usage_days(
        self, *, since: str | None = None, until: str | None = None, owner: str | None = None
    ) -> list[UsageDay]:
        """What was used by day, as 2026-11-28, of UTC: the last 30 days without since and until.

        Admins get all owners, or one; everybody else themselves.
        """
        query = {"since": since, "until": until, "owner": owner}
        request = Request(method="GET", path=_core.url_path("usage", "days"), query=query, safe=True)
        return decode_list(UsageDay, _core.as_object(self._transport.json(request)).get("days"))

    def usage_csv(
        self, *, since: str | None = None, until: str | None = None, owner: str | None = None
    ) -> str:
        """usage_days as a table, for a spreadsheet."""
        query = {"since": since, "until": until, "owner": owner, "format": "csv"}
        request = Request(method="GET", path=_core.url_path("usage", "days"), query=query, safe=True)
        return (self._transport.content(request)).decode()

    def list_inspections(self) -> list[Inspection]:
        """Who looked into what is the client's, or made a key or set a password in its name."""
        return decode_list(Inspection, _core.as_object(self._get("me", "inspections")).get("inspections"))

    def create_user(
        self,
        name: str,
        *,
        email: str | None = None,
        role: UserRole | None = None,
        password: str | None = None,
    ) -> User:
        """Makes a user, without a key. Only admins may; AlreadyExistsError if the name is taken."""
        body = _core.given({"name": name, "email": email, "role": role, "password": password})
        request = Request(method="POST", path=_core.url_path("users"), json=body)
        return decode(User, self._transport.json(request))

    def get_user(self, name: str) -> User:
        """A user; NotFoundError if there is none of that name, or the client's key may not see it."""
        return decode(User, self._get("users", name))

    def list_users(self) -> list[User]:
        """All users by name, or only the client's own if its key is no admin's."""
        return decode_list(User, _core.as_object(self._get("users")).get("users"))

    def update_user(
        self,
        name: str,
        *,
        email: str | None = None,
        role: UserRole | None = None,
        state: Literal["active", "disabled"] | None = None,
        password: str | None = None,
        current_password: str | None = None,
        inspect: bool | None = None,
        images: Literal["none", "pull", "build"] | None = None,
    ) -> User:
        """Changes a user. What is not given stays; an empty email or password takes it away.

        Users change their own email and password, with current_password where the client's key ends,
        has a parent, or may less than they do by signing in; the rest is for admins. inspect, an admin's
        right to look into what others have, is the daemon's own key's to give. images is what a user who is
        no admin may make images of.
        """
        body = _core.given(
            {
                "email": email,
                "role": role,
                "state": state,
                "password": password,
                "current_password": current_password,
                "inspect": inspect,
                "images": images,
            }
        )
        request = Request(method="PATCH", path=_core.url_path("users", name), json=body, safe=True)
        return decode(User, self._transport.json(request))

    def delete_user(self, name: str) -> None:
        """Ends a user's keys and removes all that the user owns. Only admins may.

        It returns after about a second also if something is left: get_user tells
        the state deleting then, and raises NotFoundError when all is gone.
        """
        path = _core.url_path("users", name)
        self._transport.json(Request(method="DELETE", path=path, safe=True, wait=True))

    def create_key(
        self,
        *,
        user: str | None = None,
        name: str | None = None,
        scope: KeyScope | None = None,
        ttl_seconds: int | None = None,
    ) -> NewKey:
        """Makes an API key, whose text is in key of the answer and nowhere else.

        Without user it is the client's user's, and a child of the client's key: it has at most its scope
        and life, and is revoked with it. Keys of other users are made by admins. scope is run if it is
        not given. Without ttl_seconds it ends never, or with the key that makes it.
        """
        body = _core.given({"user": user, "name": name, "scope": scope, "ttl_seconds": ttl_seconds})
        request = Request(method="POST", path=_core.url_path("keys"), json=body)
        return decode(NewKey, self._transport.json(request))

    def list_keys(self, *, user: str | None = None) -> list[Key]:
        """Keys, of the user if one is given: oldest first, with those that have ended.

        An admin sees all, a key that no other has made those of its user, any other itself and its own.
        """
        request = Request(method="GET", path=_core.url_path("keys"), query={"user": user}, safe=True)
        return decode_list(Key, _core.as_object(self._transport.json(request)).get("keys"))

    def revoke_key(self, key_id: str) -> None:
        """Ends a key, those that it has made, and what is under way in their names."""
        path = _core.url_path("keys", key_id)
        self._transport.json(Request(method="DELETE", path=path, safe=True))

    def change_sessions(
        self, action: Literal["stop", "start", "pause", "resume", "destroy"], ids: Sequence[str]
    ) -> list[BulkResult]:
        """Does the same with up to 1000 sessions, by their ids, names or beginnings of ids, a few at a time.

        There is a result for each, in the order of ids: one that fails holds up no other and
        raises nothing. To repeat it is no error.
        """
        request = Request(
            method="POST",
            path=_core.url_path("sessions", "bulk"),
            json={"action": action, "ids": list(ids)},
            safe=True,
            wait=True,
        )
        return decode_list(BulkResult, _core.as_object(self._transport.json(request)).get("results"))

    def complete_scope(self, scope: str, *, retention: float | None = None) -> CompletedScope:
        """Ends the sessions that a scope has, as workflow:run-1, now or after retention seconds.

        To repeat it is no error.
        """
        namespace, _, scope_id = scope.partition(":")
        path = _core.url_path("scopes", namespace, scope_id, "complete")
        body = _core.given({"retention_seconds": None if retention is None else round(retention)})
        request = Request(method="POST", path=path, json=body, safe=True, wait=True)
        return decode(CompletedScope, self._transport.json(request))

    def list_audit(
        self,
        *,
        before: int | None = None,
        limit: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        owner: str | None = None,
        session: str | None = None,
        route: str | None = None,
        failed: bool | None = None,
        changes: bool | None = None,
    ) -> AuditPage:
        """What clients did, the newest first; before is next_before of the page before.

        Others than admins are told of what they did themselves, and of what an admin looked into of theirs.
        failed is a status of 400 and more; changes leaves out what only looks, listens or asks again.
        """
        query = {
            "before": before,
            "limit": limit,
            "since": since.isoformat() if since else None,
            "until": until.isoformat() if until else None,
            "owner": owner,
            "session": session,
            "route": route,
            "failed": failed,
            "changes": changes,
        }
        request = Request(method="GET", path=_core.url_path("audit"), query=query, safe=True)
        return decode(AuditPage, self._transport.json(request))

    def pool_status(self) -> PoolStatus:
        """What is ready for sessions that are about to come."""
        return decode(PoolStatus, self._get("pool", "status"))

    def host_history(self, *, since: datetime | None = None, step: int | None = None) -> HostHistory:
        """How full the host was, oldest first; only admins may ask.

        step is the seconds between samples: 10, of the last hour, or 60, of the last day; without it the
        finest since that time.
        """
        query = {"since": since.isoformat() if since else None, "step": step}
        request = Request(method="GET", path=_core.url_path("host", "history"), query=query, safe=True)
        return decode(HostHistory, self._transport.json(request))

    def host_findings(self) -> HostFindings:
        """What sandkasten doctor and sandkasten fsck find while the daemon works, the gravest first.

        It takes some seconds where something is wrong. Only admins may ask.
        """
        return decode(HostFindings, self._get("host", "findings"))

    def info(self) -> DaemonInfo:
        """The daemon's version, defaults and limits."""
        return decode(DaemonInfo, self._get("info"))

    def _usage(self, path: str, month: str | None) -> OwnerUsage:
        request = Request(method="GET", path=path, query={"month": month}, safe=True)
        return decode(OwnerUsage, self._transport.json(request))

    def _get(self, *path: str) -> object:
        return self._transport.json(Request(method="GET", path=_core.url_path(*path), safe=True))
