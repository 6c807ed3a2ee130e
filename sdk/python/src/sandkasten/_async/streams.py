"""Streams that are taken up by themselves where a connection broke."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import _core
from .._core import LONGEST_DELAY, STREAM_SILENCE, Patience, Request
from .._decode import decode
from .._errors import APIConnectionError, ProtocolError, error_from_body
from .._models import NetworkEvent, SandboxEvent
from .._sse import Event
from .._types import ExecChunk, ExecEnd, FileChange
from .cancel import Running
from .closing import Closing
from .transport import Transport

if TYPE_CHECKING:
    from typing_extensions import Self


class ExecStream(Closing):
    """The output of a command while it runs.

    Iterate over it for the chunks; behind the last one `result` tells how the command
    ended. When the connection breaks it is taken up behind the last chunk, with nothing
    lost or doubled. To leave it early, use it as a context manager, or close it: the
    command goes on. A cancelled task ends the command that the stream began: while it waits
    for a chunk, and anywhere in the block of the context manager.
    """

    def __init__(
        self, transport: Transport, session_path: str, first: Request, exec_id: str | None = None
    ) -> None:
        self._transport = transport
        self._session_path = session_path
        self._request = first
        self._last_id: str | None = None
        self._chunks = self._follow()
        self.exec_id = exec_id
        """The command's id, from the moment it is known."""
        self._result: ExecEnd | None = None
        own = first.json["exec_id"] if first.json else None  # not of a command that is attached to
        self._running = Running(transport, session_path, own)

    @property
    def result(self) -> ExecEnd:
        """How the command ended; only behind the last chunk."""
        if self._result is None:
            raise RuntimeError("the stream has not been read to its end")
        return self._result

    async def wait(self) -> ExecEnd:
        """Reads to the end, and tells how the command ended."""
        async for _ in self:
            pass
        return self.result

    async def aclose(self) -> None:
        """Ends the reading. The command goes on."""
        await self._chunks.aclose()

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._result is None:
            await self._running.__aexit__(kind, err, trace)
        await super().__aexit__(kind, err, trace)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ExecChunk:
        async with self._running:
            return await self._chunks.__anext__()

    async def _follow(self) -> AsyncGenerator[ExecChunk, None]:
        patience = Patience(self._transport.settings)
        while True:
            broken = APIConnectionError("the stream ended before the command")
            try:
                async for event in self._transport.events(self._request):
                    if event.id:
                        self._last_id = event.id
                        patience.progress()
                    if event.name == "chunk":
                        yield decode(ExecChunk, event.json())
                    elif self._ends(event):
                        return
            except APIConnectionError as err:
                broken = err
            if self.exec_id is None:
                raise broken
            self._request = self._resumption(self.exec_id)
            await self._transport.before_resuming(patience, self._request, broken)

    def _ends(self, event: Event) -> bool:
        if event.name == "start":
            self.exec_id = event.json()["exec_id"]
        elif event.name == "done":
            self._result = decode(ExecEnd, event.json())
        elif event.name == "error":
            raise error_from_body(event.json())
        return event.name == "done"

    def _resumption(self, exec_id: str) -> Request:
        raw = (self._request.json or self._request.query).get("raw_output")
        return attach_request(self._session_path, exec_id, raw_output=raw, last_id=self._last_id)


def attach_request(
    session_path: str, exec_id: str, *, raw_output: bool | None = None, last_id: str | None = None
) -> Request:
    """Follows a command, from its start or behind an event."""
    return Request(
        method="GET",
        path=f"{session_path}/execs/{_core.segment(exec_id)}/stream",
        query={"raw_output": raw_output},
        headers={} if last_id is None else {"Last-Event-ID": last_id},
        safe=True,
        silence=STREAM_SILENCE,
    )


