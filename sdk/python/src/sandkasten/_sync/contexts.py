# Written by scripts/generate.py from _async/contexts.py. Change that instead.
"""Kernels that remember what ran in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import _core
from .._core import STREAM_SILENCE, Patience, Request
from .._decode import decode
from .._errors import APIConnectionError, error_from_body
from .._models import CodeError, CodeResult, CodeRun, ContextInfo
from .._sse import Event
from .transport import SyncTransport

if TYPE_CHECKING:
    from typing_extensions import Self

# Callbacks of a run. OnStart gets the ids of the context and of the run.
OnStart = Callable[[str, str], object]
OnClear = Callable[[], object]
OnText = Callable[[str], object]
OnResult = Callable[[CodeResult], object]
OnError = Callable[[CodeError], object]


class SyncCodeContext:
    """A kernel of a session: variables, imports and functions stay from one run to the next.

    As a context manager it is deleted at the end.
    """

    def __init__(
        self, transport: SyncTransport, session_path: str, context_id: str, info: ContextInfo | None = None
    ) -> None:
        self._transport = transport
        self._path = f"{session_path}/contexts/{_core.segment(context_id)}"
        self.id = context_id
        """Its context_id, or the name by which it was asked for."""
        self.info = info
        """The context as it was when a call last told."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.delete()

    def refresh(self) -> ContextInfo:
        """Asks for the context as it is now, and keeps it in info."""
        request = Request(method="GET", path=self._path, safe=True)
        self.info = decode(ContextInfo, self._transport.json(request))
        return self.info

    def run(
        self,
        code: str,
        *,
        timeout_ms: int | None = None,
        on_start: OnStart | None = None,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
        on_result: OnResult | None = None,
        on_update: OnResult | None = None,
        on_clear: OnClear | None = None,
        on_error: OnError | None = None,
    ) -> CodeRun:
        """Runs code after what was sent before it, and returns when it has ended.

        That code fails is no exception: see cause and error. The callbacks are told what it
        shows while it runs; the answer has all of it in any case. on_update gets a result
        that takes the place of the one with its display_id; after on_clear, what came before
        is not shown any more.
        """
        body = {"code": code, "timeout_ms": timeout_ms}
        told = Callbacks(on_start, on_stdout, on_stderr, on_result, on_update, on_clear, on_error)
        return run_code(self._transport, self._path + "/run", self._path, body, told)

    def get_run(self, run_id: str, *, wait_ms: int | None = None) -> CodeRun:
        """A run that was begun before: its end, if it comes within wait_ms, or what there is until then."""
        path = f"{self._path}/runs/{_core.segment(run_id)}"
        request = Request(method="GET", path=path, query={"wait_ms": wait_ms}, safe=True, wait=True)
        return decode(CodeRun, self._transport.json(request))

    def follow_run(
        self,
        run_id: str,
        *,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
        on_result: OnResult | None = None,
        on_update: OnResult | None = None,
        on_clear: OnClear | None = None,
        on_error: OnError | None = None,
    ) -> CodeRun:
        """Follows a run that was begun before, from its start, and returns at its end."""
        told = Callbacks(None, on_stdout, on_stderr, on_result, on_update, on_clear, on_error)
        follower = Follower(self._transport, follow_request(self._path, run_id), told)
        follower.run_path = f"{self._path}/runs/{_core.segment(run_id)}"
        return follower.follow()

    def interrupt(self) -> None:
        """Interrupts the run that it is at, and keeps the variables."""
        self._post("/interrupt", safe=True)

    def restart(self) -> ContextInfo:
        """Gives it a new kernel, without variables."""
        self.info = decode(ContextInfo, self._post("/restart"))
        return self.info

    def delete(self) -> None:
        """Ends it with all that its kernel started."""
        self._transport.json(Request(method="DELETE", path=self._path, safe=True, wait=True))

    def _post(self, path: str, *, safe: bool = False) -> object:
        return self._transport.json(Request(method="POST", path=self._path + path, safe=safe, wait=True))


