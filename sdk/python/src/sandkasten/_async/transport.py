"""Sends requests, again where that is safe, and makes errors of refusals."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import httpx

from .. import _core
from .._core import Request, Settings
from .._errors import APIConnectionError, ProtocolError, SandkastenError, error_from_response
from .._sse import Decoder, Event

T = TypeVar("T")


class Transport:
    """One connection pool to one daemon."""

    def __init__(self, settings: Settings, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.settings = settings
        self._met = False  # something has answered at the address
        self._transport = transport
        self._clients: dict[object, httpx.AsyncClient] = {}  # by the event loop that has their connections

    @property
    def _client(self) -> httpx.AsyncClient:
        """That of the running event loop: connections of another one cannot be used in it."""
        loop = _core.event_loop()
        client = self._clients.get(loop)
        if client is None:
            # With an event loop its connections have ended.
            self._clients = {old: c for old, c in self._clients.items() if not _core.has_ended(old)}
            client = self._clients[loop] = self._connect()
        return client

    def _connect(self) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        return httpx.AsyncClient(
            base_url=self.settings.base_url,
            headers=self.settings.headers,
            transport=self._transport
            or httpx.AsyncHTTPTransport(limits=limits, socket_options=_core.socket_options()),
        )

    async def aclose(self) -> None:
        """Closes the connections of the running event loop."""
        if client := self._clients.pop(_core.event_loop(), None):
            await client.aclose()

    async def once(self, request: Request) -> Any:
        """The JSON of the answer to a request that is sent once."""
        return await self._json(request)

    async def json(self, request: Request) -> Any:
        """The JSON of the answer."""
        return await self._retry(request, self._json, gone={"ok": True})

    async def content(self, request: Request) -> bytes:
        """The bytes of the answer."""
        return await self._retry(request, self._content)

    async def response(self, request: Request) -> httpx.Response:
        """The answer with its content, whatever its status. It is asked for once."""
        try:
            return await self._client.send(request.build(self._client, self.settings.timeout))
        except httpx.TransportError as err:
            raise _core.from_httpx(err, request, self.settings) from err

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[httpx.Response]:
        """The answer, of which only the header is read; its status is no error."""
        response = await self._retry(request, self._send)
        try:
            yield response
        except httpx.TransportError as err:
            raise _core.from_httpx(err, request, self.settings) from err
        finally:
            await response.aclose()

    async def events(
        self, request: Request, opened: Callable[[], None] | None = None
    ) -> AsyncIterator[Event]:
        """The server-sent events of the answer, until it ends in whatever way; opened marks its beginning."""
        async with self.stream(request) as response:
            if opened:
                opened()
            decoder = Decoder()
            async for data in response.aiter_bytes():
                for event in decoder.feed(data):
                    yield event

    async def before_resuming(
        self, patience: _core.Patience, request: Request, broken: APIConnectionError
    ) -> None:
        """Waits before a stream is taken up; raises broken where it broke too often without progress."""
        if patience.first_break():
            return
        seconds = patience.pause(broken, request, met=self._met)
        if seconds is None:
            raise broken
        await anyio.sleep(seconds)

    async def _retry(
        self, request: Request, attempt: Callable[[Request], Awaitable[T]], gone: T | None = None
    ) -> T:
        patience = _core.Patience(self.settings)
        while True:
            try:
                return await attempt(request)
            except SandkastenError as err:
                if gone is not None and patience.gone(err, request):
                    return gone
                seconds = patience.pause(err, request, met=self._met)
                if seconds is None:
                    raise
                await anyio.sleep(seconds)

    async def _json(self, request: Request) -> Any:
        try:
            return json.loads(await self._content(request))
        except ValueError as err:
            raise ProtocolError(f"the daemon's answer is no JSON: {err}") from err

    async def _content(self, request: Request) -> bytes:
        response = await self._send(request)
        try:
            return await response.aread()
        except httpx.TransportError as err:
            raise _core.from_httpx(err, request, self.settings) from err
        finally:
            await response.aclose()

    async def _send(self, request: Request) -> httpx.Response:
        """The answer, of which only the header is read. An error's status is raised."""
        try:
            response = await self._client.send(
                request.build(self._client, self.settings.timeout), stream=True
            )
            self._met = True
            if response.is_success:
                return response
            try:
                content = await response.aread()
            finally:
                await response.aclose()
        except httpx.TransportError as err:
            raise _core.from_httpx(err, request, self.settings) from err
        raise error_from_response(response.status_code, response.headers, content)
