"""A sandbox environment for Inspect (inspect_ai): each sample of an evaluation has a session.

```python
Task(dataset=..., solver=..., sandbox="sandkasten")  # the image python
spec = SandboxEnvironmentSpec("sandkasten", SandkastenConfig(image="base", memory_mb=2048))
Task(dataset=..., solver=..., sandbox=spec)
```

It needs the extra `inspect` of the distribution, which is called sandkasten-sdk; Inspect finds it
by its entry point. The client is made of SANDKASTEN_URL and SANDKASTEN_API_KEY. The session's
image needs sh.
"""

from __future__ import annotations

import contextlib
import posixpath
import uuid
from typing import Any, Literal, NoReturn, overload

import anyio
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from pydantic import BaseModel

from ._async.client import SandboxClient
from ._async.session import Session
from ._errors import ConflictError, NotFoundError, UnavailableError, UnprocessableError
from ._models import ProcessResult
from ._types import ProcessOptions

WORKSPACE = "/workspace"
# The bytes of input that go with a request.
_INPUT = 256 << 10
# How the script says that a file is larger than Inspect reads.
_TOO_LARGE = 98


class SandkastenConfig(BaseModel, frozen=True):
    """What the sessions of an evaluation are made of."""

    image: str = "python"
    cpu: float | None = None
    memory_mb: int | None = None
    disk_mb: int | None = None
    lifetime_seconds: int | None = None
    network_mode: Literal["none", "internet", "full"] | None = None
    user: str | None = None
    """Who runs what names no user: a name or number of the image, root without one."""


