"""What is derived is up to date, and nothing of the API is forgotten."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
OPENAPI = json.loads((HERE.parents[1] / "internal" / "api" / "v1" / "openapi.json").read_text())

# Where the operations are in the code, and why some are not.
METHODS = {
    "Client": "create-session get-session list-sessions create-workspace get-workspace list-workspaces "
    "delete-workspace list-snapshots get-snapshot delete-snapshot download-snapshot upload-snapshot get-info",
    "Session": "destroy-session update-session exec exec-stream list-execs heartbeat pause-session "
    "resume-session stop-session start-session get-stats create-snapshot fork-session list-shells "
    "close-shell watch-files",
    "Files": "download-archive upload-archive change-mode copy-file delete-file edit-file find-files "
    "search-files list-files make-directory move-file write-file-raw read-file stat-file",
    "Processes": "start-process process-stream list-processes",
    "Process": "get-exec cancel-exec exec-output resize-exec signal-exec exec-stdin attach-stream",
    "Ports": "list-ports create-preview",
}
LEFT_OUT = {
    "healthz": "for those who run the daemon",
    "readyz": "for those who run the daemon",
    "get-pool-status": "for those who run the daemon",
    "exec-events": "for a browser's EventSource",
    "wait-exec": "get-exec waits, too",
    "write-file": "write-file-raw has no limit of its own",
    "upload-files": "write-file-raw, once for each file",
    "open-terminal": "a WebSocket",
    "open-tunnel": "a WebSocket",
}


def test_the_generated_code_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, HERE / "scripts" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_operation_is_in_the_sdk_or_left_out_on_purpose() -> None:
    methods = {name for names in METHODS.values() for name in names.split()}
    there = set()
    for path, operations in OPENAPI["paths"].items():
        # Those of a workspace's files, and of a process, are others under another path.
        if path.startswith("/v1/workspaces/{id}/fs/") or "/processes/{exec_id}" in path:
            continue
        there |= {op["operationId"] for op in operations.values() if "operationId" in op}
    assert there - methods - LEFT_OUT.keys() == set(), "add these to the SDK, or say why not"
    assert (methods | LEFT_OUT.keys()) - there == set(), "these are not in the API any more"


def test_the_sync_code_awaits_nothing() -> None:
    for path in (HERE / "src" / "sandkasten" / "_sync").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.AsyncFunctionDef)), path
