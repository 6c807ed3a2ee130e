"""Writes what of the SDK is derived from something else.

`src/sandkasten/_models.py` comes from the daemon's OpenAPI document, and
`src/sandkasten/_sync/` from `src/sandkasten/_async/`. With --check nothing is
written, and the exit code is 1 if something is out of date.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
PACKAGE = HERE / "src" / "sandkasten"
OPENAPI = HERE.parent.parent / "internal" / "api" / "v1" / "openapi.json"

# The answers that the SDK gives to its users: the schema, the class and what it is.
MODELS = {
    "Usage": ("Usage", "What a process took of the sandbox."),
    "Limits": ("Limits", "What a sandbox may take."),
    "Session": ("SessionInfo", "A session as it was when the daemon was asked."),
    "Stats": ("Stats", "What a session takes, measured from outside of it."),
    "StatsSample": ("StatsSample", "What a session used at a time."),
    "StatsHistory": ("StatsHistory", "What a session used over its life, oldest first."),
    "SessionUsage": ("SessionUsage", "What a session used a few seconds ago."),
    "ExecResponse": ("ExecResult", "How a command of a shell ended, and its output."),
    "WaitsFor": ("WaitsFor", "A command behind which others wait."),
    "ExecRecord": ("ExecRecord", "A command or process that the session knows."),
    "ExecDetail": ("ExecDetail", "A command or process with its output until now."),
    "ProcessResponse": ("ProcessResult", "How a process ended, and its output."),
    "CodeContext": ("ContextInfo", "A context as it was when the daemon was asked."),
    "RunError": ("CodeError", "An exception that code raised."),
    "Column": ("CodeColumn", "A column of a data frame."),
    "Table": ("CodeTable", "The beginning of a data frame."),
    "Series": ("CodeSeries", "What belongs together in a plot."),
    "Axes": ("CodeAxes", "One plot of a chart."),
    "Chart": ("CodeChart", "A figure as numbers."),
    "Result": ("CodeResult", "One thing that code displayed, in several forms."),
    "RunResult": ("CodeRun", "What came of code."),
    "Chunk": ("OutputChunk", "A piece of output, as it was written."),
    "OutputResponse": ("OutputPage", "Pieces of output, and where to go on."),
    "Job": ("Job", "A process in the background of a shell."),
    "Shell": ("Shell", "One of a session's shells."),
    "Entry": ("FileEntry", "A file in a directory."),
    "List": ("FilePage", "A page of a directory."),
    "Stat": ("FileStat", "What is known of one file."),
    "Found": ("GlobResult", "Files that a pattern found."),
    "Match": ("GrepMatch", "A line that a search found."),
    "Matches": ("GrepResult", "What a search found."),
    "EditResponse": ("EditResult", "What an edit changed."),
    "Uploaded": ("Uploaded", "What an upload wrote."),
    "Written": ("Written", "What a write did."),
    "Unpacked": ("Unpacked", "What an archive had in it."),
    "Port": ("Port", "A port that something in the sandbox listens on."),
    "Preview": ("Preview", "A token that opens one port."),
    "Workspace": ("WorkspaceInfo", "A workspace as it was when the daemon was asked."),
    "NetworkSecret": ("NetworkSecret", "A credential that stays outside of the sandbox, without its value."),
    "Network": ("Network", "What a session may reach."),
    "NetworkDenial": ("NetworkDenial", "Something that a session's network refused."),
    "NetworkEvent": ("NetworkEvent", "One decision about a session's network."),
    "NetworkLog": ("NetworkLog", "Decisions about a session's network, and where to go on."),
    "NetworkStats": ("NetworkStats", "What a session's network carried and refused."),
    "AuditEntry": ("AuditEntry", "What a client of the daemon did."),
    "AuditPage": ("AuditPage", "Entries of the audit log, the newest first, and where to go on."),
    "QuotaBody": ("ExceededQuota", "A quota that does not suffice."),
    "ErrorBody": ("Problem", "Why something failed."),
    "BulkResult": ("BulkResult", "What came of one of many sessions."),
    "Completed": ("CompletedScope", "What is left of a scope that is complete."),
    "Snapshot": ("Snapshot", "Files of a session as they were at one moment."),
    "Image": ("Image", "What sessions can be made of."),
    "Progress": ("ImageProgress", "How far a job is."),
    "ImageJob": ("ImageJob", "Work on an image that the daemon does by itself, as it was at one moment."),
    "Secret": ("Secret", "A stored secret, without its value."),
    "User": ("User", "Somebody who has keys."),
    "Key": ("Key", "An API key, without its text."),
    "NewKey": ("NewKey", "An API key that was just made, with its text."),
    "Me": ("Me", "Whose the client's key is, and what it may do."),
    "Quota": ("Quota", "How much an owner may have. What is None has no limit."),
    "UsageNow": ("UsageNow", "What an owner has."),
    "OwnerUsage": ("OwnerUsage", "What an owner used in a month, and has and may have now."),
    "OwnerShare": ("OwnerShare", "What one of several owners uses."),
    "OwnersUsage": ("OwnersUsage", "What all owners use."),
    "UsageDay": ("UsageDay", "What an owner used on a day."),
    "Inspection": (
        "Inspection",
        "That somebody looked into what is the client's, or made a key in its name.",
    ),
    "Event": ("SandboxEvent", "Something that happened. Its type says which of the other fields it has."),
    "ExecBurst": ("ExecBurst", "Commands and processes that came too fast to be told one by one."),
    "NetworkBurst": ("NetworkBurst", "Decisions that came too fast to be told one by one."),
    "EventWorkspace": ("EventWorkspace", "What an event says of a workspace."),
    "EventImageJob": ("EventImageJob", "What an event says of a job for an image."),
    "EventAccount": ("EventAccount", "Whose account has changed."),
    "Defaults": ("Defaults", "What a session gets that asks for nothing else."),
    "Maxima": ("Maxima", "The daemon's limits."),
    "WorkspaceInfo": ("WorkspaceLimits", "What a workspace of this daemon may be."),
    "PoolImage": ("PoolImage", "The ready sandboxes of one image."),
    "HostSample": ("HostSample", "How full the host was, and what the daemon did in the seconds before."),
    "HostHistory": ("HostHistory", "How full the host was, oldest first."),
    "HostFinding": ("HostFinding", "One thing that is wrong."),
    "HostFindings": ("HostFindings", "What is wrong with the host and the daemon's data, the gravest first."),
    "PoolStatus": ("PoolStatus", "What is ready for sessions that are about to come."),
    "Info": ("DaemonInfo", "The daemon, its defaults and limits."),
}
# Those whose text may not be text, with what gives them as bytes.
BASES = {
    "ExecResponse": "OutputBytes",
    "ExecDetail": "OutputBytes",
    "ProcessResponse": "ProcessBytes",
    "Chunk": "ChunkBytes",
    "Result": "ResultForms",
    "RunResult": "RunForms",
}
# Fields that no repr shows, so that no log does.
HIDDEN = {("NewKey", "key")}

# Whole words of the async code and what stands in their place in the sync code.
WORDS = {
    "AsyncIterator": "Iterator",
    "AsyncGenerator": "Generator",
    "AsyncClient": "Client",
    "AsyncBaseTransport": "BaseTransport",
    "AsyncHTTPTransport": "HTTPTransport",
    "SandboxClient": "SyncSandboxClient",
    "SandboxTools": "SyncSandboxTools",
    "ScopeTools": "SyncScopeTools",
    "Session": "SyncSession",
    "Workspace": "SyncWorkspace",
    "Files": "SyncFiles",
    "CodeContext": "SyncCodeContext",
    "Process": "SyncProcess",
    "Processes": "SyncProcesses",
    "Ports": "SyncPorts",
    "Terminal": "SyncTerminal",
    "Tunnel": "SyncTunnel",
    "Socket": "SyncSocket",
    "ExecStream": "SyncExecStream",
    "FileWatch": "SyncFileWatch",
    "Events": "SyncEvents",
    "NetworkEvents": "SyncNetworkEvents",
    "Transport": "SyncTransport",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclose": "close",
    "aread": "read",
    "aiter_bytes": "iter_bytes",
    "asynccontextmanager": "contextmanager",
}
PHRASES = [
    (r"\bawait _core\.settled\((.*)\)\n", r"\1\n"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"(?m)^( +)with anyio\.(CancelScope\(|move_on_after\(\w+, )shield=True\):\n +", r"\1"),
    (r"\b_core\.event_loop\(\)", "None"),
    (r"\banyio\.open_file\b", "open"),
    (r"\banyio\.sleep\b", "time.sleep"),
    (r"\bimport anyio\b", "import time"),
    (r"\bwebsockets\.asyncio\b", "websockets.sync"),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
]
NOTE = "# Written by scripts/generate.py from {source}. Change that instead.\n"


def models() -> str:
    """The dataclasses of the answers, from the daemon's own description."""
    schemas = json.loads(OPENAPI.read_text())["components"]["schemas"]
    parts = [
        NOTE.format(source="the daemon's openapi.json"),
        '"""What the daemon answers, as dataclasses."""\n\n',
        "from __future__ import annotations\n\n"
        "from dataclasses import dataclass, field\nfrom datetime import datetime\n"
        "from typing import Any, Literal\n\n"
        "from ._bytes import ChunkBytes, OutputBytes, ProcessBytes, ResultForms, RunForms\n",
    ]
    for schema, (name, doc) in MODELS.items():
        base = f"({BASES[schema]})" if schema in BASES else ""
        parts.append(
            f'\n\n@dataclass(frozen=True, slots=True, kw_only=True)\nclass {name}{base}:\n    """{doc}"""\n'
        )
        parts.extend(fields(schema, schemas[schema]))
    return "".join(parts)


