"""What streams tell, as dataclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypedDict

from ._bytes import exact
from ._models import NetworkDenial

if TYPE_CHECKING:
    from typing_extensions import Required

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
    network_denied: list[NetworkDenial] = field(default_factory=list)
    """What the session's network refused while the command ran, by whichever program: the newest ten."""


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
NetworkMode = Literal["none", "allow", "internet", "full"]
UserRole = Literal["user", "admin"]
KeyScope = Literal["read", "run", "admin"]


class NetworkSecretOptions(TypedDict, total=False):
    """A credential that stays outside of the sandbox: what it is for, or the name of a stored one."""

    name: Required[str]
    """The environment variable in the sandbox that has a placeholder, which is worth nothing."""
    hosts: Sequence[str]
    """Who gets it, as entries of allow without a port. The policy has to allow them."""
    header: str
    """The header in which the placeholder is replaced."""
    query: str
    """The query parameter in which it is replaced, instead of a header."""
    value: str
    """What the hosts get. A change that leaves it out keeps the value that the session has for this name."""
    stored: str
    """A stored secret, instead of hosts, header, query and value."""


class NetworkOptions(TypedDict, total=False):
    """What a session is to reach."""

    mode: Required[NetworkMode]
    """none: loopback only. allow: only what the list names. internet: everything public. full: private
    addresses too, where the operator allows it. The host's own addresses are never reached."""
    allow: Sequence[str]
    """Of mode allow: host names, one with a leading wildcard label like *.example.org, addresses, CIDRs,
    each with :port or :port-port if wanted, or groups like @pip. Names without a port are for the ports
    80 and 443."""
    deny: Sequence[str]
    """The same entries, for all ports where they have none. It beats allow."""
    max_mbit: int
    """Megabits per second in each direction."""
    max_connections: int
    """Connections and flows of UDP at once."""
    connections_per_second: int
    """New ones."""
    max_mb: int
    """MiB in both directions together since the session's last start."""
    secrets: Sequence[NetworkSecretOptions]
    """A change that leaves them out keeps those that there are; an empty list removes them."""


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
    """kill: it ends when the connection breaks, too."""
    exec_id: str
    """Its id, 26 random characters of a-z and 2-7; a new one without it."""
    rows: int
    cols: int
    output_file: str
    """A file inside the sandbox that gets all of the output."""
    raw_output: bool
    """Leave control sequences in the output."""
