"""Progress of the functions for Python: a bar in a notebook or a terminal, or a function.

The bar is the only output of these functions. It appears for work that takes longer than `DELAY`,
and is removed at the end. Commands draw theirs with `bar_on`.
"""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from mapper.errors import UsageError, shown
from mapper.monitoring.callbacks import OnProgress, ignore
from storage.printable import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

GivenProgress: TypeAlias = OnProgress | bool | None
"""A function; True for a bar, False for none, None for a bar in notebooks only."""

DELAY = 0.5
"""Seconds before the bar of a notebook appears."""
INTERVAL = 0.1
"""Least seconds between its updates."""


def require_progress(given: object) -> None:
    """Raise `UsageError` for an argument that is not a `GivenProgress`."""
    if given is not None and not isinstance(given, bool) and not callable(given):
        raise UsageError(
            f"progress is {shown(given)}; give a function (stage, fraction) -> None, or True for a "
            "bar"
        )


@contextmanager
def progress_of(given: GivenProgress) -> Iterator[OnProgress]:
    """Yield the function that receives progress, and remove its bar at the end.

    given : None draws a bar in notebooks only, True also on a terminal; elsewhere nothing is drawn
    """
    if callable(given):
        yield given
    elif given is not False and _in_notebook():
        bar = NotebookBar()
        try:
            yield bar
        finally:
            bar.close()
    elif given:
        with _terminal_bar() as show:
            yield show
    else:
        yield ignore


def _in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def bar_on(console: Console, *columns: ProgressColumn) -> Iterator[Progress]:
    """Yield a progress bar that is removed at the end; it is drawn on terminals only.

    columns : of the bar; none for the default columns of rich
    """
    from rich.progress import Progress

    drawn = console.is_terminal
    bar = Progress(*columns, console=console, transient=True, disable=not drawn)
    with bar if drawn else nullcontext():  # rich below 14.3 ends a hidden bar with an empty line
        yield bar


@contextmanager
def _terminal_bar() -> Iterator[OnProgress]:
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    from mapper.monitoring.console import SafeConsole

    console = SafeConsole(stderr=True, highlight=False)
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(bar_width=20),
        TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn(),
    )  # fmt: skip
    with bar_on(console, *columns) as progress:
        task = progress.add_task("starting", total=1.0)

        def show(stage: str, fraction: float) -> None:
            progress.update(task, description=stage, completed=fraction)

        yield show


class NotebookBar:
    """A bar in the output of a notebook's cell, drawn as HTML without widgets."""

    def __init__(self) -> None:
        self._began = self._drawn = time.monotonic()
        self._handle: Any = None

    def __call__(self, stage: str, fraction: float) -> None:
        """Draw a stage and its completed fraction, unless it was drawn a moment ago."""
        now = time.monotonic()
        if now - self._began < DELAY or (self._handle and now - self._drawn < INTERVAL):
            return
        self._drawn = now
        share, seconds = min(max(fraction, 0.0), 1.0), now - self._began
        words = f"{plain(stage)} {share:.0%}"
        bar = f'<progress value="{share:.3f}" max="1" style="width:16em"></progress>'
        self._show(words, f"<div>{bar} {html.escape(words)}, {seconds:.0f} s</div>")

    def close(self) -> None:
        """Remove the bar."""
        if self._handle is not None:
            self._show("", "")

    def _show(self, text: str, picture: str) -> None:
        """Draw HTML, or text in front ends without HTML."""
        forms = {"text/plain": text, "text/html": picture}
        if self._handle is None:
            display = import_module("IPython.display").display
            self._handle = display(forms, raw=True, display_id=True)
        else:
            self._handle.update(forms, raw=True)
