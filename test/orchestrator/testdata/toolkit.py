"""Drives a daemon with the published client, as its users do.

usage: toolkit.py <url of the daemon> <key> <mode> <step> [<id of the session>]
"""

import os
import sys
import time
import uuid
from types import SimpleNamespace

import requests
import scripted
from astraforge_toolkit import DeepAgentClient, DeepAgentError, SandboxBackend, sandbox_python_repl, sandbox_shell

URL, KEY, MODE, STEP = sys.argv[1] + "/api", *sys.argv[2:5]
CLIENT = DeepAgentClient(base_url=URL, api_key=KEY)
BINARY = bytes(range(256)) * 1000


def backend_of(session_id):
    return SandboxBackend(SimpleNamespace(config={}), base_url=URL, api_key=KEY, session_id=session_id, session_params={"id": session_id, "mode": MODE})


def expect(got, want, what):
    if got != want:
        raise SystemExit(f"{what}: {got!r}, want {want!r}")


def create(**params):
    session = CLIENT.create_sandbox_session({"mode": MODE, **params})
    expect(session.raw["mode"], MODE, "mode of a new session")
    expect(session.status, "ready", "status of a new session")
    # The toolkit calls python, which the image of the tests has as python3 only.
    backend_of(session.session_id).shell("command -v python || ln -s \"$(command -v python3)\" /usr/local/bin/python")
    return session


def life():
    """Everything that one session is used for."""
    session = create(id=str(uuid.uuid4()), memory="256Mi", cpu="500m")
    expect((session.workspace_path, session.idle_timeout_sec, session.max_lifetime_sec), ("/workspace", 300, 3600), "session")
    expect(CLIENT.get_sandbox_session(session.session_id).session_id, session.session_id, "get")
    expect([s.session_id for s in CLIENT.list_sandbox_sessions() if s.session_id == session.session_id], [session.session_id], "list")
    expect(CLIENT.heartbeat_sandbox_session(session.session_id)["status"], "ready", "heartbeat")

    backend = backend_of(session.session_id)
    expect(backend.write("/workspace/src/a.py", "  import os\nprint(1)\n").error, None, "write")
    expect("already exists" in backend.write("/workspace/src/a.py", "x").error, True, "write again")
    expect(backend.download("/workspace/src/a.py"), b"  import os\nprint(1)\n", "download")
    expect("print(1)" in backend.read("/workspace/src/a.py"), True, "read")
    expect(backend.edit("/workspace/src/a.py", "print(1)", "print(2)").occurrences, 1, "edit")
    expect([m["line"] for m in backend.grep_raw("print", "/workspace/src")], [2], "grep")
    expect([f["path"] for f in backend.glob_info("*.py", "/workspace")], ["/workspace/src/a.py"], "glob")
    expect("/workspace/src/a.py" in [f["path"] for f in backend.ls_info("/workspace/src")], True, "ls")
    expect(backend.shell("pwd", cwd="/tmp"), "/tmp\n", "shell")
    expect(backend.shell("echo no >&2; exit 3"), "no\n", "shell that fails")
    expect(backend.python_exec("print(6 * 7)"), "42\n", "python")
    # The tools of agents find the daemon by the environment.
    os.environ.update(ASTRA_FORGE_API_URL=URL, ASTRA_FORGE_API_KEY=KEY)
    runtime = SimpleNamespace(config={"configurable": {"sandbox_session_id": session.session_id}})
    expect("sum 5" in sandbox_shell.func(command="echo sum $((2+3))", runtime=runtime), True, "sandbox_shell")
    expect("product 42" in sandbox_python_repl.func(code="print('product', 6 * 7)", runtime=runtime), True, "sandbox_python_repl")

    CLIENT.upload_file(session.session_id, path="/workspace/data.bin", content=BINARY)
    expect(backend.download("/workspace/data.bin"), BINARY, "a binary file")
    expect(CLIENT.get_file_content(session.session_id, path="/workspace/src/a.py", encoding="utf-8"), "  import os\nprint(2)\n", "content")
    try:
        CLIENT.get_file_content(session.session_id, path="/workspace/missing")
        raise SystemExit("a missing file was read")
    except DeepAgentError:
        pass

    artifact = CLIENT.export_file(session.session_id, "/workspace/data.bin", filename="plot.png", content_type="image/png")
    expect((artifact.filename, artifact.content_type, artifact.size_bytes), ("plot.png", "image/png", len(BINARY)), "artifact")
    backend.shell("echo changed > data.bin; cp data.bin other.bin")
    CLIENT.upload_file(session.session_id, path="/workspace/data.bin", content=BINARY)
    # Its link needs no key, and outlives the sandbox.
    CLIENT.stop_sandbox_session(session.session_id)
    answer = requests.get(sys.argv[1] + artifact.download_url, timeout=60)
    expect((answer.status_code, answer.content), (200, BINARY), "download of an artifact")
    expect(CLIENT.get_sandbox_session(session.session_id).raw["artifacts_count"], 1, "artifacts_count")

    expect(CLIENT.get_sandbox_session(session.session_id).status, "terminated", "status after a stop")
    expect(backend.download("/workspace/data.bin"), BINARY, "a binary file after a stop")
    expect(CLIENT.get_sandbox_session(session.session_id).status, "ready", "status after its use")
    CLIENT.delete_sandbox_session(session.session_id)
    CLIENT.delete_sandbox_session(session.session_id)
    expect("print(2)" in backend.read("/workspace/src/a.py"), True, "read after a delete")
    CLIENT.delete_sandbox_session(session.session_id)


