"""Inspect's own suite for sandbox environments, as it is, and an evaluation of one sample."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")

from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import SandboxEnvironment, SandboxEnvironmentSpec, sandbox
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from sandkasten import SandboxClient
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
