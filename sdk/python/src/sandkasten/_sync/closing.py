# Written by scripts/generate.py from _async/closing.py. Change that instead.
"""What ends with the block that it was opened for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class Closing(ABC):
    """As a context manager it is closed at the end."""

    @abstractmethod
    def close(self) -> None:
        """Closes it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
