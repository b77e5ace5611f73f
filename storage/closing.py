"""Base class for objects that a ``with`` block closes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Adds the ``with Thing(...) as thing`` form to a class with `close`."""

    @abstractmethod
    def close(self) -> None:
        """Release files and memory; may be called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
