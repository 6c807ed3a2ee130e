"""The README's programs and the examples, as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL)
EXAMPLES = {
    "stream.py": "ended: canceled\n",
    "server.py": "Serving HTTP on 0.0.0.0 port 3000 (http://0.0.0.0:3000/) ...\n"
    "<h1>hello from the sandbox</h1>\n",
    "parallel.py": "seed 0: 4\nseed 1: 2\nseed 2: 1\nseed 3: 2\n",
}


def run(*args: str) -> str:
    done = subprocess.run([sys.executable, *args], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_program_of_the_readme_says_what_it_prints() -> None:
    assert len(BLOCKS) == (HERE / "README.md").read_text().count("```python") == 8


@pytest.mark.parametrize(("program", "printed"), BLOCKS)
def test_readme(program: str, printed: str, daemon: str) -> None:
    assert run("-c", program) == printed


@pytest.mark.parametrize("name", [path.name for path in sorted((HERE / "examples").glob("*.py"))])
def test_example(name: str, daemon: str) -> None:
    assert run(str(HERE / "examples" / name)) == EXAMPLES[name]