class Callbacks:
    """Who is told what code shows while it runs."""

    def __init__(
        self,
        on_start: OnStart | None = None,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
        on_result: OnResult | None = None,
        on_update: OnResult | None = None,
        on_clear: OnClear | None = None,
        on_error: OnError | None = None,
    ) -> None:
        self._on_start = on_start
        self._texts = {"stdout": on_stdout, "stderr": on_stderr}
        self._on_result = on_result
        self._on_update = on_update
        self._on_clear = on_clear
        self._on_error = on_error

    def __bool__(self) -> bool:
        return any(callback is not None for callback in (*self._texts.values(), *self._others()))

    def _others(self) -> tuple[object, ...]:
        return self._on_start, self._on_result, self._on_update, self._on_clear, self._on_error

    def start(self, context_id: str, run_id: str) -> None:
        """Calls back for the start of the run."""
        if self._on_start is not None:
            self._on_start(context_id, run_id)

    def tell(self, event: Event) -> None:
        """Calls back for one event."""
        on_text = self._texts.get(event.name)
        if on_text is not None:
            on_text(event.json()["text"])
        elif event.name == "result":
            on_result = self._on_update if event.json().get("updates") else self._on_result
            if on_result is not None:
                on_result(decode(CodeResult, event.json()))
        elif event.name == "clear" and self._on_clear is not None:
            self._on_clear()
        elif event.name == "exception" and self._on_error is not None:
            self._on_error(decode(CodeError, event.json()))


def follow_request(context_path: str, run_id: str, last_id: str | None = None) -> Request:
    """Follows a run, from its start or behind an event."""
    return Request(
        method="GET",
        path=f"{context_path}/runs/{_core.segment(run_id)}/stream",
        headers={} if last_id is None else {"Last-Event-ID": last_id},
        safe=True,
        silence=STREAM_SILENCE,
    )


class Follower:
    """Reads the events of a run, and takes them up where a connection broke."""

    def __init__(self, transport: SyncTransport, first: Request, told: Callbacks) -> None:
        self._transport = transport
        self._request = first
        self._told = told
        self._last_id: str | None = None
        self.session_path = ""
        self.run_path = ""

    def follow(self) -> CodeRun:
        """Returns at the run's end."""
        patience = Patience(self._transport.settings)
        while True:
            broken = APIConnectionError("the stream ended before the run")
            try:
                for event in self._transport.events(self._request):
                    if event.name == "done":
                        return decode(CodeRun, event.json())
                    if event.name == "error":
                        raise error_from_body(event.json())
                    self._take(event, patience)
            except APIConnectionError as err:
                broken = err
            if not self.run_path:
                raise broken
            context_path, _, run_id = self.run_path.rpartition("/runs/")
            self._request = follow_request(context_path, run_id, self._last_id)
            self._transport.before_resuming(patience, self._request, broken)

    def _take(self, event: Event, patience: Patience) -> None:
        if event.name == "start":
            if not self.run_path:
                ids = event.json()
                self._told.start(ids["context_id"], ids["run_id"])
                self.run_path = f"{self.session_path}/contexts/{ids['context_id']}/runs/{ids['run_id']}"
            return
        if event.id:
            self._last_id = event.id
            patience.progress()
        self._told.tell(event)


def run_code(
    transport: SyncTransport, path: str, context_path: str, body: Mapping[str, Any], told: Callbacks
) -> CodeRun:
    """Runs code; with somebody to tell, as a stream."""
    json = {name: value for name, value in body.items() if value is not None}
    if not told:
        request = Request(method="POST", path=path, json=json, wait=True)
        return decode(CodeRun, transport.json(request))
    request = Request(method="POST", path=path + "/stream", json=json, silence=STREAM_SILENCE)
    follower = Follower(transport, request, told)
    follower.session_path = context_path.partition("/contexts/")[0]
    return follower.follow()
