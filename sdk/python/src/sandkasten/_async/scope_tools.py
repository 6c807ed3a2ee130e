"""The tools of agents that belong to a scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _core
from .._core import Request
from .._tools import ToolResult, tool_answer, tool_call
from .client import SandboxClient


class ScopeTools:
    """All tools that the daemon has for agents, in one scope.

    A scope says whose sandboxes are meant: workflow:ID, agent:ID or user:ID. The model
    opens them itself, and every agent of the scope finds the same files. The daemon
    defines the tools and carries them out; see docs/agents.md. `complete` ends what they
    have opened.
    """

    def __init__(self, client: SandboxClient, scope: str) -> None:
        self._client = client
        self._transport = client._transport
        self._scope = scope

    async def openai(self) -> list[Any]:
        """The tools for OpenAI's Responses API."""
        chat = await self._definitions("openai")
        return [{"type": "function", "strict": False, **tool["function"]} for tool in chat]

    async def openai_chat(self) -> list[Any]:
        """The tools for OpenAI's Chat Completions API, and those that are made like it."""
        return await self._definitions("openai")

    async def anthropic(self) -> list[Any]:
        """The tools for Anthropic's Messages API."""
        return await self._definitions("anthropic")

    async def complete(self, *, retention: float | None = None) -> None:
        """Ends what the scope has, now or after so many seconds. Again is no error."""
        await self._client.complete_scope(self._scope, retention=retention)

    async def _definitions(self, form: str) -> list[Any]:
        path = _core.url_path("agent-tools")
        answer = await self._transport.json(
            Request(method="GET", path=path, query={"format": form}, safe=True)
        )
        return list(answer)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Does what the model asked for. What goes wrong is a result for the model, too."""
        body, headers = tool_call(name, arguments, self._scope)
        request = Request(method="POST", path="/mcp", json=body, headers=headers, wait=True)
        return tool_answer(await self._transport.content(request))
