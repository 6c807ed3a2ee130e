"""What streams tell, as dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypedDict

from ._bytes import exact

Cause = Literal["exited", "signaled", "timeout", "oom_killed", "shell_exited", "canceled", "sandbox_gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecChunk:
    """A piece of output of a command that runs."""

    chunk: str
    chunk_base64: str | None = None
    stream: Literal["stdout", "stderr", "output"] = "output"
    """Of a process: which of the two. The output of a shell's command is one."""
    timestamp: datetime | None = None
    """When the daemon sent it."""

    @property
    def text(self) -> str:
        """The piece as text; U+FFFD stands for what is not UTF-8."""
        return self.chunk

    @property
    def data(self) -> bytes:
        """The piece exactly as it was written."""
        return exact(self.chunk, self.chunk_base64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecEnd:
    """How a command ended whose output was streamed."""

    exec_id: str
    exit_code: int
    """128 and the signal's number if a signal ended it, 124 if its time was up."""
    cause: Cause
    duration_ms: int
    cwd: str = ""
    """Of the shell, after the command."""
    signal: int | None = None
    timed_out: bool = False
    disk_full: bool = False
    """It failed, and the session's disk or workspace had no room left then."""
    shell_restarted: bool = False
    output_bytes: int = 0
    dropped_bytes: int = 0
    """What the stream did not show, since it was not kept until then."""
    output_file: str | None = None
    output_file_error: str | None = None
    """Why that has only the beginning of the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """Something that changed in a directory."""

    kind: str
    """create, write, remove, rename, chmod; or overflow: some are lost, look at the directory again."""
    path: str = ""
    """Relative to the directory."""
    type: str | None = None
    """What it is, as in FileEntry."""
    origin: str | None = None
    """The path before a rename."""


OnDisconnect = Literal["continue", "kill"]


class ProcessOptions(TypedDict, total=False):
    """How a process runs."""

    cwd: str
    """Where it starts; relative to /workspace, which is the default."""
    env: Mapping[str, str]
    """Variables, added to the session's."""
    stdin: str | bytes
    """What it reads. Without it, nothing."""
    open_stdin: bool
    """Leave standard input open behind that, for Exec.write_stdin."""
    user: str
    """A name or number, with :group if wanted."""
    timeout_ms: int
    """In the background there is none without it."""
    tty: bool
    """Run on a terminal: output instead of stdout and stderr."""
    stderr: Literal["separate", "merged"]
    """merged: output instead of stdout and stderr, in the order in which they were written."""
    on_disconnect: OnDisconnect
    """kill: it ends when the call is interrupted or cancelled, or the connection breaks."""
    rows: int
    cols: int
    output_file: str
    """A file inside the sandbox that gets all of the output."""
    raw_output: bool
    """Leave control sequences in the output."""
