"""What the async and the sync client have in common that needs no I/O."""

from __future__ import annotations

import asyncio
import base64
import os
import platform
import random
import re
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from inspect import isawaitable
from time import monotonic
from typing import Any
from urllib.parse import quote, urlencode

import anyio.lowlevel
import httpx

from ._errors import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    ConfigurationError,
    NotFoundError,
    ProtocolError,
    SandkastenError,
)
from ._models import Network
from ._types import NetworkOptions, ProcessOptions
from ._version import __version__

DEFAULT_URL = "http://127.0.0.1:8787"

# A stream has a comment every 15 s; three of them missing is a dead connection.
STREAM_SILENCE = 50.0

FIRST_DELAY, LONGEST_DELAY = 0.25, 30.0

# Between tries within the time for a restart, so that its end is noticed soon.
RESTART_DELAY = 2.0

# For an address at which there has been no answer yet: it may be a wrong one.
FIRST_CONTACT = 3.0

# What the end of a command adds to a call that its caller cancels, at most. The request for
# the command may still be on its way when its end is asked for, hence the pauses between tries.
END_SECONDS = 2.0
END_PAUSES = (0.05, 0.1, 0.2, 0.4)

# Requests that wait for a command have no timeout of their own: a dead peer is
# found by the kernel's probes, within about a minute and a half.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}

# A query in which a name may be there several times.
Pairs = Sequence["tuple[str, str | int | None]"]

# Makes the body anew for each try.
Body = Callable[[], "AsyncIterator[bytes] | Iterator[bytes]"]


def once(data: Any) -> Body:
    """A body that cannot be sent again; SandkastenError if it is to be."""
    left = [data]

    def body() -> Any:
        if not left:
            raise SandkastenError("the daemon did not take what was sent, and it cannot be read again")
        return left.pop()

    return body


@dataclass(frozen=True, slots=True)
class Settings:
    """What a client was made with."""

    base_url: str
    api_key: str = field(repr=False)
    timeout: float
    max_retries: int
    retry_seconds: float

    @property
    def headers(self) -> dict[str, str]:
        """What every request says of itself."""
        return {
            "Authorization": f"Bearer {self.api_key}",
            "User-Agent": f"sandkasten-python/{__version__} Python/{platform.python_version()}",
        }


