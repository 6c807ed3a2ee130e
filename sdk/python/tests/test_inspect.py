"""Inspect's own suite for sandbox environments, as it is, and an evaluation of one sample."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")

from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import SandboxEnvironment, SandboxEnvironmentSpec, SandboxUnavailableError, sandbox
from inspect_ai.util._sandbox.self_check import *  # noqa: F403
from scripted import LIMIT_MS, Scripted, process, refusal

from sandkasten import InvalidArgumentError, SandboxClient
from sandkasten.inspect import SandkastenConfig, SandkastenSandboxEnvironment


@pytest.fixture
async def sandbox_env(daemon: str) -> AsyncIterator[SandboxEnvironment]:
    made = await SandkastenSandboxEnvironment.sample_init("task", None, {})
    yield made["default"]
    await SandkastenSandboxEnvironment.sample_cleanup("task", None, made, False)


@solver
def answer() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        done = await sandbox().exec(["sh", "-c", "cat question; python3 -c 'print(6*7)'"], timeout=20)
        state.output = ModelOutput.from_content("mockllm/model", done.stdout)
        return state

    return solve


async def test_an_evaluation_works_in_a_session_and_leaves_none(daemon: str, tmp_path: Path) -> None:
    task = Task(
        dataset=[Sample(input="What is it?", target="42", files={"question": "six times seven\n"})],
        solver=answer(),
        scorer=includes(),
        sandbox=SandboxEnvironmentSpec("sandkasten", SandkastenConfig(image="python", memory_mb=512)),
    )
    [log] = await eval_async(task, model="mockllm/model", log_dir=str(tmp_path))
    assert log.status == "success", log.error
    [sample] = log.samples or []
    assert sample.output.completion == "six times seven\n42\n"
    assert sample.scores and sample.scores["includes"].value == "C"
    async with SandboxClient() as client:
        assert not [s for s in await client.list_sessions() if s.info.status != "destroyed"]


async def test_a_configuration_survives_its_log() -> None:
    config = SandkastenConfig(image="base", memory_mb=256, user="1000")
    assert SandkastenSandboxEnvironment.config_deserialize(config.model_dump()) == config
    with pytest.raises(TypeError, match="SandkastenConfig"):
        await SandkastenSandboxEnvironment.sample_init("task", "compose.yaml", {})


async def scripted(**answers: Any) -> tuple[SandkastenSandboxEnvironment, Scripted]:
    daemon = Scripted(**answers)
    client = SandboxClient("http://daemon", "key", transport=daemon, max_retries=0)
    return SandkastenSandboxEnvironment(client, await client.create_session()), daemon


async def test_a_command_has_the_time_that_was_asked_for_or_all_that_there_is() -> None:
    made, daemon = await scripted(processes=process())
    for timeout in (None, 0, 5, 3600):
        await made.exec(["make"], timeout=timeout)
    asked = [body["timeout_ms"] for body in daemon.bodies("processes")]
    assert asked == [LIMIT_MS, LIMIT_MS, 5000, LIMIT_MS]
    assert len(daemon.bodies("info")) == 1
    made, _ = await scripted(processes=process(timed_out=True))
    with pytest.raises(TimeoutError, match="600 seconds"):
        await made.exec(["make"], timeout=3600)


async def test_output_is_as_the_program_wrote_it() -> None:
    made, daemon = await scripted(processes=process(stdout="a\r\n\x1b[1m", stderr="?", stderr_base64="/w=="))
    done = await made.exec(["show"])
    assert (done.stdout, done.stderr) == ("a\r\n\x1b[1m", "\ufffd")
    assert daemon.bodies("processes")[0]["raw_output"] is True


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "not_found", SandboxUnavailableError),
        (409, "conflict", SandboxUnavailableError),
        (503, "unavailable", SandboxUnavailableError),
        (400, "invalid_argument", InvalidArgumentError),
    ],
)
async def test_only_a_sandbox_that_is_gone_is_not_available(
    status: int, code: str, kind: type[Exception]
) -> None:
    made, _ = await scripted(processes=refusal(status, code))
    with pytest.raises(kind):
        await made.exec(["make"])
