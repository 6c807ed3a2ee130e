"""Server-sent events, however they are cut."""

from __future__ import annotations

import pytest

from sandkasten._errors import ProtocolError
from sandkasten._sse import Decoder, Event

STREAM = (
    ": a comment\n\nevent: start\nid: 1\ndata: {}\n\nevent:chunk\r\nid: 2\r\ndata: grüße 🙂\r\ndata: two\r\n"
    "\r\nid: only\n\nunknown: x\ndata\n\nevent: cut\ndata: never ended\n"
).encode()
EVENTS = [Event("start", "1", "{}"), Event("chunk", "2", "grüße 🙂\ntwo"), Event("", "only", "")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(STREAM)])
def test_events_in_pieces_of_any_size(size: int) -> None:
    decoder = Decoder()
    pieces = [STREAM[i : i + size] for i in range(0, len(STREAM), size)]
    assert [event for piece in pieces for event in decoder.feed(piece)][:3] == EVENTS


@pytest.mark.parametrize("data", ["{", "[]", "1"])
def test_data_that_is_no_object(data: str) -> None:
    with pytest.raises(ProtocolError):
        Event("done", None, data).json()
