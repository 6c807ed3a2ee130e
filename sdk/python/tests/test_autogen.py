"""The code executor of AutoGen, with AutoGen itself and a real daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

pytest.importorskip("autogen_core", reason="the extra autogen is not installed")

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock
from scripted import Scripted, process, refusal

from sandkasten import SandboxClient, UnprocessableError
from sandkasten.autogen import SandkastenCodeExecutor


@pytest.fixture
async def executor(daemon: str) -> AsyncIterator[SandkastenCodeExecutor]:
    async with SandboxClient() as client, SandkastenCodeExecutor(client, timeout=20) as executor:
        yield executor


async def run(executor: SandkastenCodeExecutor, *blocks: tuple[str, str]) -> tuple[int, str]:
    made = [CodeBlock(language=language, code=code) for language, code in blocks]
    result = await executor.execute_code_blocks(made, CancellationToken())
    return result.exit_code, result.output


async def test_files_stay_until_a_restart(executor: SandkastenCodeExecutor) -> None:
    assert await run(executor, ("python", "open('a', 'w').write('kept')")) == (0, "")
    assert await run(executor, ("sh", "cat a")) == (0, "kept")
    assert [entry.name for entry in await executor.session.list()] == ["a"], "code leaves no file"
    await executor.restart()
    code, output = await run(executor, ("bash", "cat a"))
    assert code == 1 and "No such file" in output


async def test_code_with_a_filename_can_be_imported_later(executor: SandkastenCodeExecutor) -> None:
    module = "# filename: helper.py\ndef twice(n):\n    return 2 * n\n"
    assert await run(executor, ("python", module)) == (0, "")
    code = "import sys; sys.path.append('.')\nimport helper; print(helper.twice(4))"
    assert await run(executor, ("Python", code)) == (0, "8\n")


async def test_a_file_name_outside_of_the_workspace_is_a_result(executor: SandkastenCodeExecutor) -> None:
    for name in ("/etc/motd", "../up.py", "/workspace", "a/../../b"):
        code, output = await run(executor, ("sh", "echo first"), ("python", f"# filename: {name}\nprint(1)"))
        assert code == 1 and output.startswith("first\nFilename is not in the workspace"), output
    await executor.session.exec("mkdir taken; ln -s /etc out")
    for name in ("taken", "out/motd"):
        code, output = await run(executor, ("python", f"# filename: {name}\nprint(1)"))
        assert code == 1 and name in output, output
    assert await run(executor, ("python", "# filename: /workspace/in/it.py\nprint(2)")) == (0, "2\n")


async def test_blocks_run_until_one_fails(executor: SandkastenCodeExecutor) -> None:
    blocks = ("sh", "echo one"), ("sh", "echo two >&2; exit 3"), ("sh", "echo three")
    assert await run(executor, *blocks) == (3, "one\ntwo\n")
    code, output = await run(executor, ("cobol", "x"))
    assert code == 1 and "python" in output, "the answer names the languages that there are"


async def test_code_ends_with_its_time(daemon: str) -> None:
    async with SandboxClient() as client, SandkastenCodeExecutor(client, timeout=5) as executor:
        code, output = await run(executor, ("sh", "echo begun; sleep 60"))
    assert code == 124 and "begun" in output and "5 seconds" in output


async def test_a_cancelled_token_ends_the_code(executor: SandkastenCodeExecutor) -> None:
    token = CancellationToken()
    block = CodeBlock(language="sh", code="touch begun; sleep 61")
    running = asyncio.ensure_future(executor.execute_code_blocks([block], token))
    while not await executor.session.exists("begun"):
        await asyncio.sleep(0.05)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    for _ in range(100):
        if all(record.state == "ended" for record in await executor.session.processes.list()):
            return
        await asyncio.sleep(0.1)
    pytest.fail("the code goes on")


async def test_stop_removes_the_session(daemon: str) -> None:
    async with SandboxClient() as client:
        executor = SandkastenCodeExecutor(client)
        await run(executor, ("python", "pass"))  # starts it
        session = executor.session
        await executor.stop()
        await executor.stop()
        assert (await session.refresh()).status == "destroyed"
        with pytest.raises(RuntimeError, match="start"):
            _ = executor.session


async def test_code_whose_file_cannot_be_removed_has_its_own_outcome() -> None:
    async def scripted(answer: tuple[int, dict[str, object]]) -> tuple[int, str]:
        daemon = Scripted(processes=answer, fs_delete=refusal(503, "unavailable"))
        client = SandboxClient("http://daemon", "key", transport=daemon, max_retries=0)
        return await run(SandkastenCodeExecutor(client), ("python", "print(1)"))

    assert await scripted(process(output="1\n")) == (0, "1\n")
    with pytest.raises(UnprocessableError):
        await scripted(refusal(422, "unprocessable"))


async def test_a_timeout_is_more_than_nothing() -> None:
    for timeout in (0, -1):
        with pytest.raises(ValueError, match="more than 0 seconds"):
            SandkastenCodeExecutor(SandboxClient(base_url="http://127.0.0.1:1", api_key="x"), timeout=timeout)
