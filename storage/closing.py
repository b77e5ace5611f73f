"""What is to be closed is closed when its ``with`` block ends, however it ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Gives a class with `close` the form ``with Thing(...) as thing``."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and memory; may be called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
