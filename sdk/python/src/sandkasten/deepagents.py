"""A backend for deepagents: its agents work in a session.

```python
with SyncSandboxClient() as client, client.create_session(image="python") as session:
    agent = create_deep_agent(model, backend=SandkastenSandbox(session))
```

It needs the extra `deepagents` of the distribution, which is called sandkasten-sdk. The
session's image needs sh, and python3 for the file tools of deepagents, which run in it.
"""

from __future__ import annotations

import posixpath
import uuid

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from . import ConflictError, InvalidArgumentError, NotFoundError, PermissionDeniedError, SandkastenError
from ._core import Request
from ._decode import decode
from ._models import DaemonInfo, ProcessResult
from ._sync.session import SyncSession
from ._types import ProcessOptions

WORKSPACE = "/workspace"

# Root can read what nobody may, which would be a surprise to an agent.
_READABLE = """
fail() { echo "$1" >&2; exit 1; }
[ -e "$1" ] || fail "No such file"
[ ! -d "$1" ] || fail "Is a directory"
[ -n "$(find -H "$1" -perm /444)" ] || fail "Permission denied"
"""

# What an error of the API is for deepagents, whose agents know these words.
_ERRORS: tuple[tuple[type[SandkastenError], str], ...] = (
    (NotFoundError, "file_not_found"),
    (PermissionDeniedError, "permission_denied"),
    (InvalidArgumentError, "invalid_path"),
    (ConflictError, "invalid_path"),
)


class SandkastenSandbox(BaseSandbox):
    """One session as a sandbox of deepagents. The caller destroys the session.

    Each command runs in a shell of its own that starts in /workspace, as deepagents
    expects, so that commands may run at the same time.
    """

    def __init__(self, session: SyncSession) -> None:
        self._session = session
        self._limit_ms: int | None = None

    @property
    def id(self) -> str:
        """The session's id."""
        return self._session.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a shell command, for at most timeout seconds if that is given and not 0.

        It never runs longer than the daemon allows.
        """
        options: ProcessOptions = {}
        if timeout:
            options["timeout_ms"] = min(timeout * 1000, self._longest_ms())
        result = self._session.processes.run(["sh", "-c", f"exec 2>&1\n{command}"], **options)
        output = result.stdout or ""
        if result.timed_out:
            seconds = f"{options['timeout_ms'] / 1000:g}" if timeout else "default"
            output += f"\n[killed: its {seconds} seconds were up]"
        return ExecuteResponse(output=output, exit_code=result.exit_code, truncated=result.truncated)

    def _longest_ms(self) -> int:
        """How long the daemon lets a command run."""
        if self._limit_ms is None:
            request = Request(method="GET", path="/v1/info", safe=True)
            info = decode(DaemonInfo, self._session._transport.json(request))
            self._limit_ms = info.limits.timeout_ms
        return self._limit_ms

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Writes files, one after another; each has its own result."""
        return [FileUploadResponse(path=path, error=self._upload(path, data)) for path, data in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Reads files, one after another; each has its own result."""
        return [self._download(path) for path in paths]

    def _upload(self, path: str, data: bytes) -> str | None:
        if not path.startswith("/"):
            return "invalid_path"
        try:
            if _in_workspace(path):
                self._session.write(path, data)
                return None
            return self._upload_outside(path, data)
        except SandkastenError as err:
            return _word(err)

    def _upload_outside(self, path: str, data: bytes) -> str | None:
        """By way of a file in /workspace, outside of which the file calls do not reach."""
        staged = _staged()
        self._session.write(staged, data)
        script = 'mkdir -p -- "$(dirname -- "$2")" && mv -fT -- "$1" "$2" || { rm -f -- "$1"; exit 1; }'
        return _failure(self._run(script, staged, path))

    def _download(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error="invalid_path")
        try:
            if error := _failure(self._run(_READABLE, path)):
                return FileDownloadResponse(path=path, error=error)
            return FileDownloadResponse(path=path, content=self._read(path))
        except SandkastenError as err:
            return FileDownloadResponse(path=path, error=_word(err))

    def _read(self, path: str) -> bytes:
        if _in_workspace(path):
            return self._session.read(path)
        staged = _staged()
        try:
            self._run('cp -- "$1" "$2"', path, staged)
            return self._session.read(staged)
        finally:
            self._run('rm -f -- "$1"', staged)

    def _run(self, script: str, *args: str) -> ProcessResult:
        return self._session.processes.run(["sh", "-c", script, "sh", *args], env={"LC_ALL": "C"})


def _in_workspace(path: str) -> bool:
    return posixpath.normpath(path).startswith(WORKSPACE + "/")


def _staged() -> str:
    return f"{WORKSPACE}/.sandkasten-{uuid.uuid4().hex}"


def _word(err: SandkastenError) -> str:
    return next((word for kind, word in _ERRORS if isinstance(err, kind)), str(err))


def _failure(result: ProcessResult) -> str | None:
    """What went wrong, from what the tools of the system say of it."""
    if result.exit_code == 0:
        return None
    text = result.stderr or ""
    words = {
        "No such file": "file_not_found",
        "Is a directory": "is_directory",
        "Permission denied": "permission_denied",
        "Not a directory": "invalid_path",
    }
    return next((word for said, word in words.items() if said in text), text.strip() or "failed")
