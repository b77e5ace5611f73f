"""Standard input and output in place of files: `-` as the name of a file."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mapper.errors import UsageError

NAME = "standard input"
READ_BYTES = 1 << 20


def is_standard(path: Path) -> bool:
    """Return whether a path stands for standard input or output."""
    return str(path) == "-"


@contextmanager
def read_standard_input(near: Path) -> Iterator[Path]:
    """Save standard input to a file in the folder of an output; yield its path.

    Readers need the size of a file, and may read it twice. Messages name standard input.
    near : the output, whose lock guards the file; a file left by a killed process is overwritten
    """
    from storage.errors import StorageError
    from storage.files import writing

    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("-: standard input is a terminal; pipe a file into the command")
    folder = near.with_name(f".{near.name}.stdin")
    try:
        shutil.rmtree(folder, ignore_errors=True)
        piece = sys.stdin.buffer.read(READ_BYTES)
        archive = piece.startswith(b"PK")  # without an ending it would be a network file
        path = folder / (f"{NAME}.npz" if archive else NAME)
        with writing(near):
            folder.mkdir()
            with path.open("wb") as file:
                while piece:
                    file.write(piece)
                    piece = sys.stdin.buffer.read(READ_BYTES)
        try:
            yield path
        except StorageError as error:
            text = str(error).replace(str(path), NAME)
            raise type(error)(text) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def require_stream(options: argparse.Namespace, path: Path, format: str | None) -> None:
    """Raise `UsageError` if a file from standard input has a format that refers to other files."""
    from storage.formats import recognise

    importer = recognise(path, format, table=options.columns is not None)
    if importer.several:
        raise UsageError(
            f"-: {importer.name} files refer to other files; save standard input as a file"
        )