@sandboxenv(name="sandkasten")
class SandkastenSandboxEnvironment(SandboxEnvironment):
    """The session of one sample. Relative paths start at /workspace."""

    def __init__(self, client: SandboxClient, session: Session, user: str | None = None) -> None:
        super().__init__()
        self._client = client
        self.session = session
        """What the sample works in."""
        self._user = user
        self._limit_ms: int | None = None

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Makes a session for the sample."""
        wanted = _config(config)
        client = SandboxClient()
        try:
            options = wanted.model_dump(exclude={"user"}, exclude_none=True)
            session = await client.create_session(on_expiry="destroy", **options)
        except BaseException:
            await client.aclose()
            raise
        return {"default": cls(client, session, wanted.user)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """Removes the sample's session with its files."""
        for environment in environments.values():
            own = environment.as_type(cls)
            with anyio.CancelScope(shield=True):
                await own.session.destroy()
                await own._client.aclose()

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """The configuration of a log that is evaluated again."""
        return SandkastenConfig(**config)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Runs a program, for at most timeout seconds, and never longer than the daemon allows.

        Of output beyond the daemon's limit the middle is missing.
        """
        options: ProcessOptions = {
            "cwd": _absolute(cwd or ""),
            "env": env or {},
            "on_disconnect": "kill",
            "raw_output": True,
        }
        if user or self._user:
            options["user"] = user or self._user or ""
        try:
            limit_ms = await self._longest_ms()
            options["timeout_ms"] = min(timeout * 1000, limit_ms) if timeout else limit_ms
            result = await self._run(cmd, input, options)
        except UnprocessableError as err:
            return _not_started(cmd, user, err)
        except (NotFoundError, ConflictError, UnavailableError) as err:
            raise SandboxUnavailableError(str(err)) from err
        if result.timed_out:
            raise TimeoutError(f"the command took longer than {options['timeout_ms'] / 1000:g} seconds")
        code = _returncode(result)
        return ExecResult(
            success=code == 0,
            returncode=code,
            stdout=result.stdout_data.decode(errors="replace"),
            stderr=result.stderr_data.decode(errors="replace"),
        )

    async def _longest_ms(self) -> int:
        """How long the daemon lets a command run. Without a time it would have a default that is shorter."""
        if self._limit_ms is None:
            self._limit_ms = (await self._client.info()).limits.timeout_ms
        return self._limit_ms

    async def _run(self, cmd: list[str], input: str | bytes | None, options: ProcessOptions) -> ProcessResult:
        data = input.encode() if isinstance(input, str) else input or b""
        if len(data) <= _INPUT:
            options["stdin"] = data
            return await self.session.processes.run(cmd, **options)
        # A request carries no more than that, so that the rest comes by way of a file.
        path = _staged()
        await self.session.write(path, data, mode="0644")
        try:
            script = 'exec <"$1" && rm -f -- "$1" && shift && exec "$@"'
            return await self.session.processes.run(["sh", "-c", script, "sh", path, *cmd], **options)
        finally:
            await self._remove(path)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Writes a file anywhere in the sandbox, and makes its directories."""
        data = contents.encode() if isinstance(contents, str) else contents
        path, staged = _absolute(file), _staged()
        await self.session.write(staged, data, mode="0644")
        try:
            await self._script(_WRITE, file, path, staged)
        finally:
            await self._remove(staged)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Reads a file anywhere in the sandbox."""
        path, staged = _absolute(file), _staged()
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            await self._script(_READ, file, path, staged, str(limit))
            data = await self.session.read(staged)
        finally:
            await self._remove(staged)
        return data.decode() if text else data

    async def _script(self, script: str, file: str, *args: str) -> None:
        options: ProcessOptions = {"env": {"LC_ALL": "C"}}
        if self._user:
            options["user"] = self._user
        result = await self.session.processes.run(["sh", "-c", script, "sh", *args], **options)
        if result.exit_code == _TOO_LARGE:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        if result.exit_code != 0:
            _raise((result.stderr or "").strip(), file)

    async def _remove(self, path: str) -> None:
        with contextlib.suppress(NotFoundError):
            await self.session.remove(path)


# Root may read and write what nobody may, which would hide mistakes of a sample: the mode decides.
_READ = f"""
fail() {{ echo "$1" >&2; exit 1; }}
[ -e "$1" ] || fail "No such file or directory"
[ ! -d "$1" ] || fail "Is a directory"
[ -r "$1" ] && [ -n "$(find -H "$1" -perm /444)" ] || fail "Permission denied"
[ "$(wc -c <"$1")" -le "$3" ] || exit {_TOO_LARGE}
cp -- "$1" "$2" && chmod 0644 "$2"
"""
_WRITE = """
fail() { echo "$1" >&2; exit 1; }
[ ! -d "$1" ] || fail "Is a directory"
[ ! -e "$1" ] || [ -n "$(find -H "$1" -perm /222)" ] || fail "Permission denied"
mkdir -p -- "$(dirname -- "$1")" && cat -- "$2" >"$1"
"""


def _config(config: SandboxEnvironmentConfigType | None) -> SandkastenConfig:
    if config is None:
        return SandkastenConfig()
    if not isinstance(config, SandkastenConfig):
        raise TypeError(
            'give the sandbox as SandboxEnvironmentSpec("sandkasten", SandkastenConfig(image=...))'
        )
    return config


def _not_started(cmd: list[str], user: str | None, err: UnprocessableError) -> ExecResult[str]:
    """What a shell says of a program that it cannot start."""
    if err.field == "user":
        raise SandboxUserUnsupportedError(f"the sandbox has no user {user!r}") from err
    if err.reason == "not_executable":
        raise PermissionError(f"{cmd[0]}: {err}") from err
    return ExecResult(success=False, returncode=127, stdout="", stderr=f"{cmd[0]}: {err}\n")


def _returncode(result: ProcessResult) -> int:
    if result.exit_code is not None:
        return result.exit_code
    return 128 + (result.signal or 9)


def _raise(said: str, file: str) -> NoReturn:
    kinds: dict[str, type[OSError]] = {
        "No such file": FileNotFoundError,
        "Not a directory": FileNotFoundError,
        "Is a directory": IsADirectoryError,
        "Permission denied": PermissionError,
    }
    kind = next((kind for words, kind in kinds.items() if words in said), OSError)
    raise kind(f"{file}: {said}")


def _absolute(path: str) -> str:
    return posixpath.normpath(posixpath.join(WORKSPACE, path))


def _staged() -> str:
    return f"{WORKSPACE}/.sandkasten-{uuid.uuid4().hex}"
