"""Terminals and tunnels of a real daemon, with both clients."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

import sandkasten


@pytest.fixture
def session(daemon: str, side: Any) -> Iterator[Any]:
    client = side.client()
    session = side.call(client.create_session, image="python")
    yield session
    side.call(session.destroy)
    side.call(getattr(client, "aclose", None) or client.close)


def until(side: Any, terminal: Any, text: bytes | None) -> bytes:
    """What the terminal shows until it has shown text, or until its end."""
    shown = b""

    def enough(piece: bytes) -> bool:
        nonlocal shown
        shown += piece
        return text is not None and text in shown

    async def read() -> None:
        async for piece in terminal:
            if enough(piece):
                return

    if isinstance(terminal, sandkasten.Terminal):
        side.call(read)
    else:
        any(enough(piece) for piece in terminal)
    assert text is None or text in shown, shown
    return shown


def close(side: Any, socket: Any) -> None:
    side.call(getattr(socket, "aclose", None) or socket.close)


def test_a_terminal_has_a_size_keys_and_an_end(side: Any, session: Any) -> None:
    terminal = side.call(session.open_terminal, rows=33, cols=101, command=["sh"])
    side.call(terminal.write, "stty size; echo $((6*7))-\n")
    assert b"33 101" in until(side, terminal, b"42-")
    side.call(terminal.resize, rows=10, cols=20)
    side.call(terminal.write, b"stty size\n")
    until(side, terminal, b"10 20")
    side.call(terminal.write, "exit 3\n")
    until(side, terminal, None)
    assert terminal.exit_code == 3


def test_to_come_back_goes_on_where_it_was(side: Any, session: Any) -> None:
    first = side.call(session.open_terminal, command=["sh"])
    side.call(first.write, "echo one-$((1+1))\n")
    until(side, first, b"one-2")
    close(side, first)
    with pytest.raises(sandkasten.APIConnectionError):
        side.call(first.write, "x")
    second = side.call(session.attach_terminal, first.id, since_seq=first.seq)
    side.call(second.write, "echo two-$((1+1))\n")
    assert b"one-2" not in until(side, second, b"two-2")
    side.call(session.processes.get(first.id).kill)
    until(side, second, None)
    assert second.exit_code


def test_what_is_not_there_is_an_error_of_the_api(side: Any, session: Any) -> None:
    with pytest.raises(sandkasten.NotFoundError):
        side.call(session.attach_terminal, "f5q2bz7lq4m3k5n6p7r2s3t4u5")
    with pytest.raises(sandkasten.NotFoundError):
        side.call(session.ports.connect, 9)


SERVER = """
import socket
s = socket.create_server(("127.0.0.1", 9000))
print("up", flush=True)
c, _ = s.accept()
d = b""
while p := c.recv(65536): d += p
c.sendall(d[::-1])
c.close()
"""


def test_a_tunnel_carries_bytes_both_ways_and_half_closes(side: Any, session: Any) -> None:
    server = side.call(session.processes.start, ["python3", "-c", SERVER])
    assert side.call(server.output, wait_ms=60_000).chunks  # it listens
    tunnel = side.call(session.ports.connect, 9000)
    sent = b"abc" * 400_000
    side.call(tunnel.send, sent)
    side.call(tunnel.end)
    got = b""
    while piece := side.call(tunnel.receive):
        got += piece
    assert got == sent[::-1]
    close(side, tunnel)


def test_stdin_of_any_length_comes_in_pieces(side: Any, session: Any) -> None:
    process = side.call(session.processes.start, ["wc", "-c"], open_stdin=True)
    side.call(process.write_stdin, (b"x" * 100_000 for _ in range(200)))
    side.call(process.close_stdin)
    assert side.call(process.wait).output == "20000000\n"


def test_without_the_package_it_is_said_what_to_install(
    side: Any, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "websockets", None)
    with pytest.raises(sandkasten.ConfigurationError, match=r"pip install .websockets"):
        side.call(session.open_terminal)


def test_the_pool_says_what_it_is(daemon: str, side: Any) -> None:
    client = side.client()
    assert side.call(client.pool_status).enabled is False
    side.call(getattr(client, "aclose", None) or client.close)