def fields(of: str, schema: dict[str, Any]) -> Iterator[str]:
    """The lines of the body of a schema's dataclass."""
    required = schema.get("required", [])
    for name, prop in schema["properties"].items():
        annotation, default = annotate(prop), ""
        if name not in required:
            if annotation.startswith(("list[", "dict[")):
                default = f" = field(default_factory={annotation.split('[')[0]})"
            else:
                annotation, default = annotation + " | None", " = None"
        if (of, name) in HIDDEN:
            default = " = field(repr=False)"
        yield f"\n    {name}: {annotation}{default}\n"
        if doc := prop.get("description"):
            doc = doc.replace("\\", "\\\\")
            yield textwrap.indent('"""' + "\n".join(textwrap.wrap(doc, 100)) + '"""', "    ") + "\n"


def annotate(prop: dict[str, Any]) -> str:
    """A schema as a type."""
    if ref := prop.get("$ref"):
        return MODELS[ref.rsplit("/", 1)[1]][0]
    if values := prop.get("enum"):
        return f"Literal[{', '.join(json.dumps(v) for v in values)}]"
    kinds = prop.get("type", "anything")
    kind = kinds if isinstance(kinds, str) else next(k for k in kinds if k != "null")
    if kind == "array":
        return f"list[{annotate(prop['items'])}]"
    if kind == "object":
        return f"dict[str, {annotate(prop['additionalProperties'])}]"
    if prop.get("format") == "date-time":
        return "datetime"
    return {"anything": "Any", "string": "str", "integer": "int", "number": "float", "boolean": "bool"}[kind]


