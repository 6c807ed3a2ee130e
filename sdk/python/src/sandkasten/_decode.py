"""JSON to dataclasses: what the daemon adds later is passed over."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any, TypeVar, cast

from ._errors import ProtocolError

T = TypeVar("T")


def decode(cls: type[T], data: Any) -> T:
    """Makes cls, a dataclass, of an answer; ProtocolError if it is something else."""
    try:
        return cast(T, _dataclass(cls)(data))
    except (TypeError, ValueError, KeyError, AttributeError) as err:
        raise ProtocolError(f"the daemon's answer is no {cls.__name__}: {err}") from err


def decode_list(cls: type[T], data: Any) -> list[T]:
    """The same of an array."""
    if not isinstance(data, list):
        raise ProtocolError(f"the daemon's answer is no list of {cls.__name__}")
    return [decode(cls, item) for item in data]


def _make_dataclass(cls: Any) -> Callable[[Any], Any]:
    hints = typing.get_type_hints(cls)
    fields = {f.name: _converter(hints[f.name]) for f in dataclasses.fields(cls)}

    def convert(data: Mapping[str, Any]) -> Any:
        known = {name: to(data[name]) for name, to in fields.items() if data.get(name) is not None}
        return cls(**known)

    return convert


# Made once for each class.
_dataclass: Callable[[Any], Callable[[Any], Any]] = cache(_make_dataclass)


def _converter(hint: Any) -> Callable[[Any], Any]:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _converter(next(a for a in args if a is not type(None)))
    if origin is list:
        item = _converter(args[0])
        return lambda values: [item(v) for v in values]
    if hint is datetime:
        return _time
    if dataclasses.is_dataclass(hint):
        return _dataclass(hint)
    return lambda value: value


def _time(text: str | int) -> datetime:
    """RFC 3339, of which Python 3.10 reads neither Z nor nanoseconds; or milliseconds since 1970."""
    if isinstance(text, int):
        return datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=text)
    head, dot, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{head}{dot}{fraction[:6].ljust(6, '0') if dot else ''}+00:00")
