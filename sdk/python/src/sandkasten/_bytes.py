"""The bytes behind texts that may not be UTF-8, for the models that have such."""

from __future__ import annotations

import base64


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
