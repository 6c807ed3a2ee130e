"""The package as users get it."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent.parent

FIRST_SESSION = """
import sandkasten
with sandkasten.SyncSandboxClient() as client, client.create_session() as session:
    print(session.exec("echo from the wheel").output, end="")
print(sandkasten.__file__)
"""


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel and sdist. The wheel is made of the sdist, so that nothing can be missing there."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, HERE)
    return out


def test_what_is_in_it(dist: Path) -> None:
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"sandkasten/py.typed", "sandkasten/_sync/client.py", "sandkasten/deepagents.py"} <= set(names)
    assert all(name.startswith("sandkasten") for name in names)
    with tarfile.open(sdist) as archive:
        kept = {Path(name).parts[1] for name in archive.getnames()}
    assert kept <= {"src", "README.md", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore"}


def test_a_first_session_from_the_wheel(dist: Path, daemon: str, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)  # to put a pip into it takes longer than all the rest
    python = tmp_path / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check")
    run(*pip, "install", *dist.glob("*.whl"))
    printed, file = run(python, "-c", FIRST_SESSION).splitlines()
    assert printed == "from the wheel"
    assert file.startswith(os.fspath(tmp_path))
