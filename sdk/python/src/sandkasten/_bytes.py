"""The bytes behind texts that may not be UTF-8, for the models that have such."""

from __future__ import annotations

import base64
from typing import Any


def exact(text: str | None, encoded: str | None) -> bytes:
    """What encoded, or else text, stands for."""
    if encoded is not None:
        return base64.b64decode(encoded)
    return (text or "").encode()


class OutputBytes:
    """The output of a command as bytes."""

    __slots__ = ()

    output: str
    output_base64: str | None

    @property
    def output_data(self) -> bytes:
        """The output exactly as the daemon has it, also where it is not text."""
        return exact(self.output, self.output_base64)


class ProcessBytes:
    """The output of a process as bytes."""

    __slots__ = ()

    stdout: str | None
    stdout_base64: str | None
    stderr: str | None
    stderr_base64: str | None

    @property
    def stdout_data(self) -> bytes:
        """Standard output exactly as the daemon has it, also where it is not text."""
        return exact(self.stdout, self.stdout_base64)

    @property
    def stderr_data(self) -> bytes:
        """Standard error exactly as the daemon has it, also where it is not text."""
        return exact(self.stderr, self.stderr_base64)


class ChunkBytes:
    """A piece of output as bytes."""

    __slots__ = ()

    text: str | None
    base64: str | None

    @property
    def data(self) -> bytes:
        """The piece exactly as it was written."""
        return exact(self.text, self.base64)


class ResultForms:
    """The forms of a result that are asked for most."""

    __slots__ = ()

    data: dict[str, Any]

    @property
    def text(self) -> str | None:
        """Its form for people."""
        return self.data.get("text/plain")

    @property
    def html(self) -> str | None:
        """Its form for browsers. It comes out of a sandbox: show it in a frame that can do nothing."""
        return self.data.get("text/html")

    @property
    def png(self) -> bytes | None:
        """Its picture."""
        picture = self.data.get("image/png")
        return None if picture is None else base64.b64decode(picture)


class RunForms:
    """What of a run is asked for most."""

    __slots__ = ()

    results: list[Any]

    @property
    def text(self) -> str | None:
        """The value of the last expression, as text."""
        return next((result.text for result in self.results if result.is_main_result), None)

    @property
    def png(self) -> bytes | None:
        """The last picture that the code showed."""
        pictures = [result.png for result in self.results if result.png is not None]
        return pictures[-1] if pictures else None
