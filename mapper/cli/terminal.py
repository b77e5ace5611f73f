"""What commands print: results on stdout, notes and progress on stderr."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


def stderr_console(options: argparse.Namespace) -> Console:
    from rich.console import Console

    return Console(stderr=True, quiet=options.quiet, highlight=False)


def stdout_console() -> Console:
    """For results. A reader that has gone is told to `mapper.cli.main`, as of other output."""
    from rich.console import Console

    class Results(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Results(highlight=False)


def say(options: argparse.Namespace, line: str) -> None:
    """A note on stderr: one line, however long, unless --quiet."""
    stderr_console(options).print(line, soft_wrap=True, markup=False)


def complain(line: str) -> None:
    """Why the exit code is not 0: one line on stderr, --quiet or not."""
    from rich.console import Console

    Console(stderr=True, highlight=False).print(line, soft_wrap=True, markup=False)


def emit(
    options: argparse.Namespace, result: dict[str, Any], tables: list[Table],
    summary: Table | Text | None = None,
) -> None:  # fmt: skip
    """Write the result to stdout: one JSON object, or tables; nothing of these with --quiet.

    summary : printed instead of the tables, unless --details is given
    """
    if options.json:
        sys.stdout.write(json.dumps(result) + "\n")
        return
    if options.quiet:
        return
    console = stdout_console()
    for table in tables if summary is None or options.details else [summary]:
        console.print(table)


@contextmanager
def fraction_bar(options: argparse.Namespace, text: str) -> Iterator[Callable[[float], None]]:
    """A progress bar on a terminal's stderr; gives a function that takes fractions 0 .. 1."""
    from rich.progress import Progress

    console = stderr_console(options)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(text, total=1.0)

        def update(fraction: float) -> None:
            progress.update(task, completed=fraction)

        yield update
