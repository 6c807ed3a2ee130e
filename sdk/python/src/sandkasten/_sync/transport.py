# Written by scripts/generate.py from _async/transport.py. Change that instead.
"""Sends requests, again where that is safe, and makes errors of refusals."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx

from .. import _core
from .._core import Request, Settings
from .._errors import APIConnectionError, ProtocolError, SandkastenError, error_from_response
from .._sse import Decoder, Event

T = TypeVar("T")


class SyncTransport:
    """One connection pool to one daemon."""

    def __init__(self, settings: Settings, transport: httpx.BaseTransport | None = None) -> None:
        self.settings = settings
        self._met = False  # something has answered at the address
        self._transport = transport
        self._clients: dict[object, httpx.Client] = {}  # by the event loop that has their connections

    @property
    def _client(self) -> httpx.Client:
        """That of the running event loop: connections of another one cannot be used in it."""
        loop = None
        client = self._clients.get(loop)
        if client is None:
            # With an event loop its connections have ended.
            self._clients = {old: c for old, c in self._clients.items() if not _core.has_ended(old)}
            client = self._clients[loop] = self._connect()
        return client

    def _connect(self) -> httpx.Client:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        return httpx.Client(
            base_url=self.settings.base_url,
            headers=self.settings.headers,
            transport=self._transport
            or httpx.HTTPTransport(limits=limits, socket_options=_core.socket_options()),
        )

    def close(self) -> None:
        """Closes the connections of the running event loop."""
        if client := self._clients.pop(None, None):
            client.close()

    def once(self, request: Request) -> Any:
        """The JSON of the answer to a request that is sent once."""
        return self._json(request)

    def json(self, request: Request) -> Any:
        """The JSON of the answer."""
        return self._retry(request, self._json, gone={"ok": True})

    def content(self, request: Request) -> bytes:
        """The bytes of the answer."""
        return self._retry(request, self._content)

    def response(self, request: Request) -> httpx.Response:
        """The answer with its content, whatever its status. It is asked for once."""
        try:
            return self._client.send(request.build(self._client, self.settings.timeout))
        except httpx.TransportError as err:
            raise _core.from_httpx(err, request, self.settings) from err

    @contextmanager
    def stream(self, request: Request) -> Iterator[httpx.Response]:
        """The answer, of which only the header is read; its status is no error."""
        response = self._retry(request, self._send)
        try:
            yield response
        except httpx.TransportError as err:
            raise _core.from_httpx(err, request, self.settings) from err
        finally:
            response.close()

    def events(self, request: Request, opened: Callable[[], None] | None = None) -> Iterator[Event]:
        """The server-sent events of the answer, until it ends in whatever way; opened marks its beginning."""
        with self.stream(request) as response:
            if opened:
                opened()
            decoder = Decoder()
            for data in response.iter_bytes():
                for event in decoder.feed(data):
                    yield event

    def before_resuming(self, patience: _core.Patience, request: Request, broken: APIConnectionError) -> None:
        """Waits before a stream is taken up; raises broken where it broke too often without progress."""
        if patience.first_break():
            return
        seconds = patience.pause(broken, request, met=self._met)
        if seconds is None:
            raise broken
        time.sleep(seconds)

    def _retry(self, request: Request, attempt: Callable[[Request], T], gone: T | None = None) -> T:
        patience = _core.Patience(self.settings)
        while True:
            try:
                return attempt(request)
            except SandkastenError as err:
                if gone is not None and patience.gone(err, request):
                    return gone
                seconds = patience.pause(err, request, met=self._met)
                if seconds is None:
                    raise
                time.sleep(seconds)

    def _json(self, request: Request) -> Any:
        try:
            return json.loads(self._content(request))
        except ValueError as err:
            raise ProtocolError(f"the daemon's answer is no JSON: {err}") from err

    def _content(self, request: Request) -> bytes:
        response = self._send(request)
        try:
            return response.read()
        except httpx.TransportError as err:
            raise _core.from_httpx(err, request, self.settings) from err
        finally:
            response.close()

    def _send(self, request: Request) -> httpx.Response:
        """The answer, of which only the header is read. An error's status is raised."""
        try:
            response = self._client.send(request.build(self._client, self.settings.timeout), stream=True)
            self._met = True
            if response.is_success:
                return response
            try:
                content = response.read()
            finally:
                response.close()
        except httpx.TransportError as err:
            raise _core.from_httpx(err, request, self.settings) from err
        raise error_from_response(response.status_code, response.headers, content)