def begin():
    session = create(id=sys.argv[5])
    expect(backend_of(session.session_id).write("/workspace/kept.txt", "kept\n").error, None, "write")


def again():
    backend = backend_of(sys.argv[5])
    expect(backend.shell("cat kept.txt"), "kept\n", "a file of before")


def stop():
    CLIENT.stop_sandbox_session(sys.argv[5])


def lost():
    """The snapshot is lost: the first use says so, the next begins without it."""
    backend = backend_of(sys.argv[5])
    try:
        backend.shell("true")
        raise SystemExit("a lost snapshot was restored")
    except RuntimeError as failed:
        expect("is lost" in str(failed), True, str(failed))
    expect(CLIENT.get_sandbox_session(sys.argv[5]).status, "failed", "status after a lost snapshot")
    expect(backend.shell("ls"), "", "files")


def idle():
    """A session that nothing uses ends and comes back; one with heartbeats stays."""
    session, kept = create(idle_timeout_sec=60), create(idle_timeout_sec=60)
    backend = backend_of(session.session_id)
    expect(backend.write("/workspace/kept.txt", "kept\n").error, None, "write")
    deadline = time.time() + 90
    while CLIENT.get_sandbox_session(session.session_id).status == "ready":
        if time.time() > deadline:
            raise SystemExit("an idle session goes on")
        expect(CLIENT.heartbeat_sandbox_session(kept.session_id)["status"], "ready", "heartbeat")
        time.sleep(1)
    ended = CLIENT.get_sandbox_session(session.session_id).raw
    expect(ended["metadata"]["terminated_reason"], "idle_timeout", "reason")
    expect(backend.shell("cat kept.txt"), "kept\n", "a file of before")
    for one in (session, kept):
        CLIENT.delete_sandbox_session(one.session_id)


def agent():
    """An agent works in a sandbox, and its files are there when it is begun anew."""
    session = create(id=sys.argv[5])
    os.environ.update(ASTRA_FORGE_API_URL=URL, ASTRA_FORGE_API_KEY=KEY)
    backend = backend_of(session.session_id)
    scripted.work(backend, [sandbox_shell, sandbox_python_repl], session.session_id)

    main = "def total(prices):\n    return sum(prices)\n\nprint(total([1, 2, 39]))\n"
    expect(backend.download("/workspace/shop/main.py"), main.encode(), "the file that was edited")
    expect(backend.shell("cat shop/result"), "42\n", "the file that a command made")
    CLIENT.stop_sandbox_session(session.session_id)
    expect(CLIENT.get_sandbox_session(session.session_id).status, "terminated", "status after a stop")
    expect(backend.shell("cat shop/main.py shop/result"), main + "42\n", "files after a stop")
    CLIENT.delete_sandbox_session(session.session_id)


{"agent": agent, "life": life, "begin": begin, "again": again, "stop": stop, "lost": lost, "idle": idle}[STEP]()
print("ok")