def sync(source: Path) -> str:
    """The sync twin of an async module."""
    text = source.read_text()
    text = re.sub(r"\b\w+\b", lambda m: WORDS.get(m[0], m[0]), text)
    for pattern, replacement in PHRASES:
        text = re.sub(pattern, replacement, text)
    return NOTE.format(source=f"_async/{source.name}") + text


def ruff(text: str, name: str) -> str:
    """The text with its imports sorted, formatted."""
    for command in (["check", "--select", "I,F401", "--fix", "--quiet"], ["format"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", name, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=HERE,
        )
        text = done.stdout
    return text


def outputs() -> dict[Path, str]:
    """Every generated file and what belongs in it."""
    made = {PACKAGE / "_models.py": models()}
    for source in sorted((PACKAGE / "_async").glob("*.py")):
        made[PACKAGE / "_sync" / source.name] = sync(source)
    return {path: ruff(text, str(path)) for path, text in made.items()}


def main() -> int:
    """Writes or checks; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say what is out of date")
    check = parser.parse_args().check
    wanted = outputs()
    here = {PACKAGE / "_models.py", *(PACKAGE / "_sync").glob("*.py")}
    stale = [p for p in here | wanted.keys() if not p.exists() or p.read_text() != wanted.get(p)]
    for path in sorted(stale):
        if check:
            print(f"{path.relative_to(HERE)} is out of date: run scripts/generate.py", file=sys.stderr)
        elif path in wanted:
            path.parent.mkdir(exist_ok=True)
            path.write_text(wanted[path])
        else:
            path.unlink()
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
