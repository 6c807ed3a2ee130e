"""Makes one result of the output of a process that is followed."""

from __future__ import annotations

import base64

from ._models import ProcessResult
from ._types import ExecChunk, ExecEnd

# What is kept of one stream at its beginning, and as much at its end, as the daemon does.
HALF = 512 * 1024


class Kept:
    """What one stream wrote, without its middle where that is too long."""

    def __init__(self) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self.dropped = 0

    def add(self, data: bytes) -> None:
        """Takes the next piece."""
        room = HALF - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if (over := len(self._tail) - HALF) > 0:
            del self._tail[:over]
            self.dropped += over

    def text(self) -> tuple[str, str | None]:
        """The output as text, and in base64 where it is none."""
        gap = f"\n[... {self.dropped} bytes of output are left out here ...]\n" if self.dropped else ""
        data = bytes(self._head + gap.encode() + self._tail)
        try:
            return data.decode(), None
        except UnicodeDecodeError:
            return data.decode(errors="replace"), base64.b64encode(data).decode()


class Collected:
    """The output of a process, stream by stream."""

    def __init__(self) -> None:
        self._streams = {"stdout": Kept(), "stderr": Kept(), "output": Kept()}

    def add(self, chunk: ExecChunk) -> None:
        """Takes the next piece."""
        self._streams[chunk.stream].add(chunk.data)

    def result(self, end: ExecEnd) -> ProcessResult:
        """The result as the daemon would have given it at the end."""
        (stdout, stdout_base64), (stderr, stderr_base64), (output, output_base64) = (
            self._streams[name].text() for name in ("stdout", "stderr", "output")
        )
        dropped = end.dropped_bytes + sum(kept.dropped for kept in self._streams.values())
        return ProcessResult(
            exec_id=end.exec_id,
            status="completed",
            exit_code=end.exit_code,
            cause=None if end.cause == "shell_exited" else end.cause,
            signal=end.signal,
            timed_out=end.timed_out,
            disk_full=end.disk_full,
            duration_ms=end.duration_ms,
            stdout=stdout,
            stdout_base64=stdout_base64,
            stdout_encoding="base64" if stdout_base64 else None,
            stderr=stderr,
            stderr_base64=stderr_base64,
            stderr_encoding="base64" if stderr_base64 else None,
            output=output or None,
            output_base64=output_base64,
            output_encoding="base64" if output_base64 else None,
            truncated=dropped > 0,
            dropped_bytes=dropped,
            output_bytes=end.output_bytes,
            output_file=end.output_file,
            output_file_error=end.output_file_error,
            network_denied=end.network_denied,
        )
