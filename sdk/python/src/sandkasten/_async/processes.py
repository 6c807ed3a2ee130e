"""Programs that run beside the shells."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from .. import _core
from .._collect import Collected
from .._core import STREAM_SILENCE, Request
from .._decode import decode, decode_list
from .._models import ExecDetail, ExecRecord, OutputPage, ProcessResult
from .._types import ProcessOptions
from .cancel import Running
from .streams import ExecStream, attach_request
from .transport import Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack

# What one request of wait asks for, less than the API's limit of 10 minutes.
WAIT_MS = 5 * 60 * 1000

Records = list[ExecRecord]

# Gets a piece of output; what it returns is waited for if that can be.
OnOutput = Callable[[str], object]


class Process:
    """A process while it runs, and for some minutes after its end.

    A command of a shell can be reached by its exec_id in the same way.
    """

    def __init__(self, transport: Transport, session_path: str, exec_id: str, pid: int | None = None) -> None:
        self._transport = transport
        self._session_path = session_path
        self._path = f"{session_path}/execs/{_core.segment(exec_id)}"
        self.id = exec_id
        """Its exec_id."""
        self.pid = pid
        """Inside the sandbox, if this is what started it."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    async def get(self, *, wait_ms: int | None = None, raw_output: bool | None = None) -> ExecDetail:
        """What is known of it, with its output until now; with wait_ms, at its end or after that time."""
        query = {"wait_ms": wait_ms, "raw_output": raw_output}
        return decode(ExecDetail, await self._get("", query))

    async def wait(self) -> ExecDetail:
        """Waits for its end, however long that takes."""
        while True:
            detail = await self.get(wait_ms=WAIT_MS)
            if detail.state == "ended":
                return detail

    def stream(self, *, raw_output: bool | None = None) -> ExecStream:
        """Its output from the start, as it is written, to its end."""
        first = attach_request(self._session_path, self.id, raw_output=raw_output)
        return ExecStream(self._transport, self._session_path, first, self.id)

    async def output(
        self, *, since_seq: int | None = None, max_chunks: int | None = None, wait_ms: int | None = None
    ) -> OutputPage:
        """Its output piece by piece: pass next_seq of one page as since_seq of the next.

        wait_ms waits for the first byte or the end.
        """
        query = {"since_seq": since_seq, "max_chunks": max_chunks, "wait_ms": wait_ms}
        return decode(OutputPage, await self._get("/output", query))

    async def write_stdin(self, data: str | bytes | Iterable[bytes]) -> None:
        """Writes to its standard input, and returns when the process has taken all of it.

        Input of any length may come in pieces, as a file that is open in binary mode gives it.
        """
        for piece in _core.stdin_pieces(data):
            rest = piece
            while rest:
                body = {"data_base64": base64.b64encode(rest).decode()}
                rest = rest[(await self._post("/stdin", body))["accepted_bytes"] :]

    async def close_stdin(self) -> None:
        """Ends its standard input."""
        await self._post("/stdin", {"close": True})

    async def signal(self, signal: str | int) -> None:
        """Sends a signal, by name or number."""
        await self._post("/signal", {"signal": signal})

    async def resize(self, *, rows: int, cols: int) -> None:
        """Changes the size of its terminal."""
        await self._post("/resize", {"rows": rows, "cols": cols}, safe=True)

    async def kill(self) -> None:
        """Ends it with all its processes: TERM, and soon KILL. Again, or after its end, is no error."""
        await self._post("/cancel", safe=True)

    async def _get(self, path: str, query: dict[str, int | bool | None]) -> object:
        request = Request(method="GET", path=self._path + path, query=query, safe=True, wait=True)
        return await self._transport.json(request)

    async def _post(
        self, path: str, body: Mapping[str, object] | None = None, *, safe: bool = False
    ) -> dict[str, int]:
        request = Request(method="POST", path=self._path + path, json=body, safe=safe, wait=True)
        return _core.as_object(await self._transport.json(request))


class Processes:
    """The processes of a session: programs run without a shell, stdout and stderr apart."""

    def __init__(self, transport: Transport, session_path: str) -> None:
        self._transport = transport
        self._session_path = session_path

    async def run(
        self,
        cmd: str | Sequence[str],
        *,
        on_stdout: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        **options: Unpack[ProcessOptions],
    ) -> ProcessResult:
        """Runs a program and returns at its end. See ProcessOptions for the options.

        A text is shell code, which a new shell runs. on_stdout and on_stderr get the pieces
        of the output as they come, on_stdout also those of a terminal and of merged outputs;
        of long output the result then has the head and the tail. When this call is cancelled
        or interrupted, so is the program.
        """
        if on_stdout or on_stderr:
            return await self._follow(self.run_stream(cmd, **options), on_stdout, on_stderr)
        body = _core.process_body(cmd, options)
        async with Running(self._transport, self._session_path, body["exec_id"]):
            return await self._start(body, wait=True)

    async def _follow(
        self, stream: ExecStream, on_stdout: OnOutput | None, on_stderr: OnOutput | None
    ) -> ProcessResult:
        collected = Collected()
        async with stream:
            async for chunk in stream:
                collected.add(chunk)
                if tell := on_stderr if chunk.stream == "stderr" else on_stdout:
                    await _core.settled(tell(chunk.text))
        return collected.result(stream.result)

    async def start(self, cmd: str | Sequence[str], **options: Unpack[ProcessOptions]) -> Process:
        """Starts a program in the background."""
        result = await self._start({**_core.process_body(cmd, options), "background": True})
        return Process(self._transport, self._session_path, result.exec_id, result.pid)

    def run_stream(self, cmd: str | Sequence[str], **options: Unpack[ProcessOptions]) -> ExecStream:
        """Runs a program, or shell code, with its output as it is written; each chunk says its stream."""
        path = f"{self._session_path}/processes/stream"
        body = _core.process_body(cmd, options)
        first = Request(method="POST", path=path, json=body, silence=STREAM_SILENCE)
        return ExecStream(self._transport, self._session_path, first)

    async def list(self) -> Records:
        """The processes that the session still knows, oldest first."""
        path = f"{self._session_path}/processes"
        return decode_list(
            ExecRecord, await self._transport.json(Request(method="GET", path=path, safe=True))
        )

    def get(self, exec_id: str) -> Process:
        """A process by its exec_id. Whether it is there shows with the first call."""
        return Process(self._transport, self._session_path, exec_id)

    async def _start(self, body: dict[str, object], *, wait: bool = False) -> ProcessResult:
        request = Request(method="POST", path=f"{self._session_path}/processes", json=body, wait=wait)
        return decode(ProcessResult, await self._transport.json(request))
