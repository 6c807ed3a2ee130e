"""Inspect's own suite for sandbox environments, as it is, and an evaluation of one sample."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")

from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from sandkasten import SandboxClient
from sandkasten.inspect import SandkastenConfig, SandkastenSandboxEnvironment


@pytest.fixture
async def sandbox_env(daemon: str) -> AsyncIterator[SandboxEnvironment]:
    made = await SandkastenSandboxEnvironment.sample_init("task", None, {})
    yield made["default"]
    await SandkastenSandboxEnvironment.sample_cleanup("task", None, made, False)


async def test_an_evaluation_works_in_a_session_and_leaves_none(daemon: str, tmp_path: Path) -> None:
    outputs = [
        ModelOutput.for_tool_call("mockllm/model", "bash", {"cmd": "cat question; python3 -c 'print(6*7)'"}),
        ModelOutput.from_content("mockllm/model", "It is 42."),
    ]
    task = Task(
        dataset=[Sample(input="What is it?", target="42", files={"question": "six times seven\n"})],
        solver=[use_tools(bash(timeout=20)), generate()],
        scorer=includes(),
        sandbox=("sandkasten", SandkastenConfig(image="python")),
    )
    model = get_model("mockllm/model", custom_outputs=outputs)
    [log] = await eval_async(task, model=model, log_dir=str(tmp_path))
    assert log.status == "success", log.error
    [sample] = log.samples or []
    assert [m.text for m in sample.messages if m.role == "tool"] == ["six times seven\n42\n"]
    async with SandboxClient() as client:
        assert not [s for s in await client.list_sessions() if s.info.status != "destroyed"]
