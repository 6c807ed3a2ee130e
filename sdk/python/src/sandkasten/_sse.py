"""Server-sent events, without any I/O."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ._errors import ProtocolError


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream."""

    name: str
    id: str | None
    data: str

    def json(self) -> dict[str, Any]:
        """The data as the object that it always is."""
        try:
            body = json.loads(self.data)
        except ValueError as err:
            raise ProtocolError(f"event {self.name}: {err}") from err
        if not isinstance(body, dict):
            raise ProtocolError(f"event {self.name} has no JSON object")
        return body


class Decoder:
    """Makes events of bytes that come in pieces of any size.

    An event that was not finished by its empty line when the stream ends is lost, as
    the standard wants: it may not be whole.
    """

    def __init__(self) -> None:
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._name = ""
        self._id: str | None = None
        self._data: list[str] = []

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that are complete with these bytes."""
        *lines, self._rest = (self._rest + self._text.decode(data)).split("\n")
        for line in lines:
            if event := self._line(line.removesuffix("\r")):
                yield event

    def _line(self, line: str) -> Event | None:
        if not line:
            return self._finish()
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if key == "event":
            self._name = value
        elif key == "id":
            self._id = value
        elif key == "data":
            self._data.append(value)
        return None

    def _finish(self) -> Event | None:
        # One without data only tells another id to resume from.
        there = self._data or self._id
        event = Event(self._name, self._id, "\n".join(self._data)) if there else None
        self._name, self._id, self._data = "", None, []
        return event
