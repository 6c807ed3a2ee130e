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
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._client = httpx.AsyncClient(
            base_url=settings.base_url,
            headers=settings.headers,
            transport=transport
            or httpx.AsyncHTTPTransport(limits=limits, socket_options=_core.socket_options()),
        )

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._client.aclose()

    async def json(self, request: Request) -> Any:
        """The JSON of the answer."""
        return await self._retry(request, self._json)

    async def content(self, request: Request) -> bytes:
        """The bytes of the answer."""
        return await self._retry(request, self._content)

    async def response(self, request: Request) -> httpx.Response:
        """The answer with its content, whatever its status. It is asked for once."""
        try:
            return await self._client.send(request.build(self._client, self.settings.timeout))
        except httpx.TransportError as err:
            raise _core.from_httpx(err, request) from err

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[httpx.Response]:
        """The answer, of which only the header is read; its status is no error."""
        response = await self._retry(request, self._send)
        try:
            yield response
        except httpx.TransportError as err:
            raise _core.from_httpx(err, request) from err
        finally:
            await response.aclose()

    async def events(self, request: Request) -> AsyncIterator[Event]:
        """The server-sent events of the answer, until it ends in whatever way."""
        async with self.stream(request) as response:
            decoder = Decoder()
            async for data in response.aiter_bytes():
                for event in decoder.feed(data):
                    yield event

    async def before_resuming(self, failures: int, broken: APIConnectionError) -> int:
        """Waits before a stream is taken up that failed so often without progress, and counts one more."""
        if failures > self.settings.max_retries:
            raise broken
        if failures:
            await anyio.sleep(_core.delay(failures - 1))
        return failures + 1

    async def _retry(self, request: Request, attempt: Callable[[Request], Awaitable[T]]) -> T:
        tries = 0
        while True:
            try:
                return await attempt(request)
            except SandkastenError as err:
                if tries == self.settings.max_retries or not _core.may_retry(err, request):
                    raise
                await anyio.sleep(_core.delay(tries, err))
            tries += 1

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
            raise _core.from_httpx(err, request) from err
        finally:
            await response.aclose()

    async def _send(self, request: Request) -> httpx.Response:
        """The answer, of which only the header is read. An error's status is raised."""
        try:
            response = await self._client.send(
                request.build(self._client, self.settings.timeout), stream=True
            )
            if response.is_success:
                return response
            try:
                content = await response.aread()
            finally:
                await response.aclose()
        except httpx.TransportError as err:
            raise _core.from_httpx(err, request) from err
        raise error_from_response(response.status_code, response.headers, content)
