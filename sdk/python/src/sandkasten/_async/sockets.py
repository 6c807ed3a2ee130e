"""Terminals and connections to ports: what goes over a WebSocket."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from .. import _core
from .._errors import (
    APIConnectionError,
    ConfigurationError,
    ProtocolError,
    error_from_body,
    error_from_response,
)
from .closing import Closing
from .transport import Transport

if TYPE_CHECKING:
    from typing_extensions import Self
    from websockets.asyncio.client import ClientConnection

# The daemon takes messages of 1 MiB, and sends none that is larger.
PIECE = 512 * 1024


async def connect(transport: Transport, path: str, query: _core.Pairs) -> ClientConnection:
    """A WebSocket to a path of the API. The caller closes it."""
    try:
        from websockets import exceptions
        from websockets.asyncio import client
    except ImportError as err:
        raise ConfigurationError('this needs websockets: pip install "websockets>=15,<18"') from err
    settings = transport.settings
    try:
        return await client.connect(
            _core.socket_url(settings, path, query),
            additional_headers=settings.headers,
            user_agent_header=None,
            compression=None,
            open_timeout=settings.timeout,
            proxy=None,
        )
    except exceptions.InvalidStatus as err:
        response = err.response
        raise error_from_response(
            response.status_code, response.headers, bytes(response.body or b"")
        ) from err
    except (exceptions.WebSocketException, OSError) as err:
        raise APIConnectionError(f"GET {path}: {err or type(err).__name__}") from err


class Socket(Closing):
    """What a terminal and a tunnel have in common."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._socket.close()

    async def _send(self, message: str | bytes) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            await self._socket.send(message)
        except (ConnectionClosed, OSError) as err:
            raise APIConnectionError(f"the WebSocket broke: {err}") from err

    async def _next(self) -> str | bytes | None:
        """The next message; None when the daemon has closed as it should."""
        from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

        try:
            return await self._socket.recv()
        except ConnectionClosedOK:
            return None
        except (ConnectionClosed, OSError) as err:
            raise APIConnectionError(f"the WebSocket broke: {err}") from err


class Terminal(Socket):
    """A terminal to which we are attached.

    Iterate over it for the bytes that it shows; the iteration ends with its program. When
    the connection breaks or is closed the program goes on for some time, and
    `Session.attach_terminal` comes back to it.
    """

    def __init__(self, socket: ClientConnection, terminal_id: str, seq: int) -> None:
        super().__init__(socket)
        self.id = terminal_id
        """What to attach to it with. It is a process's, too."""
        self.seq = seq
        """Where to go on when the connection has broken: the number of bytes shown before."""
        self.exit_code: int | None = None
        """The program's, when it has ended."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    @classmethod
    async def _open(cls, transport: Transport, session_path: str, query: _core.Pairs) -> Self:
        terminal = cls(await connect(transport, f"{session_path}/terminal", query), "", 0)
        first = await terminal._next()
        started = json.loads(first).get("started") if isinstance(first, str) else None
        if started is None:
            await terminal.aclose()
            raise ProtocolError("the daemon does not say which terminal this is")
        terminal.id, terminal.seq = started["terminal_id"], started["seq"]
        return terminal

    async def write(self, data: str | bytes) -> None:
        """Types."""
        await self._send(data.encode() if isinstance(data, str) else data)

    async def resize(self, *, rows: int, cols: int) -> None:
        """Changes its size."""
        await self._send(json.dumps({"resize": {"rows": rows, "cols": cols}}))

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        while (message := await self._next()) is not None:
            if isinstance(message, str):
                self._told(json.loads(message))
                continue
            self.seq += len(message)
            yield message

    def _told(self, told: dict[str, dict[str, int]]) -> None:
        """What the daemon says beside the output."""
        if dropped := told.get("dropped"):
            self.seq += dropped["bytes"]
        if ended := told.get("exit"):
            self.exit_code = ended["exit_code"]
        if "code" in told:
            raise error_from_body(told)


class Tunnel(Socket):
    """A TCP connection to a port of a session."""

    async def send(self, data: bytes) -> None:
        """Sends all of data."""
        for at in range(0, len(data), PIECE):
            await self._send(data[at : at + PIECE])

    async def end(self) -> None:
        """Tells the other side that no more comes."""
        await self._send(b"")

    async def receive(self) -> bytes:
        """Some bytes, as they come; b"" when no more do."""
        message = await self._next()
        return message if isinstance(message, bytes) else b""
