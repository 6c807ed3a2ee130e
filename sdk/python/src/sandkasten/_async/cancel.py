"""Ends a command whose caller cancels the call."""

from __future__ import annotations

from types import TracebackType

import anyio

from .. import _core
from .._core import END_PAUSES, END_SECONDS, Request
from .._errors import APIError, SandkastenError
from .transport import Transport


class Running:
    """A command while a call runs it: as a context manager it ends the command when the call is cancelled.

    Otherwise the command would keep the session's shell. After a broken connection it
    goes on, and can be attached to. Without an exec_id there is nothing to end.
    """

    def __init__(self, transport: Transport, session_path: str, exec_id: str | None) -> None:
        self._transport = transport
        self._path = f"{session_path}/execs/{_core.segment(exec_id)}/cancel" if exec_id else None

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._path and _core.is_cancel(err):
            path, self._path = self._path, None  # once, also where two blocks are left
            with anyio.move_on_after(END_SECONDS, shield=True):
                await self._end(path)

    async def _end(self, path: str) -> None:
        request = Request(method="POST", path=path, within=END_SECONDS)
        for seconds in END_PAUSES:
            try:
                await self._transport.once(request)
            except APIError as err:
                if err.reason != "no_such_exec":
                    return  # the session has ended
            except SandkastenError:
                return  # the daemon cannot be reached
            else:
                return
            await anyio.sleep(seconds)
