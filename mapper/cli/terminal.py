"""Output of commands: results on stdout, notes and progress on stderr."""

from __future__ import annotations

import argparse
import codecs
import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mapper.errors import MapperError
from storage.printable import plain, plain_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from mapper.monitoring.callbacks import OnFraction


def stderr_console(options: argparse.Namespace) -> Console:
    from mapper.monitoring.console import SafeConsole

    return SafeConsole(stderr=True, quiet=options.quiet, highlight=False)


def stdout_console() -> Console:
    """Return a console for results; it raises `BrokenPipeError` if stdout was closed."""
    from mapper.monitoring.console import ResultConsole

    _accept_all_characters()
    return ResultConsole(highlight=False)


SIMILAR = {"\N{BULLET}": "*", "\N{BOX DRAWINGS LIGHT HORIZONTAL}": "-", "\N{EN DASH}": "-",
           "\N{BOX DRAWINGS HEAVY HORIZONTAL}": "-", "\N{BOX DRAWINGS LIGHT VERTICAL}": "|",
           "\N{HORIZONTAL ELLIPSIS}": "..."}  # fmt: skip
"""Characters in place of those that a terminal lacks; others become `?`."""


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Return characters that any terminal has; an error handler of `codecs`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(SIMILAR.get(one, "?") for one in missing), error.end


def _accept_all_characters() -> None:
    """Let stdout replace characters that its encoding lacks, such as ASCII in the locale C."""
    codecs.register_error("similar", _replaced)
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="similar")


def say(options: argparse.Namespace, line: str) -> None:
    """Print a note on stderr, without line breaks, unless --quiet."""
    stderr_console(options).print(plain(line), soft_wrap=True, markup=False)


def complain(line: str) -> None:
    """Print the reason of a non-zero exit code on stderr, also with --quiet."""
    from mapper.monitoring.console import SafeConsole

    SafeConsole(stderr=True, highlight=False).print(line, soft_wrap=True, markup=False)


def write(text: str) -> None:
    """Write a listing on stdout."""
    with _output_errors():
        sys.stdout.write(plain_lines(text))


@contextmanager
def _output_errors() -> Iterator[None]:
    """Turn errors of the system on stdout into a `MapperError`, except a closed pipe."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise MapperError(f"standard output: cannot write: {error.strerror}") from error


def emit(
    options: argparse.Namespace, result: dict[str, Any], tables: list[Table],
    summary: Table | Text | Sequence[Table] | None = None,
) -> None:  # fmt: skip
    """Print the result on stdout: one JSON object, or tables unless --quiet.

    summary : printed instead of the tables, unless --details is given
    """
    if options.json:
        with _output_errors():
            sys.stdout.write(json.dumps(result) + "\n")
        return
    if options.quiet:
        return
    console = stdout_console()
    short = summary if isinstance(summary, list) else [summary]
    with _output_errors():
        for table in tables if summary is None or options.details else short:
            console.print(table, crop=False)  # a long value keeps its line


@contextmanager
def fraction_bar(options: argparse.Namespace, text: str) -> Iterator[OnFraction]:
    """Show a progress bar on stderr; yield a function that sets it to a fraction, 0 to 1."""
    from mapper.monitoring.bars import bar_on

    with bar_on(stderr_console(options)) as progress:
        task = progress.add_task(text, total=1.0)

        def update(fraction: float) -> None:
            progress.update(task, completed=fraction)

        yield update
