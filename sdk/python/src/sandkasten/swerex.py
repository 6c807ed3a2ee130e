"""A deployment for SWE-ReX: SWE-agent and its relatives work in a session.

```python
deployment = SandkastenDeployment(image="python")
await deployment.start()
await deployment.runtime.create_session(CreateBashSessionRequest())
print(await deployment.runtime.run_in_session(BashAction(command="pwd")))
await deployment.stop()
```

It needs the extra `swerex` of the distribution, which is called sandkasten-sdk. SWE-ReX's server
is not needed in the image: sessions of SWE-ReX are shells of the session, which needs bash.
"""

from __future__ import annotations

import contextlib
import io
import logging
import posixpath
import tarfile
import uuid
from pathlib import Path
from typing import Any, NoReturn

from swerex.deployment.abstract import AbstractDeployment
from swerex.deployment.hooks.abstract import CombinedDeploymentHook, DeploymentHook
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    DeploymentNotStartedError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
)
from swerex.runtime.abstract import (
    AbstractRuntime,
    Action,
    BashAction,
    BashInterruptAction,
    BashObservation,
    CloseBashSessionResponse,
    CloseResponse,
    CloseSessionRequest,
    CloseSessionResponse,
    Command,
    CommandResponse,
    CreateBashSessionResponse,
    CreateSessionRequest,
    CreateSessionResponse,
    IsAliveResponse,
    Observation,
    ReadFileRequest,
    ReadFileResponse,
    UploadRequest,
    UploadResponse,
    WriteFileRequest,
    WriteFileResponse,
)

from ._async.client import SandboxClient
from ._async.session import Session
from ._bytes import exact
from ._dialogue import Dialogue
from ._errors import ConflictError, NotFoundError, SandkastenError
from ._models import ProcessResult
from ._types import ProcessOptions

WORKSPACE = "/workspace"
# Writes what the shell of a dialogue reads first: directory and exported variables of this one.
_SETUP = (
    "{{ export -p; printf 'cd %q\\n' \"$PWD\"; "
    "echo 'stty -echo; PS1=$SANDKASTEN_PROMPT PS2=; unset SANDKASTEN_PROMPT; rm -f {file}'; }} > {file}"
)


