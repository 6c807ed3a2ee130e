"""The deployment of SWE-ReX, with SWE-ReX itself and a real daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("swerex", reason="the extra swerex is not installed")

from scripted import Scripted, process, refusal
from swerex import exceptions
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)

from sandkasten import SandboxClient, UnavailableError
from sandkasten.swerex import SandkastenDeployment, SandkastenRuntime


@pytest.fixture
async def runtime(daemon: str) -> AsyncIterator[SandkastenRuntime]:
    deployment = SandkastenDeployment()
    await deployment.start()
    yield deployment.runtime
    await deployment.stop()


async def test_a_deployment_starts_and_stops(daemon: str) -> None:
    async with SandboxClient() as client:
        deployment = SandkastenDeployment(client=client)
        with pytest.raises(exceptions.DeploymentNotStartedError):
            await deployment.is_alive()
        await deployment.start()
        runtime = deployment.runtime
        assert await deployment.is_alive()
        await deployment.stop()
        await deployment.stop()
        with pytest.raises(exceptions.DeploymentNotStartedError):
            _ = deployment.runtime
        assert not await runtime.is_alive()


async def test_a_shell_keeps_directory_and_variables(runtime: SandkastenRuntime) -> None:
    await runtime.write_file(WriteFileRequest(path="/root/.env", content="export FROM_FILE=yes\n"))
    await runtime.create_session(CreateBashSessionRequest(startup_source=["/root/.env"]))
    await runtime.create_session(CreateBashSessionRequest(session="other"))
    await runtime.run_in_session(BashAction(command="cd /tmp; x=$FROM_FILE"))
    seen = await runtime.run_in_session(BashAction(command="echo $PWD $x"))
    assert (seen.output, seen.exit_code) == ("/tmp yes\n", 0)
    other = await runtime.run_in_session(BashAction(command="echo $PWD $x", session="other"))
    assert other.output == "/workspace\n"
    await runtime.close_session(CloseBashSessionRequest())
    with pytest.raises(exceptions.SessionDoesNotExistError):
        await runtime.run_in_session(BashAction(command="true"))
    with pytest.raises(exceptions.SessionExistsError):
        await runtime.create_session(CreateBashSessionRequest(session="other"))
    await runtime.close()


async def test_a_command_that_fails_is_an_error_if_that_is_asked(runtime: SandkastenRuntime) -> None:
    await runtime.create_session(CreateBashSessionRequest())
    with pytest.raises(exceptions.NonZeroExitCodeError, match=r"mine: .* 3"):
        await runtime.run_in_session(BashAction(command="(exit 3)", error_msg="mine"))
    assert (await runtime.run_in_session(BashAction(command="(exit 3)", check="silent"))).exit_code == 3
    assert (await runtime.run_in_session(BashAction(command="(exit 3)", check="ignore"))).exit_code is None
    with pytest.raises(exceptions.BashIncorrectSyntaxError) as caught:
        await runtime.run_in_session(BashAction(command="if; then"))
    assert "syntax error" in caught.value.extra_info["bash_stderr"]
    with pytest.raises(NotImplementedError, match="input"):
        await runtime.run_in_session(BashAction(command="gdb", is_interactive_command=True))


async def test_a_shell_lives_on_after_a_timeout_and_an_interrupt(runtime: SandkastenRuntime) -> None:
    await runtime.create_session(CreateBashSessionRequest())
    await runtime.run_in_session(BashAction(command="x=kept"))
    with pytest.raises(exceptions.CommandTimeoutError):
        await runtime.run_in_session(BashAction(command="sleep 60", timeout=0.5))
    await runtime.run_in_session(BashInterruptAction())
    running = asyncio.ensure_future(
        runtime.run_in_session(BashAction(command="touch begun; sleep 60", check="silent"))
    )
    while not await runtime.session.exists("begun"):
        await asyncio.sleep(0.05)
    await runtime.run_in_session(BashInterruptAction())
    assert (await running).exit_code != 0
    assert (await runtime.run_in_session(BashAction(command="echo $x"))).output == "kept\n"


async def test_empty_commands_do_nothing(runtime: SandkastenRuntime) -> None:
    await runtime.create_session(CreateBashSessionRequest())
    for command in ("", " ", "\n", "# a comment"):
        done = await runtime.run_in_session(BashAction(command=command, check="raise"))
        assert (done.output, done.exit_code) == ("", 0)
    assert (await runtime.run_in_session(BashAction(command="", check="ignore"))).exit_code is None


async def test_interactive_actions_talk_to_a_program(runtime: SandkastenRuntime) -> None:
    await runtime.create_session(CreateBashSessionRequest())
    await runtime.run_in_session(BashAction(command="cd /tmp; export GREETING='hello  you'"))
    python = BashAction(command="python3 -q", expect=[">>> "], is_interactive_command=True, timeout=30)
    assert (await runtime.run_in_session(python)).expect_string == ">>> "
    code = "import os; print(os.getcwd(), os.environ['GREETING'])"
    asked = BashAction(command=code, expect=[">>> "], is_interactive_command=True, timeout=30)
    assert (await runtime.run_in_session(asked)).output == "/tmp hello  you"
    code = "import threading; threading.Event().wait(60)"
    waits = BashAction(command=code, expect=[">>> "], is_interactive_command=True, timeout=1)
    with pytest.raises(exceptions.CommandTimeoutError):
        await runtime.run_in_session(waits)
    stopped = await runtime.run_in_session(BashInterruptAction(expect=[">>> "], timeout=30))
    assert "KeyboardInterrupt" in stopped.output and stopped.expect_string == ">>> "
    over = await runtime.run_in_session(BashAction(command="quit()", is_interactive_quit=True, timeout=30))
    assert over.exit_code == 0
    read = BashAction(command="read -p 'name? ' x; echo got-$x", expect=[r"nam[e]\? "], timeout=30)
    assert (await runtime.run_in_session(read)).expect_string == r"nam[e]\? "
    named = await runtime.run_in_session(BashAction(command="ann", is_interactive_command=True, timeout=30))
    assert named.output.endswith("got-ann")
    seen = await runtime.run_in_session(BashAction(command="pwd; ls -A /tmp | grep sandkasten; true"))
    assert seen.output == "/tmp\n", "its own shell is as it was, and nothing is left behind"


async def test_commands_run_as_with_subprocess(runtime: SandkastenRuntime) -> None:
    done = await runtime.execute(
        Command(command=["sh", "-c", "echo $A; echo err >&2; exit 4"], env={"A": "a"})
    )
    assert (done.stdout, done.stderr, done.exit_code) == ("a\n", "err\n", 4)
    merged = Command(command="echo out; echo err >&2; pwd", shell=True, merge_output_streams=True, cwd="/tmp")
    assert (await runtime.execute(merged)).stdout == "out\nerr\n/tmp\n"
    with pytest.raises(exceptions.NonZeroExitCodeError, match="mine"):
        await runtime.execute(Command(command=["false"], check=True, error_msg="mine"))
    with pytest.raises(exceptions.CommandTimeoutError):
        await runtime.execute(Command(command=["sleep", "60"], timeout=0.5))


async def test_files_anywhere_are_written_read_and_uploaded(
    runtime: SandkastenRuntime, tmp_path: Path
) -> None:
    for path in ("a/b.txt", "/opt/new/b.txt"):
        await runtime.write_file(WriteFileRequest(path=path, content="grüße\n"))
        assert (await runtime.read_file(ReadFileRequest(path=path))).content == "grüße\n"
    for path in ("absent", "/opt/absent"):
        with pytest.raises(FileNotFoundError):
            await runtime.read_file(ReadFileRequest(path=path))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "f").write_text("here")
    for target in ("tree", "/opt/tree"):
        await runtime.upload(UploadRequest(source_path=str(tmp_path), target_path=target))
        assert (await runtime.read_file(ReadFileRequest(path=f"{target}/sub/f"))).content == "here"
    await runtime.upload(UploadRequest(source_path=str(tmp_path / "sub" / "f"), target_path="/opt/f"))
    assert (await runtime.execute(Command(command=["cat", "/opt/f"]))).stdout == "here"
    assert (await runtime.execute(Command(command=["ls", "-A"]))).stdout == "a\ntree\n", (
        "nothing is left behind"
    )


async def scripted(**answers: Any) -> tuple[SandkastenRuntime, Scripted]:
    daemon = Scripted(**answers)
    client = SandboxClient("http://daemon", "key", transport=daemon, max_retries=0)
    deployment = SandkastenDeployment(client=client)
    await deployment.start()
    return deployment.runtime, daemon


async def test_a_command_has_the_time_that_was_asked_for_or_all_that_there_is() -> None:
    runtime, daemon = await scripted(processes=process())
    for timeout in (None, 0.0, 5, 3600):
        await runtime.execute(Command(command=["make"], timeout=timeout))
    assert [body["timeout_ms"] for body in daemon.bodies("processes")] == [600_000, 1, 5000, 600_000]
    assert len(daemon.bodies("info")) == 1


async def test_output_is_as_the_program_wrote_it() -> None:
    runtime, daemon = await scripted(
        processes=process(stdout="a\r\n\x1b[1m", stderr="?", stderr_base64="/w==", output="b\r\n")
    )
    done = await runtime.execute(Command(command=["show"]))
    assert (done.stdout, done.stderr) == ("a\r\n\x1b[1m", "\\xff")
    merged = await runtime.execute(Command(command=["show"], merge_output_streams=True))
    assert merged.stdout == "b\r\n"
    assert all(body["raw_output"] for body in daemon.bodies("processes"))


async def test_only_a_file_that_is_missing_is_not_found() -> None:
    for status, code, kind in ((404, "not_found", FileNotFoundError), (503, "unavailable", UnavailableError)):
        gone = refusal(status, code)
        for path in ("a", "/etc/a"):
            runtime, _ = await scripted(processes=process(), fs_read=gone, fs_delete=refusal(409, "conflict"))
            with pytest.raises(kind):
                await runtime.read_file(ReadFileRequest(path=path))
