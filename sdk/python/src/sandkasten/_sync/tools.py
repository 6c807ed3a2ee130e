# Written by scripts/generate.py from _async/tools.py. Change that instead.
"""The tools of agents, at work in a session."""

from __future__ import annotations

import codecs
import contextlib
import itertools
from collections.abc import Callable, Generator, Mapping
from typing import Any

from .._cut import LIMIT, cut
from .._errors import APIError
from .._tools import NO_NETWORK, TOOLS, Tool, ToolResult, misses_network, without_network
from .session import SyncSession

# Objects that the packages of the model APIs have types of their own for.
Schemas = list[Any]

# SyncFiles that keep the full output of the last commands, one after another, in a
# directory that git does not see.
KEPT = 10
HIDDEN = ".sandkasten"

# How many lines of a file are read at once, if the model does not say.
LINES = 1000


class SyncSandboxTools:
    """Tools for one session: exec, read, write, edit and list.

    Their names, descriptions and parameters are in `tools`, and as the lists that
    model APIs want in `openai`, `openai_chat` and `anthropic`. `call` carries out what the
    model asked for. What goes wrong in the sandbox is a result for the model to read;
    only a daemon that cannot be reached is an exception.

    limit is how many characters a result has at most, but for a few that say what was left out.
    """

    def __init__(self, session: SyncSession, *, limit: int = LIMIT) -> None:
        self._session = session
        self._limit = limit
        self._count = itertools.count()
        self._hinted = session.info.network_mode != "none"
        self._functions: dict[str, Callable[..., str]] = {
            "exec": self.exec,
            "read": self.read,
            "write": self.write,
            "edit": self.edit,
            "list": self.list,
        }

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What a model is told of the tools."""
        return without_network(TOOLS) if self._session.info.network_mode == "none" else TOOLS

    def openai(self) -> Schemas:
        """The tools for OpenAI's Responses API."""
        return [{"type": "function", "strict": False, **function} for function in self._openai()]

    def openai_chat(self) -> Schemas:
        """The tools for OpenAI's Chat Completions API, and those that are made like it."""
        return [{"type": "function", "function": function} for function in self._openai()]

    def anthropic(self) -> Schemas:
        """The tools for Anthropic's Messages API."""
        return [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in self.tools
        ]

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Does what the model asked for. Wrong names and arguments are results, too."""
        function = self._functions.get(name)
        if function is None:
            return ToolResult(f"There is no tool {name!r}. There are: {', '.join(self._functions)}.", True)
        try:
            return ToolResult(function(**arguments))
        except APIError as err:
            return ToolResult(f"{name}: {err.message}", True)
        except (TypeError, ValueError) as err:
            return ToolResult(f"{name}: wrong arguments: {err}", True)

    def exec(self, command: str, timeout_seconds: float | None = None, stdin: str | None = None) -> str:
        """Runs shell code; its output and how it ended, as text for the model."""
        file = f"/workspace/{HIDDEN}/output-{next(self._count) % KEPT}.txt"
        timeout_ms = None if timeout_seconds is None else int(timeout_seconds * 1000)
        result = self._session.exec(command, timeout_ms=timeout_ms, stdin=stdin, output_file=file)
        kept = "the beginning of it" if result.output_file_error else "all of it"
        rest = f"; {kept} is in {file}: see parts of it with sed -n or grep"
        output = cut(result.output, self._limit, rest=rest)
        if len(result.output) <= self._limit:
            self._forget(file)
        if output and not output.endswith("\n"):
            output += "\n"
        notes = [f"exit code {result.exit_code}", f"in {result.cwd}"]
        if result.cause != "exited":
            notes.insert(1, result.cause)
        if result.disk_full:
            notes.append("the disk is full")
        if result.exit_code != 0 and result.network_denied:
            hosts = sorted({denial.name or denial.address or "a host" for denial in result.network_denied})
            entries = sorted({denial.entry for denial in result.network_denied if denial.entry})
            opens = f", which its allow list opens with {' and '.join(entries)}" if entries else ""
            notes.append("the sandbox's network refused " + " and ".join(hosts) + opens)
        if result.shell_restarted:
            notes.append("in a new shell: the one before had ended")
        return f"{output}[{', '.join(notes)}]{self._hint(result.output)}"

    def read(self, path: str, offset: int = 1, limit: int = LINES) -> str:
        """Lines of a file with their numbers, as text for the model."""
        shown: list[str] = []
        size, number, more = 0, 0, False
        for line in self._lines(path):
            number += 1
            if number < offset:
                continue
            text = f"{number}\t{cut(line, self._limit // 2)}"
            if len(shown) == limit or (shown and size + len(text) > self._limit):
                more = True
                break
            shown.append(text)
            size += len(text) + 1
        if more:
            shown.append(f"[... the file goes on: read it with offset {number} ...]")
        if not shown:
            shown.append(f"[the file has {number} lines]" if number else "[the file is empty]")
        return "\n".join(shown)

    def write(self, path: str, content: str) -> str:
        """Writes a file."""
        self._session.write(path, content)
        return f"Wrote {len(content.encode())} bytes to {path}."

    def edit(self, path: str, old: str, new: str, replace_all: bool = False) -> str:
        """Replaces a text in a file; the diff."""
        result = self._session.edit(path, old, new, count=None if replace_all else 1)
        return cut(result.diff, self._limit)

    def list(self, path: str = ".", depth: int = 1) -> str:
        """What is in a directory, as text for the model."""
        entries = self._session.list(path, depth=depth)
        shown = [e for e in entries if e.name.split("/")[0] != HIDDEN]
        lines = [f"{e.name}/" if e.type == "dir" else f"{e.name}\t{e.size}" for e in shown]
        return cut("\n".join(lines), self._limit) or "[the directory is empty]"

    def _hint(self, output: str) -> str:
        """Says once that there is no network, when a command has missed it."""
        if self._hinted or not misses_network(output):
            return ""
        self._hinted = True
        return f"\n[{NO_NETWORK}]"

    def _forget(self, file: str) -> None:
        """Removes what nobody is told of. A sandbox that has ended under its command has no files."""
        with contextlib.suppress(APIError):
            self._session.remove(file)

    def _lines(self, path: str) -> Generator[str, None]:
        """The lines of a file of any size, without their ends."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = ""
        stream = self._session.read_stream(path)
        try:
            for piece in stream:
                *lines, rest = (rest + decoder.decode(piece)).split("\n")
                for line in lines:
                    yield line
        finally:
            stream.close()
        if rest:
            yield rest

    def _openai(self) -> Schemas:
        return [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in self.tools
        ]