class SandkastenRuntime(AbstractRuntime):
    """One session as a runtime of SWE-ReX. Its deployment, or the caller, destroys the session.

    Relative paths start at /workspace. Interactive programs, and texts to expect, have a shell
    on a terminal beside the session's shell, with the directory and the exported variables that
    this one has; it ends when the program has ended. max_timeout_ms is the most that the daemon
    allows a command, which one without a timeout has; with 0 such a one has the daemon's default.
    """

    def __init__(
        self, session: Session, *, max_timeout_ms: int = 0, logger: logging.Logger | None = None
    ) -> None:
        self.session = session
        """The session that everything happens in."""
        self._max_timeout_ms = max_timeout_ms
        self.logger = logger or logging.getLogger("sandkasten.swerex")
        self._shells: set[str] = set()
        self._dialogues: dict[str, Dialogue] = {}

    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:
        """Whether the session can run something."""
        try:
            info = await self.session.refresh()
        except SandkastenError as err:
            return IsAliveResponse(is_alive=False, message=str(err))
        alive = info.status in {"running", "paused", "stopped"}
        return IsAliveResponse(is_alive=alive, message="" if alive else f"the session is {info.status}")

    async def create_session(self, request: CreateSessionRequest) -> CreateSessionResponse:
        """Opens a shell of the session, and sources files in it."""
        if request.session in self._shells:
            raise SessionExistsError(f"session {request.session} already exists")
        self._shells.add(request.session)
        output = ""
        for path in request.startup_source:
            result = await self._exec(f"source {path}", request.session, request.startup_timeout + 10)
            output += result.output
        return CreateBashSessionResponse(output=output)

    async def run_in_session(self, action: Action) -> Observation:
        """Runs a command in a shell, where directory and variables stay."""
        self._require(action.session)
        if isinstance(action, BashInterruptAction):
            return await self._interrupt(action)
        if action.is_interactive_command or action.is_interactive_quit or action.expect:
            return await self._interact(action)
        if not action.command.strip():
            return BashObservation(output="", exit_code=None if action.check == "ignore" else 0)
        if action.check != "ignore":
            await self._check_syntax(action.command)
        result = await self._exec(action.command, action.session, action.timeout)
        if action.check == "raise" and result.exit_code != 0:
            _fail(action.command, result.exit_code, action.error_msg, result.output)
        return BashObservation(
            output=result.output, exit_code=None if action.check == "ignore" else result.exit_code
        )

    async def close_session(self, request: CloseSessionRequest) -> CloseSessionResponse:
        """Ends a shell with all that runs in it."""
        self._require(request.session)
        self._shells.discard(request.session)
        await self._end_dialogue(request.session)
        await self._close_shell(request.session)
        return CloseBashSessionResponse()

    async def execute(self, command: Command) -> CommandResponse:
        """Runs a program as subprocess.run does, apart from the shells."""
        result = await self._run(_argv(command), command)
        if result.timed_out:
            raise CommandTimeoutError(f"Timeout ({command.timeout}s) exceeded while running command")
        response = CommandResponse(
            stdout=_decoded(_merged(result) if command.merge_output_streams else result.stdout_data),
            stderr=_decoded(result.stderr_data),
            exit_code=result.exit_code,
        )
        if command.check and response.exit_code != 0:
            said = f"{response.stdout}\n{response.stderr}"
            _fail(command.command, response.exit_code, command.error_msg, said)
        return response

    async def read_file(self, request: ReadFileRequest) -> ReadFileResponse:
        """The text of a file anywhere in the sandbox."""
        path = _absolute(request.path)
        staged = path if _in_workspace(path) else await self._stage(path)
        try:
            data = await self.session.read(staged)
        except NotFoundError as err:
            raise FileNotFoundError(f"{request.path}: {err}") from err
        finally:
            if staged != path:
                with contextlib.suppress(SandkastenError):  # what came of the reading counts
                    await self.session.remove(staged)
        return ReadFileResponse(content=data.decode(request.encoding or "utf-8", request.errors or "strict"))

    async def write_file(self, request: WriteFileRequest) -> WriteFileResponse:
        """Writes a text anywhere in the sandbox, and makes its directories."""
        await self._put(request.content.encode(), _absolute(request.path))
        return WriteFileResponse()

    async def upload(self, request: UploadRequest) -> UploadResponse:
        """Copies a local file or directory into the sandbox."""
        source, target = Path(request.source_path), _absolute(request.target_path)
        if source.is_file():
            await self._put(source.read_bytes(), target)
            return UploadResponse()
        if not source.is_dir():
            raise FileNotFoundError(f"there is no {source} to upload")
        staged = _staged()
        await self.session.write_archive(_tar(source), staged, format="tar")
        await self._move(staged, target)
        return UploadResponse()

    async def close(self) -> CloseResponse:
        """Ends the shells. The session stays."""
        for name in sorted(self._shells):
            await self._end_dialogue(name)
            await self._close_shell(name)
        self._shells.clear()
        return CloseResponse()

    def _require(self, name: str) -> None:
        if name not in self._shells:
            raise SessionDoesNotExistError(f"session {name!r} does not exist")

    def _timeout_ms(self, timeout: float | None) -> int:
        """At least 1, since 0 asks for the daemon's default, and no more than the daemon allows."""
        if timeout is None:
            return self._max_timeout_ms
        asked = max(int(timeout * 1000), 1)
        return min(asked, self._max_timeout_ms) if self._max_timeout_ms else asked

    async def _exec(self, command: str, shell: str, timeout: float | None) -> Any:
        result = await self.session.exec(
            command, shell=shell, timeout_ms=self._timeout_ms(timeout), on_disconnect="kill"
        )
        if result.timed_out:
            raise CommandTimeoutError(f"timeout after {timeout} seconds while running command {command!r}")
        return result

    async def _interact(self, action: BashAction) -> BashObservation:
        """Types a line for an interactive program, and returns what it says until a text that is expected."""
        try:
            dialogue = self._dialogues.get(action.session)
            if dialogue is None:
                setup = f"/tmp/.sandkasten-{uuid.uuid4().hex}"
                await self._exec(_SETUP.format(file=setup), action.session, action.timeout)
                dialogue = await Dialogue.begin(self.session, setup, action.timeout)
                self._dialogues[action.session] = dialogue
            output, expected = await dialogue.say(action.command + "\n", action.expect, action.timeout)
        except TimeoutError as err:
            said = f"timeout after {action.timeout} seconds while running command {action.command!r}"
            raise CommandTimeoutError(said) from err
        if expected == dialogue.prompt:
            await self._end_dialogue(action.session)
        output = output.lstrip().removeprefix(action.command).strip()
        return BashObservation(output=output, exit_code=0, expect_string=expected)

    async def _end_dialogue(self, name: str) -> None:
        if (dialogue := self._dialogues.pop(name, None)) is not None:
            with contextlib.suppress(NotFoundError):  # it has ended
                await dialogue.close()

    async def _interrupt(self, action: BashInterruptAction) -> BashObservation:
        """Sends INT to what runs in the shell, and ends it if that changes nothing."""
        if (dialogue := self._dialogues.get(action.session)) is not None:
            try:
                output, expected = await dialogue.say("\x03", action.expect, action.timeout)
            except TimeoutError:
                output, expected = "", dialogue.prompt
            if expected == dialogue.prompt:
                await self._end_dialogue(action.session)
            return BashObservation(output=output.strip(), exit_code=0, expect_string=expected)
        for record in await self.session.execs():
            if record.kind != "shell" or record.shell != action.session or record.state == "ended":
                continue
            running = self.session.processes.get(record.exec_id)
            for _ in range(max(action.n_retry, 1)):
                with contextlib.suppress(ConflictError):  # between two programs
                    await running.signal("INT")
                detail = await running.get(wait_ms=self._timeout_ms(action.timeout))
                if detail.state == "ended":
                    break
            else:
                await running.kill()
        return BashObservation(output="", exit_code=0)

    async def _check_syntax(self, command: str) -> None:
        result = await self.session.processes.run(["bash", "-n"], stdin=command + "\n")
        if result.exit_code == 0:
            return
        raise BashIncorrectSyntaxError(
            f"bash does not understand {command!r}: {_text(result.stderr)}",
            extra_info={"bash_stdout": _text(result.stdout), "bash_stderr": _text(result.stderr)},
        )

    async def _run(self, argv: list[str], command: Command) -> ProcessResult:
        options: ProcessOptions = {
            "timeout_ms": self._timeout_ms(command.timeout),
            "env": command.env or {},
            "cwd": command.cwd or WORKSPACE,
            "stderr": "merged" if command.merge_output_streams else "separate",
            "on_disconnect": "kill",
            "raw_output": True,
        }
        return await self.session.processes.run(argv, **options)

    async def _put(self, data: bytes, path: str) -> None:
        if _in_workspace(path):
            await self.session.write(path, data)
            return
        staged = _staged()
        await self.session.write(staged, data)
        await self._move(staged, path)

    async def _stage(self, path: str) -> str:
        """A copy in /workspace, outside of which the file calls do not reach."""
        staged = _staged()
        await self._shell('cp -- "$1" "$2"', path, staged)
        return staged

    async def _move(self, staged: str, path: str) -> None:
        await self._shell(
            'mkdir -p -- "$(dirname -- "$2")" && cp -RT -- "$1" "$2" && rm -rf -- "$1"', staged, path
        )

    async def _shell(self, script: str, *args: str) -> None:
        result = await self.session.processes.run(["sh", "-c", script, "sh", *args], env={"LC_ALL": "C"})
        if result.exit_code == 0:
            return
        said = _text(result.stderr).strip()
        raise (FileNotFoundError if "No such file" in said else OSError)(said)

    async def _close_shell(self, name: str) -> None:
        with contextlib.suppress(NotFoundError):  # it has run nothing
            await self.session.close_shell(name)


