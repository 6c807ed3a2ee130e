# Written by scripts/generate.py from the daemon's openapi.json. Change that instead.
"""What the daemon answers, as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from ._bytes import ChunkBytes, OutputBytes, ProcessBytes, ResultForms, RunForms


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a process took of the sandbox."""

    cpu_ms: int
    """Time on a processor."""

    memory_bytes: int
    """Resident now; after the end, the most that one of them had."""

    processes: int
    """Now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a sandbox may take."""

    cpu: float | None = None
    """Cores; 1.5 is one and a half. 0 is the default, here as in the others."""

    disk_mb: int | None = None
    """All that the sandbox writes, but for a workspace that outlives it."""

    memory_mb: int | None = None

    pids: int | None = None
    """Processes and threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session as it was when the daemon was asked."""

    auto_resume: bool
    """A request that needs its programs wakes it when it is paused."""

    boot_id: str | None = None
    """Changes when the session is stopped and started: its processes and shells are others then."""

    created_at: datetime

    cursor: str | None = None
    """In a list with limit: after of the page that begins behind this session."""

    cwd: str
    """Of the default shell, after its last command."""

    driver: str
    """What made its sandbox."""

    end_reason: str | None = None
    """Why it ended, stopped or was paused, for people."""

    ended_at: datetime | None = None

    expires_at: datetime
    """When it expires, or is stopped as on_expiry says, if nothing happens. Activity moves it, up to the
    maximum lifetime."""

    file_scope: Literal["workspace", "sandbox"] | None = None
    """What the calls for files reach: /workspace, or any path in the sandbox. Absent where it did not ask:
    then it is what the configuration says for its key."""

    forked_from: str | None = None
    """The session whose files it began with; absent if it is no fork."""

    hostname: str | None = None

    id: str
    """26 characters of a-z and 2-7."""

    idle_timeout_seconds: int | None = None
    """Idle time after which on_idle happens; absent if only ttl_seconds counts."""

    image: str

    image_digest: str | None = None
    """What the image's name meant when the session was created."""

    labels: dict[str, str] = field(default_factory=dict)

    last_activity: datetime

    lifetime_seconds: int | None = None
    """Age at which it expires, active, stopped or not; absent if there is none."""

    limits: Limits

    name: str | None = None
    """That it was given at create. It may stand wherever a path has the session's id."""

    network: Network
    """What it may reach."""

    network_mode: str
    """The mode of network."""

    on_expiry: Literal["stop", "destroy"] | None = None
    """What happens to it after ttl_seconds: stop keeps its files for stopped_retention_seconds. It is
    destroy where a stop would not keep them, whatever was asked for."""

    on_idle: Literal["pause", "stop", "destroy"]
    """What happens to it after idle_timeout_seconds."""

    owner: str | None = None
    """Whose it is. Absent if the daemon needs no keys."""

    readonly_rootfs: bool

    status: Literal[
        "creating",
        "running",
        "paused",
        "stopping",
        "stopped",
        "starting",
        "destroyed",
        "expired",
        "crashed",
        "failed",
    ]

    stopped_retention_seconds: int
    """How long it is kept when it is stopped, from the stop on and up to lifetime_seconds. expires_at of a
    stopped session tells."""

    ttl_seconds: int
    """Idle time after which on_expiry happens, also when it is paused. A stopped session has
    stopped_retention_seconds."""

    usage: SessionUsage | None = None
    """In a list with usage: what it used a few seconds ago. Absent without processes, and where it is not
    known yet."""

    workspace_id: str | None = None
    """Of the workspace that outlives the session; absent if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What a session takes, measured from outside of it."""

    cpu_limit: float
    """In cores."""

    cpu_usage_usec: int
    """Processor time used so far."""

    disk_bytes: int
    """Of all that it wrote, but for a workspace that outlives it."""

    disk_limit: int
    """In bytes."""

    files: int
    """Files and directories on the same disk."""

    files_limit: int

    memory_bytes: int

    memory_limit: int
    """In bytes."""

    memory_peak: int
    """The most that memory_bytes ever was."""

    network: NetworkStats | None = None
    """Since the session's last start, or the daemon's; absent if it has no network."""

    oom_kills: int
    """Processes killed for want of memory."""

    pids: int

    pids_limit: int

    workspace_bytes: int | None = None
    """Of a workspace that outlives the session, by whomever they were written."""

    workspace_limit: int | None = None
    """In bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsSample:
    """What a session used at a time."""

    at: datetime

    cpu_usage_usec: int
    """Processor time used up to then. It begins anew with the session's start."""

    disk_bytes: int

    memory_bytes: int
    """With a step of 60 the most of the minute."""

    pids: int

    received_bytes: int

    sent_bytes: int
    """By its network since its last start, or the daemon's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsHistory:
    """What a session used over its life, oldest first."""

    samples: list[StatsSample]
    """Oldest first. Where the session did not run there is a hole."""

    step_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUsage:
    """What a session used a few seconds ago."""

    cpu_usage_usec: int
    """Processor time used up to then. Two answers tell how busy it is."""

    disk_bytes: int
    """Of all that it wrote, but for a workspace that outlives it."""

    measured_at: datetime

    memory_bytes: int

    pids: int

    received_bytes: int | None = None

    sent_bytes: int | None = None
    """By its network since its last start, or the daemon's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult(OutputBytes):
    """How a command of a shell ended, and its output."""

    cause: Literal["exited", "signaled", "timeout", "oom_killed", "shell_exited", "canceled", "sandbox_gone"]
    """exited: by itself. signaled: by a signal from inside. timeout: its time was up and all its processes
    were killed. oom_killed: the memory limit. shell_exited: it ended the shell. canceled: by cancel.
    sandbox_gone: the sandbox ended under it."""

    cwd: str
    """Of the shell, after the command."""

    disk_full: bool | None = None
    """There, and true, if the exit code is not 0 and the session's disk or workspace had no room left when
    the command ended: at most 2 MiB, or no file. It need not be why."""

    dropped_bytes: int
    """How much is missing."""

    duration_ms: int

    exec_id: str

    exit_code: int
    """128 and the signal's number if a signal ended it, 124 if its time was up."""

    network_denied: list[NetworkDenial] = field(default_factory=list)
    """What the session's network refused while the command ran, by whichever program: the newest ten."""

    output: str
    """Standard output and standard error together."""

    output_base64: str | None = None

    output_bytes: int
    """All that the command wrote, before anything was taken out."""

    output_encoding: Literal["utf-8", "base64"]
    """base64: the output is not valid UTF-8. output_base64 has its bytes, and output has U+FFFD for what
    is wrong."""

    output_file: str | None = None
    """Where all of the output is, if the request asked for it."""

    output_file_error: str | None = None
    """Why that has only the beginning of the output, as when the disk was full. The command was not told."""

    shell_restarted: bool
    """The command ran in a new shell, because the one before had ended. Directory and exported variables
    came along as far as known."""

    signal: int | None = None
    """The number of the signal that ended it."""

    timed_out: bool
    """The same as cause timeout."""

    truncated: bool
    """Something is missing from output. A line in it says where and how much, but for what a control
    string without an end hides."""

    usage: Usage | None = None
    """Of a process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsFor:
    """A command behind which others wait."""

    cmd: str
    """Its first 256 bytes."""

    exec_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRecord:
    """A command or process that the session knows."""

    cause: str | None = None
    """When it has ended; see exec."""

    cmd: str
    """Its first 256 bytes."""

    cwd: str

    disk_full: bool | None = None
    """As in exec."""

    duration_ms: int

    exec_id: str

    exit_code: int | None = None
    """When it has ended."""

    kind: Literal["shell", "process"]
    """A command of a shell, or a process of its own."""

    output_bytes: int
    """All that it has written until now."""

    output_file: str | None = None
    """Where all of the output is, if the request asked for it."""

    output_file_error: str | None = None
    """As in exec."""

    pid: int | None = None
    """Of a process, inside the sandbox."""

    shell: str
    """Empty for a process."""

    shell_restarted: bool

    signal: int | None = None

    started_at: datetime | None = None

    state: Literal["queued", "running", "ended"]

    timed_out: bool

    tty: bool | None = None
    """The process has a terminal."""

    usage: Usage | None = None
    """Of a process."""

    waits_for: WaitsFor | None = None
    """Of a queued command: the one that its shell runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecDetail(OutputBytes):
    """A command or process with its output until now."""

    cause: str | None = None
    """When it has ended; see exec."""

    cmd: str
    """Its first 256 bytes."""

    cwd: str

    disk_full: bool | None = None
    """As in exec."""

    dropped_bytes: int
    """How much is missing."""

    duration_ms: int

    exec_id: str

    exit_code: int | None = None
    """When it has ended."""

    kind: Literal["shell", "process"]
    """A command of a shell, or a process of its own."""

    output: str
    """Standard output and standard error together."""

    output_base64: str | None = None

    output_bytes: int
    """All that it has written until now."""

    output_encoding: Literal["utf-8", "base64"]
    """base64: the output is not valid UTF-8. output_base64 has its bytes, and output has U+FFFD for what
    is wrong."""

    output_file: str | None = None
    """Where all of the output is, if the request asked for it."""

    output_file_error: str | None = None
    """As in exec."""

    pid: int | None = None
    """Of a process, inside the sandbox."""

    shell: str
    """Empty for a process."""

    shell_restarted: bool

    signal: int | None = None

    started_at: datetime | None = None

    state: Literal["queued", "running", "ended"]

    timed_out: bool

    truncated: bool
    """Something is missing from output. A line in it says where and how much, but for what a control
    string without an end hides."""

    tty: bool | None = None
    """The process has a terminal."""

    usage: Usage | None = None
    """Of a process."""

    waits_for: WaitsFor | None = None
    """Of a queued command: the one that its shell runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult(ProcessBytes):
    """How a process ended, and its output."""

    cause: Literal["exited", "signaled", "timeout", "oom_killed", "canceled", "sandbox_gone"] | None = None
    """As in exec."""

    disk_full: bool | None = None
    """As in exec."""

    dropped_bytes: int
    """How much is missing."""

    duration_ms: int

    exec_id: str

    exit_code: int | None = None
    """As in exec; this and what follows, when it has ended."""

    network_denied: list[NetworkDenial] = field(default_factory=list)
    """As in exec."""

    output: str | None = None
    """With a terminal, what it showed, and of merged outputs, instead of the two."""

    output_base64: str | None = None

    output_bytes: int
    """All that it wrote, before anything was taken out."""

    output_encoding: Literal["base64"] | None = None

    output_file: str | None = None
    """Where all of the output is, if the request asked for it."""

    output_file_error: str | None = None
    """As in exec."""

    pid: int | None = None
    """Inside the sandbox."""

    signal: int | None = None
    """The number of the signal that ended it."""

    status: Literal["running", "completed"]
    """running only in the background."""

    stderr: str
    """Standard error, as stdout."""

    stderr_base64: str | None = None

    stderr_encoding: Literal["base64"] | None = None

    stdout: str
    """Standard output; empty in the background, with a terminal and of merged outputs."""

    stdout_base64: str | None = None

    stdout_encoding: Literal["base64"] | None = None
    """There if it is not valid UTF-8: stdout_base64 has its bytes."""

    timed_out: bool
    """The same as cause timeout."""

    truncated: bool
    """Something is missing from the output. A line in it says where and how much, but for what a control
    string without an end hides."""

    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextInfo:
    """A context as it was when the daemon was asked."""

    cause: str | None = None
    """How its process ended; see exec."""

    context_id: str
    """Also the exec_id of its process."""

    created_at: datetime

    kernel: str | None = None
    """The name of its kernelspec. This and the rest is not in lists."""

    kernels_started: int | None = None
    """How many kernels it has had."""

    language: str

    name: str | None = None

    pid: int | None = None
    """The kernel's, inside the sandbox."""

    queued: int | None = None
    """Runs that wait."""

    run_id: str | None = None
    """The run that it is at."""

    state: Literal["starting", "idle", "busy", "no_kernel"] | None = None
    """no_kernel: the kernel has ended, and the next run gets a new one."""

    status: Literal["running", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeError:
    """An exception that code raised."""

    name: str

    traceback: str
    """For people. Beyond 64 KiB its middle is left out."""

    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeColumn:
    """A column of a data frame."""

    name: str

    type: str
    """As the library calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeTable:
    """The beginning of a data frame."""

    columns: list[CodeColumn]
    """At most 50."""

    index: list[Any] = field(default_factory=list)
    """The labels of the rows, where the frame has some."""

    rows: list[list[Any]]
    """At most 100, each with a value per column: a text, a number, a boolean or null."""

    shape: list[int]
    """Rows and columns of the whole frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSeries:
    """What belongs together in a plot."""

    label: str | None = None

    points: int | None = None
    """How many there are; x and y have the first 1000."""

    shape: list[int] = field(default_factory=list)
    """Of an image."""

    type: str

    x: list[Any] = field(default_factory=list)
    """Numbers or texts. Of a pie, the names."""

    y: list[Any] = field(default_factory=list)
    """Of a pie, the shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeAxes:
    """One plot of a chart."""

    series: list[CodeSeries]

    title: str

    type: str

    x_label: str

    x_scale: str

    y_label: str

    y_scale: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeChart:
    """A figure as numbers."""

    axes: list[CodeAxes]

    library: str

    title: str

    type: str
    """That of all series: line, bar, horizontal_bar, scatter, pie, image, or what plotly calls others;
    mixed, or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeResult(ResultForms):
    """One thing that code displayed, in several forms."""

    chart: CodeChart | None = None
    """What a figure of matplotlib or plotly shows, as numbers."""

    data: dict[str, Any]
    """The forms, by MIME type. Pictures are base64, texts are texts, application/json is a value."""

    display_id: str | None = None
    """Its name for later updates, which have taken place."""

    dropped_bytes: int | None = None
    """Of these forms."""

    file_paths: dict[str, str] = field(default_factory=dict)
    """Forms that were too large for the answer: files in the sandbox, by MIME type."""

    is_main_result: bool
    """It is the value of the last expression."""

    note: str | None = None
    """What this result cannot have."""

    table: CodeTable | None = None
    """The first rows and columns of a data frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRun(RunForms):
    """What came of code."""

    cause: Literal[
        "running",
        "completed",
        "error",
        "interrupted",
        "timeout",
        "kernel_died",
        "oom_killed",
        "canceled",
        "sandbox_gone",
    ]
    """How it ended. error: the code raised. timeout: it was interrupted at its timeout, which keeps the
    state, and killed if it went on. kernel_died: the kernel ended. oom_killed: the sandbox's memory was
    used up. canceled: the context was restarted or deleted."""

    context_id: str

    disk_full: bool | None = None
    """It failed, and the disk or the workspace had no room left then."""

    dropped_results: int | None = None
    """Results beyond the first 256."""

    duration_ms: int
    """Without the time that it waited for others."""

    error: CodeError | None = None
    """The exception, if the code raised one."""

    execution_count: int
    """The kernel's number of the run, or 0."""

    kernel_exit_code: int | None = None
    """Of a kernel that died."""

    kernel_log: str | None = None
    """The last that a kernel said that died."""

    kernel_signal: int | None = None
    """The signal that a kernel died of."""

    new_kernel: bool
    """It is not the kernel that ran the context's code before: variables of before are gone. So it is
    after a restart, a kernel's end, a stop and in a fork."""

    peak_memory_bytes: int | None = None
    """The most memory that the kernel's process had in the run, also if it was killed. Its children are
    not in it."""

    results: list[CodeResult]
    """What the code displayed, and at last the value of its last expression."""

    run_id: str
    """For GET runs/{run_id}. The context keeps its last 32 runs."""

    state_lost: bool
    """The kernel ended in this run: variables and imports are gone. Files stay. The next run gets a new
    kernel."""

    stderr: str
    """As stdout."""

    stderr_dropped_bytes: int | None = None

    stderr_file: str | None = None

    stderr_file_error: str | None = None

    stdout: str
    """Without control sequences, and without lines that a carriage return has overwritten. Beyond 1 MiB
    the first and the last half are kept."""

    stdout_dropped_bytes: int | None = None
    """Bytes that stdout lacks."""

    stdout_file: str | None = None
    """The file in the sandbox that has all of stdout, if it was too long."""

    stdout_file_error: str | None = None
    """Why the file has not all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk(ChunkBytes):
    """A piece of output, as it was written."""

    base64: str | None = None
    """Instead of text, where that is not valid UTF-8."""

    seq: int
    """The offset behind its last byte in all that was written. It only grows."""

    stream: Literal["stdout", "stderr", "output"]
    """output is that of a shell's command or of a terminal, which is one for everything."""

    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPage:
    """Pieces of output, and where to go on."""

    cause: str | None = None

    chunks: list[OutputChunk]

    disk_full: bool | None = None
    """As in exec, when it is done."""

    done: bool
    """It has ended and there is nothing to come."""

    dropped: int
    """Bytes between since_seq and next_seq that are in no chunk, since they are not kept."""

    exit_code: int | None = None
    """This and cause when it is done."""

    next_seq: int
    """What to send as since_seq for what comes next."""

    status: Literal["running", "completed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A process in the background of a shell."""

    command: str
    """The program's name for itself, of at most 15 bytes."""

    pid: int
    """Inside the sandbox."""

    usage: Usage
    """Of it and all that it started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """One of a session's shells."""

    cmd: str | None = None
    """The first 256 bytes of that command."""

    created_at: datetime

    cwd: str
    """After its last command."""

    exec_id: str | None = None
    """The command that it runs."""

    jobs: list[Job] = field(default_factory=list)
    """What its commands have left running in the background."""

    name: str

    pid: int | None = None
    """Inside the sandbox; absent while it has no process."""

    queued: int
    """Commands that wait behind that one."""

    restarts: int
    """How often it ended and was replaced."""

    state: Literal["idle", "busy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file in a directory."""

    gid: int

    mode: str

    modified_at: datetime

    name: str
    """Relative to the directory. Bytes that are not UTF-8 are written as \\xHH, in all paths of requests
    and answers."""

    size: int

    target: str | None = None
    """Of a symlink."""

    type: Literal["file", "dir", "symlink", "fifo", "socket", "device"]

    uid: int
    """The owner, as the sandbox sees it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePage:
    """A page of a directory."""

    entries: list[FileEntry]

    next_cursor: str | None = None
    """Send it as cursor, with the same path and depth."""

    path: str

    truncated: bool
    """There are more entries; next_cursor leads to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStat:
    """What is known of one file."""

    etag: str | None = None
    """Of a regular file: the ETag that fs/read gives, for If-Match of fs/raw."""

    gid: int

    mode: str

    modified_at: datetime

    name: str
    """Relative to the directory. Bytes that are not UTF-8 are written as \\xHH, in all paths of requests
    and answers."""

    path: str

    size: int

    target: str | None = None
    """Of a symlink."""

    type: Literal["file", "dir", "symlink", "fifo", "socket", "device"]

    uid: int
    """The owner, as the sandbox sees it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobResult:
    """Files that a pattern found."""

    entries: list[FileEntry]

    truncated: bool
    """There are more: give a narrower pattern or path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepMatch:
    """A line that a search found."""

    after: list[str] = field(default_factory=list)

    before: list[str] = field(default_factory=list)

    column: int
    """Of the first match in the line, in bytes, from 1."""

    line: int
    """From 1."""

    path: str
    """Relative to the directory; empty if a file was searched."""

    text: str
    """The line, cut if it is long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepResult:
    """What a search found."""

    binary_files: int
    """Of these, passed over since they are no text: nothing is said of what they hold."""

    files: int
    """That were read."""

    matches: list[GrepMatch]
    """By path and line."""

    truncated: bool
    """There are more: give a narrower pattern, include or path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditResult:
    """What an edit changed."""

    diff: str
    """The change, as a unified diff."""

    diff_truncated: bool
    """The change is larger than the diff, which has at most 256 KiB."""

    replaced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """What an upload wrote."""

    ok: bool

    paths: list[str]
    """The files written, in the order of their parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a write did."""

    etag: str | None = None
    """Of the file as it was written, if the request had If-Match or If-None-Match. It is the ETag header,
    too."""

    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """What an archive had in it."""

    bytes: int
    """In all of them."""

    files: int
    """Entries that were made, directories and links included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port that something in the sandbox listens on."""

    address: str
    """That it listens on: 0.0.0.0 and :: are any."""

    loopback: bool
    """The address is one of the sandbox's own loopback, where every port can be reached from here."""

    port: int

    url: str
    """Where this daemon proxies HTTP and WebSocket to it. Needs a key or a preview token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A token that opens one port."""

    expires_at: datetime

    port: int

    token: str
    """Send it as X-Preview-Token, or once as preview_token in the query."""

    url: str
    """For a browser: it has the token in its query, and the first answer moves that into a cookie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceInfo:
    """A workspace as it was when the daemon was asked."""

    active_session_count: int
    """Sessions that have it now."""

    created_at: datetime

    id: str

    labels: dict[str, str] = field(default_factory=dict)

    last_used_at: datetime
    """The last start or end of a session with it; now, while one has it."""

    session_count: int
    """Sessions that have or had it, as far as they are still known."""

    size_bytes: int
    """What its files take."""

    size_mb: int
    """What its files may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSecret:
    """A credential that stays outside of the sandbox, without its value."""

    header: str | None = None

    hosts: list[str]

    name: str

    placeholder: str
    """What programs send instead. Only secrets of the create and of a fork's source are in variables of
    the sandbox; pass one that came later in env of commands."""

    query: str | None = None

    stored: str | None = None
    """The stored secret that it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What a session may reach."""

    allow: list[str] = field(default_factory=list)
    """Of mode allow: host names, one with a leading wildcard label like *.example.org, addresses, CIDRs,
    each with :port or :port-port if wanted, or groups like @pip. Names without a port are for the ports
    80 and 443."""

    connections_per_second: int | None = None
    """New ones; 0 is 100, with bursts of 256."""

    deny: list[str] = field(default_factory=list)
    """The same entries, for all ports where they have none. Deny beats allow."""

    max_connections: int | None = None
    """Connections and flows of UDP at once; 0 is 256."""

    max_mb: int | None = None
    """MiB in both directions together since the session's last start, or the daemon's; 0 is no limit."""

    max_mbit: int | None = None
    """Megabits per second in each direction, of all connections together; 0 is no limit."""

    mode: Literal["none", "allow", "internet", "full"]
    """none: loopback only. allow: only what the list names. internet: everything public. full: private
    addresses too, where the operator allows it. The host's own addresses and metadata services are
    never reached."""

    relay: bool | None = None
    """There, and false, if the daemon does not carry the sandbox's connections: it is in a network of its
    container engine, which decides what it reaches."""

    secrets: list[NetworkSecret] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDenial:
    """Something that a session's network refused."""

    address: str | None = None

    entry: str | None = None
    """What opens it once it is in the list of allow. Left out where no entry does."""

    name: str | None = None

    port: int | None = None

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkEvent:
    """One decision about a session's network."""

    address: str | None = None

    allowed: bool

    bytes_received: int | None = None
    """Of a connection that ended."""

    bytes_sent: int | None = None
    """Of a connection that ended."""

    count: int
    """How often it happened in a row."""

    entry: str | None = None
    """Of a refusal: what opens it once it is in the list of allow. Left out where no entry does, as for a
    limit or an entry of deny."""

    name: str | None = None
    """The host, as far as it is known."""

    op: Literal["resolve", "connect", "datagrams", "request", "close", "cut"]
    """resolve: a name query. connect: a connection. datagrams: a flow of UDP. request: one of HTTP that
    was looked at. close: a connection's end. cut: another policy ended it."""

    port: int | None = None

    seq: int
    """Later events have higher numbers; there are gaps."""

    time: datetime

    why: str | None = None
    """The entry that decided, or what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLog:
    """Decisions about a session's network, and where to go on."""

    events: list[NetworkEvent]

    next_seq: int
    """What to send as since_seq for what comes next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkStats:
    """What a session's network carried and refused."""

    bytes_received: int

    bytes_sent: int

    connections: int
    """Open now, flows of UDP among them."""

    limit_hits: dict[str, int] = field(default_factory=dict)
    """How often each limit refused something, by its name."""

    opened: int
    """Connections so far."""

    queries: int
    """For names."""

    queries_refused: int

    refused: int
    """Connections, flows and requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """What a client of the daemon did."""

    bytes_in: int
    """Of the body; -1 if the client did not say."""

    bytes_out: int

    event: str
    """answered; answering: a long answer has begun; refused: requests without a line of their own;
    recovered: follows a line that a crash cut."""

    ids: dict[str, str] = field(default_factory=dict)
    """Those in the path and what was made, each by what it is of: session, exec, snapshot, workspace,
    user, key."""

    of: str | None = None
    """Whose it is that an admin looked into, or whose key it made."""

    owner: str | None = None
    """Of the key; not there without a valid one."""

    remote: str | None = None
    """The client's address."""

    request_id: str | None = None

    requests: int | None = None
    """Of refused: how many."""

    route: str | None = None

    seq: int
    """Its number in the log."""

    status: int | None = None

    time: datetime

    took_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Entries of the audit log, the newest first, and where to go on."""

    entries: list[AuditEntry]

    next_before: int | None = None
    """before of the next page. Not there where nothing is left. A page may be empty and not the last: one
    request reads a part of a long log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceededQuota:
    """A quota that does not suffice."""

    frees_at: datetime | None = None
    """When it is free again. Left out where that takes an end of sessions or the removal of something."""

    limit: float

    name: str
    """As in the quota of a user."""

    used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why something failed."""

    code: str
    """What is wrong, for programs. The values stay."""

    error: str
    """What is wrong and what to do about it, for people."""

    field: str | None = None
    """The request field or parameter at fault, if one is."""

    quota: ExceededQuota | None = None
    """Of reason quota_exceeded: which."""

    reason: str | None = None
    """More than code says, for programs, where there is more to tell apart: of files and programs in the
    sandbox, and of what was not found. The values stay."""

    request_id: str | None = None
    """Names this request in the daemon's log; also in the X-Request-Id header. Left out of 401, which is
    the same for everybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult:
    """What came of one of many sessions."""

    error: Problem | None = None
    """Why it failed. Absent if it did not."""

    id: str
    """As in the request."""

    session: SessionInfo | None = None
    """As it is then. Absent after destroy, and beside error."""

    status: int
    """The status of the answer that a request for this session alone would have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedScope:
    """What is left of a scope that is complete."""

    ends_at: datetime
    """When they begin to end."""

    scope: str

    sessions: int
    """That have not ended yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Files of a session as they were at one moment."""

    created_at: datetime

    cwd: str
    """Of the default shell then."""

    dropped_contexts: int | None = None
    """Contexts of the session that ran as the snapshot was made, which has its files and not their
    variables. Only in the answer to its creation."""

    exclude_paths: list[str] = field(default_factory=list)

    file_bytes: int
    """Of all files in it, holes included."""

    files: int
    """Files, directories and links in it."""

    id: str
    """26 characters of a-z and 2-7."""

    image: str
    """Of the session, as its client wrote it."""

    image_digest: str
    """What that was. The files of scope sandbox lie on it."""

    include_paths: list[str] = field(default_factory=list)

    label: str | None = None

    name: str | None = None

    owner: str
    """Whose it is. An admin's key sees those of everybody."""

    scope: Literal["workspace", "sandbox"]

    session_id: str
    """What it was made of; perhaps on another host."""

    size_bytes: int
    """Of the archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What sessions can be made of."""

    allowed: bool
    """Whether sessions may use it (allowed_images). Only the daemon's own key sees others."""

    created_at: datetime
    """When it was stored."""

    digest: str
    """Of its layers, environment, user and working directory; no registry's."""

    env: list[str]
    """NAME=value, sorted: what a session begins with."""

    files: int
    """Files, directories and links in it."""

    layers: list[str]
    """The digest of each layer, top first."""

    names: list[str]
    """Sorted; empty if newer images took them."""

    network_groups: dict[str, list[str]] = field(default_factory=dict)
    """The hosts that its package clients download from, by group: what a group like pip means in a network
    policy. Absent until they were asked."""

    recipe: str | None = None
    """The digest of the recipe that made it."""

    shell: str

    size_bytes: int
    """Of its files, layers shared with other images included."""

    source: str | None = None
    """Where it came from, for people."""

    user: str | None = None

    warnings: list[str] = field(default_factory=list)
    """What of its archive was left out or changed."""

    working_dir: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageProgress:
    """How far a job is."""

    done_bytes: int

    phase: str
    """For people; empty before the first."""

    total_bytes: int
    """0 if nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageJob:
    """Work on an image that the daemon does by itself, as it was at one moment."""

    code: str | None = None
    """The code of that error."""

    created_at: datetime

    ended_at: datetime | None = None

    error: str | None = None
    """Why the job failed."""

    id: str
    """26 characters of a-z and 2-7."""

    image: Image | None = None
    """When the job is done."""

    kind: Literal["pull", "build", "commit"]

    name: str
    """Of the image."""

    progress: ImageProgress

    status: Literal["queued", "running", "done", "failed", "canceled"]
    """The first two go on; the others are final."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A stored secret, without its value."""

    created_at: datetime

    header: str | None = None
    """In which header of a request."""

    hosts: list[str]
    """Which hosts get it."""

    name: str

    query: str | None = None
    """Or in which parameter of its query."""

    shared: bool
    """Sessions of every key may refer to it."""

    updated_at: datetime
    """The last time that it was set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Somebody who has keys."""

    created_at: datetime

    email: str | None = None

    has_password: bool

    images: Literal["none", "pull", "build"]
    """Of a user who is no admin: what images may be made of. Their names begin with the user's and a
    slash."""

    inspect: bool
    """Of an admin: may look into files, terminals and output of others, and make keys for them. Those are
    told (get-my-inspections)."""

    name: str
    """The owner of what the user makes."""

    quota: Quota | None = None
    """What the user may have otherwise than the configuration gives to all. Left out if that is nothing."""

    role: Literal["user", "admin"]
    """An admin with a key of scope admin sees the sessions of all, ends them, and changes users. What is
    in a session of another stays closed: see inspect."""

    state: Literal["active", "disabled", "deleting"]
    """Only the keys of active users are valid. deleting stays until all that the user owns is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An API key, without its text."""

    created_at: datetime

    expires_at: datetime | None = None

    id: str

    last_used_at: datetime | None = None

    name: str | None = None
    """For people."""

    parent_id: str | None = None
    """The key that made it, with which it ends."""

    revoked_at: datetime | None = None

    scope: Literal["read", "run", "admin"]

    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """An API key that was just made, with its text."""

    created_at: datetime

    expires_at: datetime | None = None

    id: str

    key: str = field(repr=False)
    """What requests show. Nothing ever shows it again."""

    last_used_at: datetime | None = None

    name: str | None = None
    """For people."""

    parent_id: str | None = None
    """The key that made it, with which it ends."""

    revoked_at: datetime | None = None

    scope: Literal["read", "run", "admin"]

    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """Whose the client's key is, and what it may do."""

    admin: bool
    """The key sees and changes what is everybody's."""

    key: Key | None = None
    """Left out for a key of the configuration, and for who has signed in."""

    owner: str
    """Whom sessions and everything else belong to that are made with this key."""

    read_only: bool | None = None
    """The key only looks: whatever changes something is refused."""

    user: User | None = None
    """Left out for an owner of the configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How much an owner may have. What is None has no limit."""

    cpu: float | None = None
    """Cores of the sessions that are not stopped, together."""

    disk_mb: int | None = None
    """MiB of disk of all sessions and workspaces together."""

    image_mb: int | None = None
    """MiB of these images together. The one that goes beyond it is the last."""

    max_images: int | None = None
    """Of a user who may make images: their names."""

    max_running_sessions: int | None = None
    """Of these, sessions that are not stopped."""

    max_sessions: int | None = None
    """Sessions that have not ended, stopped ones included."""

    max_workspaces: int | None = None
    """Workspaces."""

    memory_mb: int | None = None
    """MiB of memory of the sessions that are not stopped, together."""

    network_mb_per_month: int | None = None
    """MiB that the networks of sessions carry in a calendar month of UTC, in both directions together."""

    session_seconds_per_month: int | None = None
    """Seconds that sessions live in a calendar month of UTC, all together."""

    snapshot_mb: int | None = None
    """MiB of the archives of all snapshots together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageNow:
    """What an owner has."""

    cpu: float
    """Cores of those that are not stopped."""

    disk_mb: int
    """That sessions and workspaces may write."""

    memory_mb: int
    """Of those that are not stopped."""

    running_sessions: int
    """Of these, that are not stopped."""

    sessions: int
    """That have not ended."""

    snapshot_bytes: int

    workspace_mb: int
    """Of disk_mb, what workspaces have."""

    workspaces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerUsage:
    """What an owner used in a month, and has and may have now."""

    cpu_seconds: float
    """Processor time of sessions, as it was seen a minute ago at most."""

    frees_at: datetime
    """When the month ends, and what it has is free again."""

    month: str
    """Of UTC."""

    now: UsageNow
    """What there is at the moment, whatever the month."""

    owner: str

    quota: Quota
    """What holds for the owner now. What is left out has no limit."""

    received_bytes: int

    sent_bytes: int
    """By the networks of sessions."""

    session_seconds: float
    """That sessions lived, all together: from their create or start to their end or stop, also while they
    were paused."""

    sessions_created: int
    """That came to run."""

    snapshot_peak_bytes: int
    """The most that archives of snapshots had at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerShare:
    """What one of several owners uses."""

    cpu_seconds: float
    """Processor time of sessions, as it was seen a minute ago at most."""

    frees_at: datetime
    """When the month ends, and what it has is free again."""

    memory_bytes: int
    """That the owner's sessions used a few seconds ago, all together. now.memory_mb is what they may use."""

    month: str
    """Of UTC."""

    now: UsageNow
    """What there is at the moment, whatever the month."""

    owner: str

    quota: Quota
    """What holds for the owner now. What is left out has no limit."""

    received_bytes: int

    sent_bytes: int
    """By the networks of sessions."""

    session_seconds: float
    """That sessions lived, all together: from their create or start to their end or stop, also while they
    were paused."""

    sessions_created: int
    """That came to run."""

    snapshot_peak_bytes: int
    """The most that archives of snapshots had at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnersUsage:
    """What all owners use."""

    month: str
    """Of UTC."""

    owners: list[OwnerShare]
    """Who used something in the month or has something now, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageDay:
    """What an owner used on a day."""

    cpu_seconds: float
    """Processor time of sessions, as it was seen a minute ago at most."""

    day: str
    """Of UTC."""

    memory_mb_seconds: int
    """MiB of memory that sessions had in use, by the seconds that they had them: 3600 are one MiB for an
    hour. It is seen once a minute."""

    owner: str

    received_bytes: int

    sent_bytes: int
    """By the networks of sessions."""

    session_seconds: float
    """That sessions lived, all together. Those that live count until now."""

    sessions_created: int
    """That came to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """That somebody looked into what is the client's, or made a key in its name."""

    by: str
    """The admin; admin is the daemon's own key."""

    first_at: datetime
    """On that day of UTC. The same on another day is an entry of its own."""

    last_at: datetime
    """To the minute."""

    session_id: str | None = None

    what: str
    """What was looked into, or made in the caller's name: a session, a key, a password, an e-mail address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxEvent:
    """Something that happened. Its type says which of the other fields it has."""

    account: EventAccount | None = None
    """Of account.changed."""

    before: str | None = None
    """Of session.state and session.ended: the status before."""

    deleted_id: str | None = None
    """Of workspace.deleted and snapshot.deleted."""

    exec: ExecRecord | None = None
    """Of exec.started and exec.finished."""

    exec_burst: ExecBurst | None = None
    """Of exec.burst."""

    id: str
    """Its place, for Last-Event-ID and since; the id of the server-sent event too."""

    image_job: EventImageJob | None = None
    """Of image.job."""

    network: NetworkEvent | None = None
    """Of network.decision."""

    network_burst: NetworkBurst | None = None
    """Of network.burst."""

    owner: str | None = None
    """Whose it is. Absent for what is the daemon's."""

    pool: PoolStatus | None = None
    """Of pool.changed."""

    reason: str | None = None
    """Of gap: restarted, the daemon since the id; expired, the id is older than what is kept; slow, the
    client reads more slowly than events come."""

    reload: list[str] = field(default_factory=list)
    """Of gap: what may have changed meanwhile."""

    session: SessionInfo | None = None
    """Of session events: how it is now."""

    session_id: str | None = None
    """The session that it is about."""

    snapshot: Snapshot | None = None
    """Of snapshot.created."""

    time: datetime

    type: str
    """What happened; the name of the server-sent event too."""

    workspace: EventWorkspace | None = None
    """Of workspace.changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecBurst:
    """Commands and processes that came too fast to be told one by one."""

    finished: int

    started: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkBurst:
    """Decisions that came too fast to be told one by one."""

    allowed: int

    denied: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventWorkspace:
    """What an event says of a workspace."""

    created_at: datetime

    id: str

    labels: dict[str, str] = field(default_factory=dict)

    last_used_at: datetime

    size_mb: int
    """What its files may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventImageJob:
    """What an event says of a job for an image."""

    error: str | None = None
    """Why the job failed."""

    id: str

    kind: str

    name: str
    """Of the image."""

    progress: ImageProgress

    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAccount:
    """Whose account has changed."""

    key_id: str | None = None
    """The key that was made or revoked; absent where the user was made, changed or deleted."""

    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a session gets that asks for nothing else."""

    idle_timeout_seconds: int
    """Of a session to be paused or stopped."""

    image: str

    limits: Limits

    network_mode: str

    on_expiry: Literal["named", "stop", "destroy"] | None = None
    """After ttl_seconds. named is stop for a session that has a name, and destroy for others."""

    readonly_rootfs: bool

    stopped_retention_seconds: int
    """Of a stopped session, for the owner of the request's key."""

    timeout_ms: int
    """Of a command."""

    ttl_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Maxima:
    """The daemon's limits."""

    command_bytes: int

    file_bytes: int
    """Of one file written."""

    lifetime_seconds: int | None = None
    """Of a session, however active; absent if there is no maximum."""

    limits: Limits

    output_bytes: int
    """In one answer."""

    read_bytes: int
    """In one JSON answer of fs/read."""

    sessions: int | None = None
    """At once; absent if there is no maximum."""

    sessions_per_key: int | None = None
    """At once, of the owner of the request's key; absent if there is no maximum beside sessions."""

    timeout_ms: int

    ttl_seconds: int

    upload_bytes: int
    """In one request of fs/upload."""

    write_bytes: int
    """In one request of fs/write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceLimits:
    """What a workspace of this daemon may be."""

    default_size_mb: int

    max_count: int | None = None
    """Of all keys together; absent if there is no maximum."""

    max_size_mb: int

    persist_by_default: bool
    """A session created without a workspace_id gets a new one."""

    retention_seconds: int | None = None
    """One that no session has had for this long is removed; absent if none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolImage:
    """The ready sandboxes of one image."""

    auto: bool
    """How many are wanted is learned: as many as were created in the busiest ten seconds of the last ten
    minutes."""

    digest: str | None = None
    """What the name stands for now; absent if the image cannot be had."""

    error: str | None = None
    """Why there are fewer than wanted, if something is wrong."""

    hits: int
    """Sessions that got a ready sandbox."""

    image: str

    make_ms: float
    """The time to make one ready, on average; 0 before the first."""

    misses: int
    """Sessions that could have had a ready sandbox, and waited for theirs to be made."""

    ready: int

    wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """How full the host was, and what the daemon did in the seconds before."""

    at: datetime

    cpu_limit: int
    """Processors of the host."""

    cpu_used: float
    """Processors that all programs of the host had, on average over the interval."""

    create_errors: int
    """Creates that the daemon, its driver or its host failed at. Those that were refused for what they
    asked for do not count."""

    create_p50_ms: float | None = None
    """Half of the creates took at most so long, in milliseconds; absent without any. Like the other
    percentiles at most 4.5 % off; 9 % when durations since the daemon's start are spread over more than
    three orders of magnitude."""

    create_p90_ms: float | None = None

    create_p99_ms: float | None = None

    creates: int
    """Sessions made in the interval."""

    disk_bytes: int
    """Written on the file system of data_dir, by whomever."""

    disk_limit: int
    """Its size."""

    disk_pool_bytes: int | None = None
    """Written in the pool of disks, with disk.pool_mb."""

    disk_pool_limit: int | None = None
    """Its size; absent without a pool."""

    exec_oom_kills: int
    """Those that were ended for want of memory."""

    exec_p50_ms: float | None = None
    """Half of the commands ran at most so long, in milliseconds; absent without any."""

    exec_p90_ms: float | None = None

    exec_p99_ms: float | None = None

    execs: int
    """Commands that ended in the interval, without background ones."""

    memory_bytes: int
    """That nobody else can have. With a step of 60 the most of the minute."""

    memory_limit: int
    """Of the host."""

    pool_ready: int
    """Sandboxes that were ready for sessions to come."""

    pool_wanted: int
    """Sandboxes that were to be ready."""

    request_errors: int
    """Those that the daemon failed at: with a status of 500 or more, but for 501, 503 and 507."""

    requests: int
    """Answered in the interval."""

    seconds: float
    """Since the sample before: the interval of what was done."""

    sessions: dict[str, int]
    """How many there were by state, those of all owners."""

    sessions_limit: int
    """How many may be alive at once; 0 is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostHistory:
    """How full the host was, oldest first."""

    samples: list[HostSample]
    """Oldest first. Where the daemon did not run there is a hole."""

    step_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFinding:
    """One thing that is wrong."""

    command: str | None = None
    """A command that mends it, as root on the host; absent where none does. mend says what else there is
    to know."""

    expected: str | None = None
    """Of fsck: what should be there."""

    found: str
    """What there is."""

    mend: str | None = None
    """What to do."""

    severity: Literal["warn", "fail"]
    """warn: it works, but weaker or slower than it could, or the daemon mends it itself. fail: something
    is lost, or cannot be used."""

    source: Literal["doctor", "fsck"]
    """doctor: the host is not as it should be. fsck: the database and what there is differ."""

    what: str
    """The doctor's check, or the kind of thing."""

    where: str | None = None
    """Of fsck: the thing's path, process or id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFindings:
    """What is wrong with the host and the daemon's data, the gravest first."""

    at: datetime
    """When it was looked for; a few seconds ago at most."""

    findings: list[HostFinding]
    """The gravest first; none where all is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStatus:
    """What is ready for sessions that are about to come."""

    enabled: bool
    """Whether this daemon keeps sandboxes ready."""

    images: list[PoolImage]

    max_ready: int
    """Of all images, at most."""

    ready: int
    """Of all images."""

    short: str | None = None
    """What the host is short of, so that the pool gives back what it has."""

    unmatched: int
    """Sessions that no image of the pool is for: of another image, or with another disk_mb or
    readonly_rootfs than the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonInfo:
    """The daemon, its defaults and limits."""

    absent_drivers: list[str] = field(default_factory=list)
    """Those of drivers that do not answer now, as a Docker engine that is down. Their sessions keep their
    state, and what needs a sandbox is a 503."""

    api: str

    defaults: Defaults

    driver: str
    """Of a session that asks for none. It has the workspaces."""

    drivers: list[str]
    """All that a session may ask for."""

    limits: Maxima

    version: str

    workspaces: WorkspaceLimits | None = None
    """Absent if no workspace outlives its session here."""
