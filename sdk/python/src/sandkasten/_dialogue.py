"""A shell on a terminal of its own, for programs that ask and expect answers."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Sequence

from ._async.processes import Process
from ._async.session import Session
from ._bytes import exact

# How long one look for output waits for it.
LOOK_MS = 2000
# Control sequences of terminals: colours, moves of the cursor, titles.
_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])|[\x07\x08]")


class Dialogue:
    """What is typed into a shell on a terminal, and what comes back until a text that is expected."""

    def __init__(self, process: Process, prompt: str) -> None:
        self._process = process
        self._prompt = prompt
        self._seen = ""
        self._seq = 0

    @classmethod
    async def begin(cls, session: Session, setup: str, timeout: float | None) -> Dialogue:
        """Starts bash, which reads the file setup first and deletes it."""
        prompt = f"sandkasten-{uuid.uuid4().hex}$ "
        # The prompt is set when all is set up; its text is nowhere in what is typed.
        start = 'exec bash --noprofile --noediting --rcfile "$1" -i'
        process = await session.processes.start(
            ["sh", "-c", start, "sh", setup], tty=True, rows=50, cols=500, env={"SANDKASTEN_PROMPT": prompt}
        )
        dialogue = cls(process, prompt)
        await dialogue.say(None, (), timeout)
        return dialogue

    @property
    def prompt(self) -> str:
        """What the shell says when nothing runs in it."""
        return self._prompt

    async def say(self, line: str | None, expect: Sequence[str], timeout: float | None) -> tuple[str, str]:
        """Types a line, and returns what comes before a text that is expected, and that text.

        The texts are regular expressions. The shell's prompt always counts as one of them.
        A TimeoutError leaves what runs as it is.
        """
        if line is not None:
            await self._process.write_stdin(line)
        patterns = [re.compile(text, re.DOTALL) for text in expect] + [re.compile(re.escape(self._prompt))]
        names = [*expect, self._prompt]
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = [(m.start(), i, m.end()) for i, p in enumerate(patterns) if (m := p.search(self._seen))]
            if found:
                start, index, end = min(found)
                before, self._seen = self._seen[:start], self._seen[end:]
                return before, names[index]
            await self._look(deadline)

    async def _look(self, deadline: float | None) -> None:
        wait_ms = LOOK_MS
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            wait_ms = min(wait_ms, max(int(left * 1000), 1))
        page = await self._process.output(since_seq=self._seq, wait_ms=wait_ms)
        self._seq = page.next_seq
        for chunk in page.chunks:
            text = exact(chunk.text, chunk.base64).decode(errors="backslashreplace")
            self._seen += _CONTROL.sub("", text).replace("\r", "")
        if page.done and not page.chunks:
            self._seen += self._prompt  # the shell itself has ended
        elif not page.chunks:
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Ends the shell with all that runs in it."""
        await self._process.kill()