class SandkastenDeployment(AbstractDeployment):
    """Makes a session when it starts and removes it when it stops.

    Without a client it makes one of SANDKASTEN_URL and SANDKASTEN_API_KEY. The rest are options
    of `SandboxClient.create_session`.
    """

    def __init__(
        self,
        *,
        image: str = "python",
        client: SandboxClient | None = None,
        logger: logging.Logger | None = None,
        **options: Any,
    ) -> None:
        self.logger = logger or logging.getLogger("sandkasten.swerex")
        self._options = {"image": image, "on_expiry": "destroy", **options}
        self._given, self._client = client, client
        self._runtime: SandkastenRuntime | None = None
        self._hooks = CombinedDeploymentHook()

    def add_hook(self, hook: DeploymentHook) -> None:
        """Tells the hook of the steps of start."""
        self._hooks.add_hook(hook)

    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:
        """Whether the session can run something."""
        return await self.runtime.is_alive(timeout=timeout)

    async def start(self) -> None:
        """Makes the session. Does nothing if there is one."""
        if self._runtime is not None:
            return
        self._hooks.on_custom_step("Creating session")
        self._client = self._given or SandboxClient()
        limits = (await self._client.info()).limits
        session = await self._client.create_session(**self._options)
        self._runtime = SandkastenRuntime(session, max_timeout_ms=limits.timeout_ms, logger=self.logger)

    async def stop(self) -> None:
        """Removes the session with its files. Does nothing if there is none."""
        if self._runtime is None:
            return
        await self._runtime.session.destroy()
        self._runtime = None
        if self._client is not None and self._given is None:
            await self._client.aclose()

    @property
    def runtime(self) -> SandkastenRuntime:
        """The session as a runtime; DeploymentNotStartedError before start."""
        if self._runtime is None:
            raise DeploymentNotStartedError
        return self._runtime


def _argv(command: Command) -> list[str]:
    if command.shell:
        words = [command.command] if isinstance(command.command, str) else command.command
        return ["sh", "-c", *words]
    return [command.command] if isinstance(command.command, str) else command.command


def _fail(command: str | list[str], exit_code: int | None, error_msg: str, output: str) -> NoReturn:
    said = f"Command {command!r} failed with exit code {exit_code}. Here is the output:\n{output!r}"
    raise NonZeroExitCodeError(f"{error_msg}: {said}" if error_msg else said)


def _tar(directory: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(directory, arcname=".")
    return packed.getvalue()


def _merged(result: ProcessResult) -> bytes:
    return exact(result.output, result.output_base64)


def _decoded(output: bytes) -> str:
    """As SWE-ReX's own runtimes do it."""
    return output.decode(errors="backslashreplace")


def _text(output: str | None) -> str:
    return output or ""


def _absolute(path: str) -> str:
    return posixpath.normpath(posixpath.join(WORKSPACE, path))


def _in_workspace(path: str) -> bool:
    return path.startswith(WORKSPACE + "/")


def _staged() -> str:
    return f"{WORKSPACE}/.sandkasten-{uuid.uuid4().hex}"
