"""Consoles that print names from files safely; see `storage.printable`."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

from rich.console import Console
from rich.segment import Segment

from storage.printable import plain_lines

_inside: ContextVar[bool] = ContextVar("_inside", default=False)


class SafeConsole(Console):
    """Console that escapes unprintable characters of all texts, tables and progress bars."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Render as a console does; nested calls, for the cells of a table, do not escape yet: an
        escape is longer than its character, and a cell would cut it.
        """
        if _inside.get():
            yield from super().render(renderable, options)
            return
        token = _inside.set(True)
        try:
            found = list(super().render(renderable, options))
        finally:
            _inside.reset(token)
        for segment in found:
            safe = segment.control or (segment.text.isascii() and segment.text.isprintable())
            yield segment if safe else segment._replace(text=plain_lines(segment.text))


class ResultConsole(SafeConsole):
    """Console for results; it raises `BrokenPipeError` if the stream was closed."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
