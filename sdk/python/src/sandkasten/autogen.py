"""A code executor for AutoGen: what its agents write runs in a session.

```python
async with SandboxClient() as client, SandkastenCodeExecutor(client) as executor:
    agent = CodeExecutorAgent("executor", code_executor=executor)
```

It needs the extra `autogen` of the distribution, which is called sandkasten-sdk. The session's
image needs python3 for Python code, and bash for shell code.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import re
import uuid
from typing import Any

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult

from ._async.client import SandboxClient
from ._async.session import Session
from ._errors import APIError, SandkastenError
from ._models import ProcessResult
from ._types import ProcessOptions

# The words of AutoGen's own executors, and what runs a file of that language.
_LANGUAGES = {
    "python": ("python3", "py"),
    "python3": ("python3", "py"),
    "py": ("python3", "py"),
    "bash": ("bash", "sh"),
    "shell": ("bash", "sh"),
    "sh": ("sh", "sh"),
}
_WORKSPACE = "/workspace"
# The codes of errors that another name, which the model writes, would not have.
_NAME_CODES = {
    "invalid_argument",
    "permission_denied",
    "not_found",
    "conflict",
    "already_exists",
    "unprocessable",
}
# A first line as "# filename: tools/plot.py" keeps the code as that file, as in AutoGen's executors.
_FILENAME = re.compile(r"^\s*(?:#|//)\s*filename:\s*(\S+)\s*$")


class SandkastenCodeExecutor(CodeExecutor):
    """Runs code blocks in a session, each as a program of its own in /workspace.

    The session is made by start, or by the first code, and removed by stop; its files stay
    between calls, and restart makes a fresh one. timeout is the seconds of one block. The
    rest are options of `SandboxClient.create_session`. AutoGen's component configuration is
    not supported, because a client cannot be part of it.
    """

    def __init__(
        self, client: SandboxClient, *, image: str = "python", timeout: float = 60, **options: Any
    ) -> None:
        if not timeout > 0:
            raise ValueError("timeout must be more than 0 seconds")
        self._client = client
        self._options = {"image": image, "on_expiry": "destroy", **options}
        self._timeout = timeout
        self._session: Session | None = None
        self._starting = asyncio.Lock()

    @property
    def session(self) -> Session:
        """The session, while the executor is started."""
        if self._session is None:
            raise RuntimeError("the executor is not started: call start, or use it in async with")
        return self._session

    async def start(self) -> None:
        """Makes the session. Does nothing if there is one."""
        async with self._starting:
            if self._session is None:
                self._session = await self._client.create_session(**self._options)

    async def stop(self) -> None:
        """Removes the session with its files. Does nothing if there is none."""
        async with self._starting:
            if self._session is None:
                return
            await self._session.destroy()
            self._session = None

    async def restart(self) -> None:
        """Begins anew: a session without the files of the one before."""
        await self.stop()
        await self.start()

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        """Runs the blocks one after another, until one fails.

        The exit code is 124 if a block's time was up. A cancelled token raises
        asyncio.CancelledError, and the code ends.
        """
        await self.start()
        task = asyncio.ensure_future(self._run_blocks(code_blocks))
        cancellation_token.link_future(task)
        return await task

    async def _run_blocks(self, blocks: list[CodeBlock]) -> CodeResult:
        output = ""
        for block in blocks:
            result = await self._run_block(block)
            output += result.output
            if result.exit_code != 0:
                return CodeResult(exit_code=result.exit_code, output=output)
        return CodeResult(exit_code=0, output=output)

    async def _run_block(self, block: CodeBlock) -> CodeResult:
        language = block.language.lower()
        if language not in _LANGUAGES:
            known = ", ".join(_LANGUAGES)
            return CodeResult(exit_code=1, output=f"unknown language {language!r}; use one of {known}\n")
        program, suffix = _LANGUAGES[language]
        named = _FILENAME.match(block.code.split("\n", 1)[0])
        path = named[1] if named else f".code-{uuid.uuid4().hex}.{suffix}"
        if named and not _in_workspace(path):
            return CodeResult(exit_code=1, output=f"Filename is not in the workspace: {path}\n")
        try:
            await self.session.write(path, block.code)
        except APIError as err:
            if not named or err.code not in _NAME_CODES:
                raise
            return CodeResult(exit_code=1, output=f"the file {path} cannot be written: {err}\n")
        try:
            options: ProcessOptions = {
                "timeout_ms": int(self._timeout * 1000),
                "stderr": "merged",
                "on_disconnect": "kill",
            }
            result = await self.session.processes.run([program, path], **options)
        finally:
            if not named:
                with contextlib.suppress(SandkastenError):  # what came of the code counts
                    await asyncio.shield(self.session.remove(path))
        return _code_result(result, self._timeout)


def _in_workspace(path: str) -> bool:
    whole = posixpath.normpath(posixpath.join(_WORKSPACE, path))
    return whole.startswith(_WORKSPACE + "/")


def _code_result(result: ProcessResult, timeout: float) -> CodeResult:
    output = result.output or ""
    if result.timed_out:
        return CodeResult(exit_code=124, output=f"{output}\n[killed: its {timeout:g} seconds were up]\n")
    return CodeResult(exit_code=1 if result.exit_code is None else result.exit_code, output=output)