class FileWatch(Closing):
    """What changes in a directory, while it is watched.

    As a context manager it watches from the moment it is entered; without, from the first
    step of the iteration. When the connection breaks it is made anew, and as what happened
    in between is lost, a change of kind `overflow` says so. It ends with an APIError when
    the session does.
    """

    def __init__(self, transport: Transport, path: str, query: dict[str, Any]) -> None:
        self._transport = transport
        self._request = Request(method="GET", path=path, query=query, safe=True, silence=STREAM_SILENCE)
        self._changes = self._follow()
        self._ready = False

    async def aclose(self) -> None:
        """Ends the watching."""
        await self._changes.aclose()

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FileChange:
        await self._start()
        return await self._changes.__anext__()

    async def _start(self) -> None:
        if not self._ready:
            self._ready = True
            await self._changes.__anext__()

    async def _follow(self) -> AsyncGenerator[FileChange, None]:
        """The first that it yields stands for `ready`."""
        patience, kind = Patience(self._transport.settings), "ready"
        while True:
            broken = APIConnectionError("the daemon ended the stream")
            try:
                async for event in self._transport.events(self._request):
                    patience.progress()
                    if event.name == "ready":
                        yield FileChange(kind=kind)
                        kind = "overflow"
                    elif event.name == "error":
                        raise error_from_body(event.json())
                    else:
                        yield _change(event)
            except APIConnectionError as err:
                broken = err
            if kind == "ready":
                raise broken
            await self._transport.before_resuming(patience, self._request, broken)


def _change(event: Event) -> FileChange:
    body = event.json()
    path = body.get("path", "")
    if not isinstance(path, str):
        raise ProtocolError(f"event {event.name} has no path")
    return FileChange(kind=event.name, path=path, type=body.get("type"), origin=body.get("from"))


class NetworkEvents(Closing):
    """What a session's network decides, until the session ends.

    It goes on over a stop and a start. When the connection breaks it is taken up behind
    the last event, with nothing doubled. To leave it early, use it as a context manager,
    or close it.
    """

    def __init__(self, transport: Transport, path: str, since_seq: int | None) -> None:
        self._transport = transport
        self._path = path
        self._last_id = None if since_seq is None else str(since_seq)
        self._opened_at: float | None = None
        self._events = self._follow()

    async def aclose(self) -> None:
        """Ends the reading."""
        await self._events.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> NetworkEvent:
        return await self._events.__anext__()

    async def _follow(self) -> AsyncGenerator[NetworkEvent, None]:
        patience = Patience(self._transport.settings)
        while True:
            request, self._opened_at = self._request(), None
            broken = APIConnectionError("the daemon ended the stream")
            try:
                async for event in self._transport.events(request, self._opened):
                    if event.name == "done":
                        return
                    if event.name == "error":
                        raise error_from_body(event.json())
                    if event.id:
                        self._last_id = event.id
                        patience.progress()
                    if event.name == "network":
                        yield decode(NetworkEvent, event.json())
            except APIConnectionError as err:
                broken = err
            # A quiet connection that stood for long was of use.
            if self._opened_at is not None and monotonic() - self._opened_at > LONGEST_DELAY:
                patience.progress()
            await self._transport.before_resuming(patience, request, broken)

    def _opened(self) -> None:
        self._opened_at = monotonic()

    def _request(self) -> Request:
        headers = {} if self._last_id is None else {"Last-Event-ID": self._last_id}
        return Request(method="GET", path=self._path, headers=headers, safe=True, silence=STREAM_SILENCE)


class Events(Closing):
    """What happens in the daemon, of all that the key may see.

    It begins with an event of type `ready`: what is listed after it is complete. When the
    connection breaks it is taken up behind the last event, and where events are missing
    one of type `gap` says in `reload` what to list again. It goes on for ever; to leave it,
    use it as a context manager, or close it.
    """

    def __init__(self, transport: Transport, query: dict[str, Any], since: str | None) -> None:
        self._transport = transport
        self._query = query
        self._last_id = since
        self._ready = False
        self._events = self._follow()

    async def aclose(self) -> None:
        """Ends the reading."""
        await self._events.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SandboxEvent:
        return await self._events.__anext__()

    async def _follow(self) -> AsyncGenerator[SandboxEvent, None]:
        patience = Patience(self._transport.settings)
        while True:
            request = self._request()
            broken = APIConnectionError("the daemon ended the stream")
            try:
                async for event in self._transport.events(request):
                    self._last_id = event.id or self._last_id
                    patience.progress()
                    # A stream that goes on begins with ready again.
                    if event.name and not (event.name == "ready" and self._ready):
                        self._ready = True
                        yield decode(SandboxEvent, event.json())
            except APIConnectionError as err:
                broken = err
            await self._transport.before_resuming(patience, request, broken)

    def _request(self) -> Request:
        headers = {} if self._last_id is None else {"Last-Event-ID": self._last_id}
        return Request(
            method="GET",
            path=_core.url_path("events"),
            query=self._query,
            headers=headers,
            safe=True,
            silence=STREAM_SILENCE,
        )
