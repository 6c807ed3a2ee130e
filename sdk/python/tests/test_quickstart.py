"""The quickstarts as they are, with a real daemon and a stand-in for the model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from standin import KEY, anthropic, chat, chat_call, function_call, message, model, openai, use

QUICKSTART = Path(__file__).resolve().parents[3] / "quickstart"
TOOLS = ["exec", "read", "write", "edit", "list"]
# Nothing else of the environment: it may have the keys of real models.
PASSED = ("PATH", "HOME", "LANG", "SANDKASTEN_URL", "SANDKASTEN_API_KEY")
PROGRAM = "print([n for n in range(2, 30) if all(n % d for d in range(2, n))])\n"
PRINTED = "[2, 3, 5, 7, 11, 13, 17, 19, 23, 29]"


def run(*command: str, stdin: str = "", **env: str) -> str:
    mine = {name: os.environ[name] for name in PASSED if name in os.environ}
    done = subprocess.run(
        command,
        cwd=QUICKSTART,
        env=mine | env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_curl(daemon: str) -> None:
    out = run("sh", "curl/main.sh")
    assert "hello from /tmp\n" in out and "\n42\n" in out
    assert out.count("event: chunk") >= 1 and "event: done" in out and "step 3" in out


def test_network(daemon: str) -> None:
    out = run(sys.executable, "network/main.py", API_KEY="of-great-worth")
    assert "The sandbox has: placeholder-" in out and "of-great-worth" not in out
    assert "pip install: " in out and "The API answers: " in out
    assert "Refused: elsewhere.example.org - no entry of allow names" in out


def test_claude(daemon: str) -> None:
    pytest.importorskip("anthropic")
    replies = [
        anthropic({"type": "text", "text": "First the file."}, use(1, "write", path="p.py", content=PROGRAM)),
        anthropic(use(2, "exec", command="python3 p.py"), use(3, "read", path="absent")),
        anthropic({"type": "text", "text": "It printed the primes."}),
    ]
    with model("/v1/messages", replies) as standin:
        out = run(sys.executable, "claude/main.py", ANTHROPIC_BASE_URL=standin.url, ANTHROPIC_API_KEY=KEY)
    assert out.endswith("It printed the primes.\n")
    assert [tool["name"] for tool in standin.requests[0]["tools"]] == [
        "exec",
        "read",
        "write",
        "edit",
        "list",
    ]
    second, third = standin.requests[2]["messages"][-1]["content"]
    assert second["tool_use_id"] == "toolu_02" and second["content"].startswith(PRINTED)
    assert third["is_error"] and "absent" in third["content"]


def test_data_analyst(daemon: str, tmp_path: Path) -> None:
    pytest.importorskip("anthropic")
    out = run(sys.executable, "scripted.py", sys.executable, "data-analyst/main.py", CHARTS=str(tmp_path))
    assert "count" in out and "South" in out  # the table that it looked at
    chart = tmp_path / "chart-1.png"
    assert f"{chart}: line chart, Revenue by region\n" in out
    assert chart.read_bytes().startswith(b"\x89PNG\r\n")
    assert out.endswith("The sandbox printed: 'North grew most, by 69%'\n")


def test_data_analyst_shows_its_model_the_chart(daemon: str, tmp_path: Path) -> None:
    pytest.importorskip("anthropic")
    draw = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show(); 1 / 0"
    replies = [anthropic(use(1, "run_code", code=draw)), anthropic({"type": "text", "text": "It rises."})]
    with model("/v1/messages", replies) as standin:
        env = {"ANTHROPIC_BASE_URL": standin.url, "ANTHROPIC_API_KEY": KEY, "CHARTS": str(tmp_path)}
        assert run(sys.executable, "data-analyst/main.py", "How?", **env).endswith("It rises.\n")
    (answer,) = standin.requests[1]["messages"][-1]["content"]
    text, image = answer["content"]
    assert answer["is_error"] and "ZeroDivisionError" in text["text"]
    assert image["source"]["media_type"] == "image/png" and image["source"]["data"].startswith("iVBORw0KGgo")


def test_openai_agents(daemon: str) -> None:
    pytest.importorskip("agents")
    replies = [
        openai(function_call(1, "write", path="p.py", content=PROGRAM)),
        openai(function_call(2, "exec", command="python3 p.py")),
        openai(message("It printed the primes.")),
    ]
    with model("/v1/responses", replies) as standin:
        out = run(
            sys.executable,
            "openai-agents/main.py",
            OPENAI_BASE_URL=standin.url + "/v1",
            OPENAI_API_KEY=KEY,
            OPENAI_AGENTS_DISABLE_TRACING="1",
        )
    assert out.endswith("It printed the primes.\n")
    assert {tool["name"] for tool in standin.requests[0]["tools"]} == {
        "exec",
        "read",
        "write",
        "edit",
        "list",
    }
    assert output_of(standin.requests[2], "call_02").startswith(PRINTED)


def output_of(request: dict[str, Any], call: str) -> str:
    outputs = [item for item in request["input"] if item.get("type") == "function_call_output"]
    return str(next(item["output"] for item in outputs if item["call_id"] == call))


def test_deepagents(daemon: str) -> None:
    pytest.importorskip("deepagents")
    replies = [
        anthropic(use(1, "write_file", file_path="/workspace/p.py", content=PROGRAM)),
        anthropic(use(2, "execute", command="python3 /workspace/p.py")),
        anthropic({"type": "text", "text": "It printed the primes."}),
    ]
    with model("/v1/messages", replies) as standin:
        out = run(
            sys.executable,
            "deepagents/main.py",
            ANTHROPIC_BASE_URL=standin.url,
            ANTHROPIC_API_KEY=KEY,
        )
    assert out.endswith("It printed the primes.\n")
    assert PRINTED in json.dumps(standin.requests[2]["messages"][-1])


def test_langchain(daemon: str) -> None:
    pytest.importorskip("langchain_anthropic", reason="it comes with deepagents")
    replies = [
        anthropic(use(1, "write_file", path="p.py", content=PROGRAM)),
        anthropic(use(2, "run", command="python3 p.py; false")),
        anthropic({"type": "text", "text": "It printed the primes."}),
    ]
    with model("/v1/messages", replies) as standin:
        out = run(sys.executable, "langchain/main.py", ANTHROPIC_BASE_URL=standin.url, ANTHROPIC_API_KEY=KEY)
    assert out.endswith("It printed the primes.\n") and "> run" in out
    assert [tool["name"] for tool in standin.requests[0]["tools"]] == ["run", "write_file"]
    answer = json.dumps(standin.requests[2]["messages"][-1])
    assert PRINTED in answer and "[exit code 1]" in answer


def test_autogen(daemon: str) -> None:
    pytest.importorskip("autogen_agentchat", reason="the extra autogen is not installed")
    replies = [
        chat(tool_calls=[chat_call(1, "CodeExecutor", code=f"open('p.py', 'w').write({PROGRAM!r})")]),
        chat(tool_calls=[chat_call(2, "CodeExecutor", code="exec(open('p.py').read())")]),
        chat(content="It printed the primes."),
        chat(content="It printed the primes."),
    ]
    with model("/v1/chat/completions", replies) as standin:
        out = run(sys.executable, "autogen/main.py", OPENAI_BASE_URL=standin.url + "/v1", OPENAI_API_KEY=KEY)
    assert out.endswith("It printed the primes.\n")
    assert PRINTED in standin.requests[2]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("module", "program"),
    [
        ("anthropic", "claude"),
        ("agents", "openai-agents"),
        ("deepagents", "deepagents"),
        ("langchain_anthropic", "langchain"),
        ("autogen_agentchat", "autogen"),
    ],
)
def test_without_a_key(daemon: str, module: str, program: str) -> None:
    pytest.importorskip(module)
    out = run(sys.executable, "scripted.py", sys.executable, f"{program}/main.py")
    assert "The sandbox printed: " in out and PRINTED in out
