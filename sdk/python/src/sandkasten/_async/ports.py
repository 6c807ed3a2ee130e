"""Servers that run in a session."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from .. import _core
from .._core import Request
from .._decode import decode, decode_list
from .._models import Port, Preview
from .sockets import Tunnel, connect
from .transport import Transport

PortList = list[Port]


class Ports:
    """The ports of a session."""

    def __init__(self, transport: Transport, session_path: str) -> None:
        self._transport = transport
        self._session_path = session_path

    async def list(self) -> PortList:
        """The ports that something in the sandbox listens on, with the URL of each."""
        request = Request(method="GET", path=f"{self._session_path}/ports", safe=True)
        return decode_list(Port, await self._transport.json(request))

    async def connect(self, port: int) -> Tunnel:
        """A TCP connection to a port, for any protocol.

        It needs websockets, the extra `terminal`: `pip install "websockets>=15,<18"`.
        """
        return Tunnel(await connect(self._transport, f"{self._session_path}/tunnel", [("port", port)]))

    async def fetch(
        self,
        port: int,
        path: str = "/",
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> httpx.Response:
        """Sends a request to a port. The answer is that of the server, whatever its status.

        It is the daemon's where that cannot reach the server: 502 if nothing listens there.
        """
        url = f"{self._session_path}/ports/{port}/{path.removeprefix('/')}"
        request = Request(method=method, path=url, headers=headers or {}, body=body, wait=True)
        return await self._transport.response(request)

    async def preview(self, port: int, *, ttl_seconds: int | None = None) -> Preview:
        """A token, and a URL with it for a browser, that opens one port to whoever has it."""
        body = _core.given({"port": port, "ttl_seconds": ttl_seconds})
        request = Request(method="POST", path=f"{self._session_path}/previews", json=body)
        return decode(Preview, await self._transport.json(request))
