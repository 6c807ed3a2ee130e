"""The tools that agents are offered: names, descriptions and parameters, without any I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ._errors import ProtocolError
from ._version import __version__


@dataclass(frozen=True, slots=True)
class Tool:
    """What a model is told of a tool."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of its arguments."""


@dataclass(frozen=True, slots=True)
class ToolImage:
    """A picture that a tool made."""

    media_type: str
    """image/png or image/jpeg."""

    base64: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool says to the model."""

    text: str
    is_error: bool = False
    """The tool could not do it; the text says what to do instead."""

    images: tuple[ToolImage, ...] = ()
    """Pictures, as those of sandbox_run_code, for models that see."""

    def anthropic(self) -> list[Any]:
        """The content of a tool_result for Anthropic's Messages API."""
        blocks: list[Any] = [{"type": "text", "text": self.text}] if self.text else []
        for image in self.images:
            source = {"type": "base64", "media_type": image.media_type, "data": image.base64}
            blocks.append({"type": "image", "source": source})
        return blocks

    def openai(self) -> list[Any]:
        """The output of a function_call_output for OpenAI's Responses API."""
        parts: list[Any] = [{"type": "input_text", "text": self.text}]
        for image in self.images:
            url = f"data:{image.media_type};base64,{image.base64}"
            parts.append({"type": "input_image", "detail": "auto", "image_url": url})
        return parts

    def openai_chat_images(self) -> list[Any]:
        """The pictures as messages of a user for OpenAI's Chat Completions API.

        That takes text of tools only: send these behind the answers to all calls of a turn.
        """
        parts = [
            {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.base64}"}}
            for image in self.images
        ]
        return [{"role": "user", "content": parts}] if parts else []


def _object(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _integer(description: str, minimum: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": minimum, "description": description}


_PATH = "Absolute, or relative to /workspace. For files that are not below /workspace use exec."

TOOLS = (
    Tool(
        "exec",
        "Run a shell command in a Linux sandbox and return its output (standard output and error together), "
        "exit code and working directory. The shell is persistent: cd, variables, functions and background "
        "jobs are still there in the next call. Nothing can be typed into the command; pass what it reads as "
        "stdin. A command that is out of time is killed with all its processes, and the output so far is "
        "returned; the shell survives. Long output is cut in the middle, and the full text is then in a file "
        "that the result names. Start servers in the background: `cmd >server.log 2>&1 &`.",
        _object(
            ["command"],
            command=_string("Shell code, of one or many lines."),
            timeout_seconds=_integer("When to kill the command. Without it, the sandbox's default.", 1),
            stdin=_string("What the command reads from standard input. Without it, nothing."),
        ),
    ),
    Tool(
        "read",
        "Read a text file in the sandbox. Returns its lines, each with its number and a tab in front, which "
        "are not part of the file. Of a long file read a part by offset and limit; the result says how to "
        "go on.",
        _object(
            ["path"],
            path=_string(_PATH),
            offset=_integer("The first line to return, counted from 1.", 1),
            limit=_integer("How many lines to return, 1000 if not given.", 1),
        ),
    ),
    Tool(
        "write",
        "Write a whole text file in the sandbox. It replaces a file that is there, and makes directories "
        "that are missing. To change a part of a file use edit.",
        _object(["path", "content"], path=_string(_PATH), content=_string("The whole file.")),
    ),
    Tool(
        "edit",
        "Replace an exact text in a file in the sandbox, and return the change as a diff. The old text has "
        "to be there exactly once, whitespace included, unless replace_all is true: include lines around it "
        "until it is unique. Do not include the line numbers that read shows.",
        _object(
            ["path", "old", "new"],
            path=_string(_PATH),
            old=_string("The text as it is in the file."),
            new=_string("What takes its place."),
            replace_all={"type": "boolean", "description": "Replace the text wherever it is, not once."},
        ),
    ),
    Tool(
        "list",
        "List a directory in the sandbox: one entry a line, with its size in bytes, directories with a slash "
        "at the end. Directories below are listed down to depth.",
        _object(
            [],
            path=_string("Absolute, or relative to /workspace, which is also the default."),
            depth=_integer("How many levels to list, 1 if not given.", 1),
        ),
    ),
)

NO_NETWORK = (
    "The sandbox has no network: nothing can be downloaded or installed from the internet, and "
    "pip, npm, apt-get, git and curl cannot reach other hosts. Use what is installed, or ask for it."
)

_UNREACHABLE = re.compile(
    r"could not resolve|couldn't resolve|temporary failure (in name resolution|resolving)"
    r"|name or service not known|network is unreachable|EAI_AGAIN|getaddrinfo ENOTFOUND|bad address '",
    re.IGNORECASE,
)


def without_network(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """The tools of a session that has no network: exec says so."""
    return tuple(
        replace(tool, description=f"{tool.description} {NO_NETWORK}") if tool.name == "exec" else tool
        for tool in tools
    )


def misses_network(output: str) -> bool:
    """Whether a command has failed for want of a network, as far as its output tells."""
    return _UNREACHABLE.search(output) is not None


_PROTOCOL = "2026-07-28"


def tool_call(name: str, arguments: Mapping[str, Any], scope: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The body and the headers of a call at /mcp, by the Model Context Protocol's streamable HTTP."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": _PROTOCOL,
        "io.modelcontextprotocol/clientInfo": {"name": "sandkasten-python", "version": __version__},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": name, "arguments": dict(arguments), "_meta": meta}
    headers = {
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": _PROTOCOL,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
        "Sandkasten-Scope": scope,
    }
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers


def tool_answer(content: bytes) -> ToolResult:
    """What the answer to such a call says: JSON, or the last event of a stream."""
    try:
        text = content.decode()
        for line in text.split("\n"):  # there may be other ends of lines in the JSON
            if line.startswith("data:"):
                text = line.removeprefix("data:")
        message = json.loads(text)
    except ValueError as err:
        raise ProtocolError(f"the daemon's answer is no JSON: {err}") from err
    if "error" in message:
        return ToolResult(str(message["error"].get("message", "")), True)
    result = message["result"]
    said = "".join(part.get("text", "") for part in result["content"])
    images = tuple(
        ToolImage(str(part["mimeType"]), str(part["data"]))
        for part in result["content"]
        if part.get("type") == "image"
    )
    return ToolResult(said, bool(result.get("isError")), images)
