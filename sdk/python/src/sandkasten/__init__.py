"""Linux sandboxes for AI agents: the client of Sandkasten.

`SandboxClient` is asynchronous, `SyncSandboxClient` its synchronous twin with the same
calls. Both are made with the daemon's address and an API key, or find them in
SANDKASTEN_URL and SANDKASTEN_API_KEY.

```python
async with SandboxClient() as client, await client.create_session(image="python") as session:
    result = await session.exec("echo hello")
    print(result.exit_code, result.output)
```
"""

from ._async.client import SandboxClient
from ._async.files import Files
from ._async.ports import Ports
from ._async.processes import Process, Processes
from ._async.session import Session, Workspace
from ._async.sockets import Terminal, Tunnel
from ._async.streams import ExecStream, FileWatch, NetworkEvents
from ._errors import (
    AlreadyExistsError,
    APIConnectionError,
    APIError,
    APITimeoutError,
    AuthenticationError,
    ConfigurationError,
    ConflictError,
    InsufficientSpaceError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    SandkastenError,
    UnavailableError,
    UnimplementedError,
    UnprocessableError,
)
from ._models import (
    DaemonInfo,
    EditResult,
    ExecDetail,
    ExecRecord,
    ExecResult,
    FileEntry,
    FileStat,
    GlobResult,
    GrepMatch,
    GrepResult,
    Image,
    ImageJob,
    ImageProgress,
    Job,
    Limits,
    Network,
    NetworkDenial,
    NetworkEvent,
    NetworkLog,
    NetworkSecret,
    NetworkStats,
    OutputChunk,
    OutputPage,
    PoolImage,
    PoolStatus,
    Port,
    Preview,
    ProcessResult,
    SessionInfo,
    Shell,
    Snapshot,
    Stats,
    Unpacked,
    Uploaded,
    Usage,
    WorkspaceInfo,
)
from ._sync.client import SyncSandboxClient
from ._sync.files import SyncFiles
from ._sync.ports import SyncPorts
from ._sync.processes import SyncProcess, SyncProcesses
from ._sync.session import SyncSession, SyncWorkspace
from ._sync.sockets import SyncTerminal, SyncTunnel
from ._sync.streams import SyncExecStream, SyncFileWatch, SyncNetworkEvents
from ._types import (
    Cause,
    ExecChunk,
    ExecEnd,
    FileChange,
    NetworkMode,
    NetworkOptions,
    NetworkSecretOptions,
    ProcessOptions,
)
from ._version import __version__

__all__ = [
    "APIConnectionError",
    "APIError",
    "APITimeoutError",
    "AlreadyExistsError",
    "AuthenticationError",
    "Cause",
    "ConfigurationError",
    "ConflictError",
    "DaemonInfo",
    "EditResult",
    "ExecChunk",
    "ExecDetail",
    "ExecEnd",
    "ExecRecord",
    "ExecResult",
    "ExecStream",
    "FileChange",
    "FileEntry",
    "FileStat",
    "FileWatch",
    "Files",
    "GlobResult",
    "GrepMatch",
    "GrepResult",
    "Image",
    "ImageJob",
    "ImageProgress",
    "InsufficientSpaceError",
    "InternalError",
    "InvalidArgumentError",
    "Job",
    "Limits",
    "Network",
    "NetworkDenial",
    "NetworkEvent",
    "NetworkEvents",
    "NetworkLog",
    "NetworkMode",
    "NetworkOptions",
    "NetworkSecret",
    "NetworkSecretOptions",
    "NetworkStats",
    "NotFoundError",
    "OutputChunk",
    "OutputPage",
    "PermissionDeniedError",
    "PoolImage",
    "PoolStatus",
    "Port",
    "Ports",
    "Preview",
    "Process",
    "ProcessOptions",
    "ProcessResult",
    "Processes",
    "ProtocolError",
    "RateLimitError",
    "SandboxClient",
    "SandkastenError",
    "Session",
    "SessionInfo",
    "Shell",
    "Snapshot",
    "Stats",
    "SyncExecStream",
    "SyncFileWatch",
    "SyncFiles",
    "SyncNetworkEvents",
    "SyncPorts",
    "SyncProcess",
    "SyncProcesses",
    "SyncSandboxClient",
    "SyncSession",
    "SyncTerminal",
    "SyncTunnel",
    "SyncWorkspace",
    "Terminal",
    "Tunnel",
    "UnavailableError",
    "UnimplementedError",
    "Unpacked",
    "UnprocessableError",
    "Uploaded",
    "Usage",
    "Workspace",
    "WorkspaceInfo",
    "__version__",
]
