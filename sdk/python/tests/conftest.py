"""What the tests share: both clients behind one way to call them, and a daemon to talk to."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any

import anyio.to_thread
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from sandkasten import SandboxClient, SyncSandboxClient


class Sync:
    """Calls the synchronous client."""

    client = SyncSandboxClient

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    def cancel(self, function: Callable[..., Any], until: Callable[[], Any], **kwargs: Any) -> float:
        """Interrupts a call when until returns, and tells when that was."""
        cancelled: list[float] = []

        def interrupt() -> None:
            until()
            cancelled.append(monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            function(**kwargs)
        thread.join()
        return cancelled[0]

    def drain(self, stream: Any) -> list[Any]:
        return list(stream)

    def take(self, stream: Any, count: int) -> list[Any]:
        with stream:
            return list(islice(stream, count))


class Async:
    """Calls the asynchronous client, from a test that is not."""

    client = SandboxClient

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        async def run() -> Any:
            result = partial(function, *args, **kwargs)()
            return await result if hasattr(result, "__await__") else result

        return self._portal.call(run)

    def cancel(self, function: Callable[..., Any], until: Callable[[], Any], **kwargs: Any) -> float:
        """Cancels a task when until returns, and tells when that was."""

        async def run() -> float:
            task = asyncio.create_task(function(**kwargs))
            await anyio.to_thread.run_sync(until)
            cancelled = monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return cancelled

        return self._portal.call(run)

    def drain(self, stream: Any) -> list[Any]:
        async def run() -> list[Any]:
            return [item async for item in stream]

        return self._portal.call(run)

    def take(self, stream: Any, count: int) -> list[Any]:
        async def run() -> list[Any]:
            async with stream:
                return [await anext(stream) for _ in range(count)]

        return self._portal.call(run)


@pytest.fixture(params=["sync", "async"])
def side(request: pytest.FixtureRequest) -> Iterator[Sync | Async]:
    """Runs the test with the synchronous and with the asynchronous client."""
    if request.param == "sync":
        yield Sync()
    else:
        with start_blocking_portal() as portal:
            yield Async(portal)


@pytest.fixture(scope="session")
def daemon() -> str:
    """The address of a real daemon; sdk/contract/run starts one."""
    url = os.environ.get("SANDKASTEN_URL")
    if not url:
        pytest.skip("needs a daemon: go run ./sdk/contract/run pytest")
    return url
