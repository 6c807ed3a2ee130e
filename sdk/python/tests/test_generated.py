"""What is derived is up to date."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent


def test_the_generated_code_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, HERE / "scripts" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_sync_code_awaits_nothing() -> None:
    for path in (HERE / "src" / "sandkasten" / "_sync").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.AsyncFunctionDef)), path