def settings(
    base_url: str | None, api_key: str | None, timeout: float, max_retries: int, retry_seconds: float
) -> Settings:
    """Fills in from the environment what is None; ConfigurationError if something is missing or wrong."""
    url = (base_url or os.environ.get("SANDKASTEN_URL") or DEFAULT_URL).rstrip("/")
    key = api_key or os.environ.get("SANDKASTEN_API_KEY")
    if not re.match(r"https?://[^/?#]+", url):
        raise ConfigurationError(f"base_url must be like {DEFAULT_URL}, not {url!r}")
    if not key:
        raise ConfigurationError(
            "no API key: pass api_key or set SANDKASTEN_API_KEY; "
            "the daemon keeps its own in the file api_key of its data directory"
        )
    if not re.fullmatch(r"[!-~]+", key):
        raise ConfigurationError("the API key has characters that no header can have")
    if max_retries < 0 or retry_seconds < 0 or timeout <= 0:
        raise ConfigurationError(
            "timeout must be more than 0 seconds, max_retries and retry_seconds 0 or more"
        )
    return Settings(url, key, timeout, max_retries, retry_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of the API."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    json: Mapping[str, Any] | None = None
    body: Body | bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    safe: bool = False
    """It may be sent again when nobody knows whether it was carried out."""
    wait: bool = False
    """The answer may take as long as a command does."""
    silence: float | None = None
    """Seconds without a byte after which the connection counts as broken, if not the client's timeout."""
    within: float | None = None
    """Instead of the client's timeout."""

    def build(self, client: httpx.Client | httpx.AsyncClient, timeout: float) -> httpx.Request:
        """The request as httpx sends it; called once for each try."""
        timeout = self.within or timeout
        read = None if self.wait else self.silence or timeout
        return client.build_request(
            self.method,
            self.path,
            params={name: _param(value) for name, value in given(self.query).items()} or None,
            json=self.json,
            content=self.body() if callable(self.body) else self.body,
            headers=self.headers,
            timeout=httpx.Timeout(timeout, read=read, pool=None),
        )


def creation(path: str, body: Mapping[str, Any], idempotency_key: str | None) -> Request:
    """A request that makes something, once however often it is sent; without a key it gets its own."""
    headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
    return Request(method="POST", path=path, json=given(body), headers=headers, safe=True, wait=True)


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without those that are None: the daemon's own defaults are used for them."""
    return {name: value for name, value in values.items() if value is not None}


def _param(value: Any) -> str | list[str]:
    if isinstance(value, (list, tuple)):
        return [str(one) for one in value]  # each by itself
    return str(value).lower() if isinstance(value, bool) else str(value)


def segment(name: str) -> str:
    """A name as one segment of a path, whatever is in it."""
    return quote(name, safe="").replace(".", "%2E")


def url_path(*parts: str) -> str:
    """A path of the API; parts may be anything."""
    return "/v1/" + "/".join(segment(part) for part in parts)


def socket_url(settings: Settings, path: str, query: Pairs) -> str:
    """The address of a WebSocket."""
    given_pairs = urlencode([(name, value) for name, value in query if value is not None])
    return "ws" + settings.base_url.removeprefix("http") + path + "?" + given_pairs


def from_httpx(err: httpx.TransportError, request: Request, settings: Settings) -> APIConnectionError:
    """Our exception for one of httpx."""
    kind = APITimeoutError if isinstance(err, httpx.TimeoutException) else APIConnectionError
    sent = not isinstance(err, (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol))
    text = f"{request.method} {settings.base_url}{request.path}: {err or type(err).__name__}"
    if sent and not request.safe:
        text += " (it may have been carried out)"
    return kind(text, sent=sent)


def may_retry(err: SandkastenError, request: Request) -> bool:
    """Whether the request may be sent again after this error."""
    if isinstance(err, APIError):
        if err.reason == "quota_exceeded":
            return False  # time alone changes nothing
        return err.status == 429 or (request.safe and err.status == 503)  # 429: nothing was done
    if isinstance(err, APIConnectionError):
        return request.safe or not err.sent
    return False


class Patience:
    """Decides how long one request, or one stream, is tried.

    Where the daemon may be restarting that is a time from the first failure on, and
    at least max_retries times; where it says that there is too much, max_retries times.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tries = 0
        self._since: float | None = None
        self._doubtful = False

    def progress(self) -> None:
        """Begins anew: what came since was of use."""
        self._tries, self._since = 0, None

    def first_break(self) -> bool:
        """Whether a stream broke for the first time since it made progress, and is to be taken up at once."""
        first = self._since is None
        if first:
            self._since = monotonic()
        return first

    def pause(self, err: SandkastenError, request: Request, *, met: bool) -> float | None:
        """Seconds until the next try, None if there is none. met: something has answered at the address."""
        if not may_retry(err, request):
            return None
        busy = isinstance(err, APIError) and err.status == 429
        if isinstance(err, APIError) and busy and (err.retry_after or 0) > LONGEST_DELAY:
            return None  # as of a quota of a month: whoever asks decides
        lost = isinstance(err, APIConnectionError)
        self._doubtful = self._doubtful or (err.sent if isinstance(err, APIConnectionError) else not busy)
        now = monotonic()
        self._since = now if self._since is None else self._since
        seconds = delay(self._tries, err)
        self._tries += 1
        if self._tries <= self._settings.max_retries:
            return seconds
        if busy or self._settings.max_retries == 0:
            return None
        budget = self._settings.retry_seconds
        left = self._since + (budget if met or not lost else min(budget, FIRST_CONTACT)) - now
        return min(seconds, RESTART_DELAY, left) if left > 0 else None

    def gone(self, err: SandkastenError, request: Request) -> bool:
        """Whether a deletion finds nothing because one of its earlier tries was carried out."""
        return self._doubtful and request.method == "DELETE" and isinstance(err, NotFoundError)


def delay(attempt: int, err: SandkastenError | None = None) -> float:
    """Seconds to wait before another try, the first of which has number 0."""
    asked = err.retry_after if isinstance(err, APIError) else None
    backoff = FIRST_DELAY * float(2 ** min(attempt, 16)) * random.uniform(0.5, 1)
    return min(max(asked or 0, backoff), LONGEST_DELAY)


def socket_options() -> list[tuple[int, int, int]]:
    """TCP keep-alive, with the names that this system has for it."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in _KEEPALIVE.items():
        if (number := getattr(socket, name, None)) is not None:
            options.append((socket.IPPROTO_TCP, number, value))
    return options


def exec_body(cmd: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request for a command of a shell."""
    return {"exec_id": new_exec_id(), **given({"cmd": cmd, **options})}


def new_exec_id() -> str:
    """An id as the daemon's own are."""
    return base64.b32encode(os.urandom(16)).decode().rstrip("=").lower()


def is_cancel(err: BaseException | None) -> bool:
    """Whether this ends a call because its caller wants that: a cancelled task, or an interrupt."""
    return err is not None and not isinstance(err, (Exception, GeneratorExit))


def event_loop() -> object:
    """The event loop that runs, of whichever library."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return anyio.lowlevel.current_token()


def has_ended(loop: object) -> bool:
    """Whether an event loop is known to run no more."""
    return isinstance(loop, asyncio.AbstractEventLoop) and loop.is_closed()


async def settled(result: object) -> None:
    """Waits for what a callback returned, if that can be waited for."""
    if isawaitable(result):
        await result


# What runs shell code: bash or, in an image without, sh.
_SHELL_CODE = ["sh", "-c", 'exec "$(command -v bash || echo sh)" -c "$0"']


def process_body(cmd: str | Sequence[str], options: ProcessOptions) -> dict[str, Any]:
    """The body of a request for a process. A text is shell code."""
    words = [*_SHELL_CODE, cmd] if isinstance(cmd, str) else list(cmd)
    body: dict[str, Any] = {"exec_id": new_exec_id(), "cmd": words, **options}
    if isinstance(stdin := options.get("stdin"), bytes):
        del body["stdin"]
        body["stdin_base64"] = base64.b64encode(stdin).decode()
    return given(body)


def secret_body(hosts: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request that stores a secret. A text alone would be taken apart into letters."""
    if isinstance(hosts, str):
        raise TypeError("hosts of a secret is a list, as ['api.example.org']")
    return given({"hosts": list(hosts), **options})


def network_body(network: NetworkOptions | Network) -> dict[str, Any]:
    """What a session is to reach as a request has it.

    Of what the daemon told, it leaves out what is only told: the placeholders of secrets, and what a
    stored secret has.
    """
    if not isinstance(network, Network):
        return dict(network)
    secrets = [
        {"name": s.name, "stored": s.stored}
        if s.stored
        else given({"name": s.name, "hosts": s.hosts, "header": s.header, "query": s.query})
        for s in network.secrets
    ]
    return given({**asdict(network), "secrets": secrets, "relay": None})


# The API takes 1 MiB of input at once.
STDIN_PIECE = 512 * 1024


def stdin_pieces(data: str | bytes | Iterable[bytes]) -> Iterator[bytes]:
    """What one request each sends to a standard input; of an iterable no more is in memory."""
    if isinstance(data, str):
        data = data.encode()
    if isinstance(data, bytes):
        data = [data]
    held = bytearray()
    for piece in data:
        held += piece
        while len(held) >= STDIN_PIECE:
            yield bytes(held[:STDIN_PIECE])
            del held[:STDIN_PIECE]
    if held:
        yield bytes(held)


def as_object(answer: Any) -> dict[str, Any]:
    """An answer that is a JSON object; ProtocolError if it is something else."""
    if not isinstance(answer, dict):
        raise ProtocolError("the daemon's answer is no JSON object")
    return answer
