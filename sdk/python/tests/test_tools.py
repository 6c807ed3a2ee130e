"""The tools of agents, in a real session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sandkasten import ProtocolError
from sandkasten._tools import tool_answer
from sandkasten.agents import SandboxTools, ScopeTools, SyncSandboxTools, SyncScopeTools, ToolImage, cut


@pytest.fixture
def tools(side: Any, daemon: str) -> Iterator[Any]:
    client = side.client()
    session = side.call(client.create_session, image="base", disk_mb=16)
    kind = SandboxTools if side.client.__name__ == "SandboxClient" else SyncSandboxTools
    yield kind(session, limit=2000)
    side.call(session.destroy)
    side.call(getattr(client, "aclose", None) or client.close)


def call(side: Any, tools: Any, name: str, **arguments: Any) -> str:
    result = side.call(tools.call, name, arguments)
    assert not result.is_error, result.text
    return str(result.text)


def test_a_file_is_written_read_edited_and_run(side: Any, tools: Any) -> None:
    assert call(side, tools, "write", path="src/a.py", content="a = 6\nb = 7\nprint(a * b)\n") == (
        "Wrote 25 bytes to src/a.py."
    )
    assert call(side, tools, "read", path="src/a.py") == "1\ta = 6\n2\tb = 7\n3\tprint(a * b)"
    assert "+b = 8" in call(side, tools, "edit", path="src/a.py", old="b = 7", new="b = 8")
    assert call(side, tools, "exec", command="cd src && python3 a.py") == (
        "48\n[exit code 0, in /workspace/src]"
    )
    assert call(side, tools, "exec", command="pwd; (exit 3)") == (
        "/workspace/src\n[exit code 3, in /workspace/src]"
    )
    assert call(side, tools, "list") == "src/"
    assert call(side, tools, "list", depth=2) == "src/\nsrc/a.py\t25"


def test_long_output_is_cut_and_kept(side: Any, tools: Any) -> None:
    text = call(side, tools, "exec", command="seq 5000")
    assert text.startswith("1\n2\n") and text.endswith("5000\n[exit code 0, in /workspace]")
    assert len(text) < 2300
    assert call(side, tools, "list") == "[the directory is empty]"
    assert call(side, tools, "list", path=".sandkasten").startswith(".gitignore\t2\noutput-0.txt\t")
    file = text.split("all of it is in ")[1].split(":")[0]
    assert call(side, tools, "exec", command=f"sed -n 2500p {file}").startswith("2500\n")


def test_how_a_command_ends_is_said(side: Any, tools: Any) -> None:
    assert "in /workspace]" in call(side, tools, "exec", command="true")  # the shell has started
    text = call(side, tools, "exec", command="echo before; sleep 600", timeout_seconds=5)
    assert text == "before\n[exit code 124, timeout, in /workspace]"
    assert "shell_exited" in call(side, tools, "exec", command="exit 1")
    assert "in a new shell" in call(side, tools, "exec", command="true")
    assert call(side, tools, "exec", command="cat", stdin="given") == "given\n[exit code 0, in /workspace]"


def test_no_network_is_said_once(side: Any, tools: Any) -> None:
    assert "has no network" in tools.tools[0].description
    assert "has no network" in tools.anthropic()[0]["description"]
    assert "has no network" in tools.openai()[0]["description"]
    command = "echo 'curl: (6) Could not resolve host: example.com' >&2"
    assert "no network" not in call(side, tools, "exec", command="echo fine")
    assert call(side, tools, "exec", command=command).endswith("Use what is installed, or ask for it.]")
    assert call(side, tools, "exec", command=command).endswith("[exit code 0, in /workspace]")


def test_a_full_disk_is_said(side: Any, tools: Any) -> None:
    assert call(side, tools, "exec", command="(exit 1)") == "[exit code 1, in /workspace]"
    text = call(side, tools, "exec", command="head -c 30000000 /dev/zero >f")
    assert text.endswith("[exit code 1, in /workspace, the disk is full]")
    assert "the beginning of it is in" in call(side, tools, "exec", command="seq 5000")
    assert call(side, tools, "exec", command="rm f") == "[exit code 0, in /workspace]"


def test_a_long_file_is_read_in_parts(side: Any, tools: Any) -> None:
    call(side, tools, "write", path="long", content="".join(f"line {n}\n" for n in range(1, 1001)))
    first = call(side, tools, "read", path="long")
    goes_on = int(first.rsplit("offset ", 1)[1].split()[0])
    assert f"{goes_on - 1}\tline {goes_on - 1}\n[..." in first
    assert call(side, tools, "read", path="long", offset=goes_on, limit=1).startswith(
        f"{goes_on}\tline {goes_on}\n"
    )
    assert call(side, tools, "read", path="long", offset=1000) == "1000\tline 1000"
    assert call(side, tools, "read", path="long", offset=2000) == "[the file has 1000 lines]"
    call(side, tools, "write", path="empty", content="")
    assert call(side, tools, "read", path="empty") == "[the file is empty]"


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("read", {"path": "absent"}, "absent"),
        ("edit", {"path": "absent", "old": "a", "new": "b"}, "absent"),
        ("read", {"file": "a"}, "wrong arguments"),
        ("exec", {"command": "true", "timeout_seconds": "soon"}, "wrong arguments"),
        ("fly", {}, "There are: exec, read, write, edit, list."),
    ],
)
def test_what_goes_wrong_is_told_to_the_model(
    side: Any, tools: Any, name: str, arguments: dict[str, Any], text: str
) -> None:
    result = side.call(tools.call, name, arguments)
    assert result.is_error and text in result.text


def test_an_edit_that_is_not_unique_changes_nothing(side: Any, tools: Any) -> None:
    call(side, tools, "write", path="a", content="x x")
    assert side.call(tools.call, "edit", {"path": "a", "old": "x", "new": "y"}).is_error
    assert call(side, tools, "read", path="a") == "1\tx x"
    call(side, tools, "edit", path="a", old="x", new="y", replace_all=True)
    assert call(side, tools, "read", path="a") == "1\ty y"


def test_every_tool_is_described_in_every_dialect(side: Any, tools: Any) -> None:
    names = ["exec", "read", "write", "edit", "list"]
    assert [t.name for t in tools.tools] == names
    assert [t["name"] for t in tools.anthropic()] == names
    assert [t["name"] for t in tools.openai()] == names
    assert [t["function"]["name"] for t in tools.openai_chat()] == names
    for tool in tools.tools:
        assert len(tool.description) > 80
        assert set(tool.parameters["required"]) <= set(tool.parameters["properties"])


@pytest.mark.parametrize(
    ("text", "limit", "wanted"),
    [
        ("short", 10, "short"),
        ("a" * 30, 10, "aaaaa\n[... 20 characters in 1 lines left out here ...]\naaaaa"),
        ("1234\n" * 6, 20, "1234\n1234\n[... 10 characters in 3 lines left out here ...]\n1234\n1234\n"),
    ],
)
def test_cut(text: str, limit: int, wanted: str) -> None:
    assert cut(text, limit) == wanted


def test_an_answer_may_have_any_characters_and_must_be_json() -> None:
    said = {"result": {"content": [{"type": "text", "text": "one\x85\u2028two"}]}}
    answer = json.dumps(said, ensure_ascii=False)
    for text in (answer, f"event: message\r\ndata: {answer}\r\n\r\n"):
        assert tool_answer(text.encode()).text == "one\x85\u2028two"
    for wrong in (b"<html>", b"\xff", b"data: {"):
        with pytest.raises(ProtocolError, match="no JSON"):
            tool_answer(wrong)


def test_pictures_are_given_in_the_form_of_each_model() -> None:
    content = [
        {"type": "text", "text": "{}"},
        {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
    ]
    result = tool_answer(json.dumps({"result": {"content": content}}).encode())
    assert result.text == "{}" and result.images == (ToolImage("image/png", "iVBORw0KGgo="),)
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    url = "data:image/png;base64,iVBORw0KGgo="
    assert result.anthropic() == [{"type": "text", "text": "{}"}, {"type": "image", "source": source}]
    assert result.openai()[1] == {"type": "input_image", "detail": "auto", "image_url": url}
    (message,) = result.openai_chat_images()
    assert message == {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    assert tool_answer(b'{"result": {"content": []}}').openai_chat_images() == []


def test_the_daemons_tools_in_a_scope(side: Any, daemon: str) -> None:
    client = side.client()
    scope = f"agent:python-{side.client.__name__}"
    kind = ScopeTools if side.client.__name__ == "SandboxClient" else SyncScopeTools
    tools = kind(client, scope)
    names = [tool["name"] for tool in side.call(tools.anthropic)]
    assert "sandbox_open" in names
    assert names == [tool["function"]["name"] for tool in side.call(tools.openai_chat)]
    responses = side.call(tools.openai)
    assert names == [tool["name"] for tool in responses]
    assert {tool["type"] for tool in responses} == {"function"}
    opened = json.loads(call(side, tools, "sandbox_open"))
    where = {"sandbox_id": opened["sandbox_id"]}
    call(side, tools, "sandbox_fs_write", **where, path="a.txt", contents="zwölf\n")
    assert json.loads(call(side, tools, "sandbox_exec", **where, cmd=["cat", "a.txt"]))["stdout"] == "zwölf\n"
    again = json.loads(call(side, kind(client, scope), "sandbox_open"))
    assert again["sandbox_id"] == opened["sandbox_id"] and not again["created"]
    wrong = side.call(tools.call, "sandbox_exec", {**where, "cmd": "ls"})
    assert wrong.is_error and "array" in wrong.text
    other = side.call(kind(client, "agent:other").call, "sandbox_fs_read", {**where, "path": "a.txt"})
    assert other.is_error
    side.call(tools.complete)
    assert side.call(client.complete_scope, scope).sessions == 0
    side.call(getattr(client, "aclose", None) or client.close)
