"""Outline of a file to import: counts from its header, or from an import with a limit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from storage.errors import MemoryShortError
from storage.files import open_input, require_file
from storage.formats.base import Importer, ImportJob

READ_BYTES = 64 << 20
"""Size of a file up to which it is imported to count neurons and synapses."""
MOST_STEPS = 64
"""Reports of progress after which that ends; each is about a megabyte of text."""
HEADER, CONTENT = "header", "content"


class Outline(NamedTuple):
    """Counts of a file; None if unknown.

    counted : HEADER, as a header declares them, CONTENT, as an import counts them, or None
    """

    neurons: int | None = None
    synapses: int | None = None
    undirected: bool | None = None
    counted: str | None = None


class _TooLongError(Exception):
    """The import takes too long."""


def outline(path: Path, importer: Importer, memory: int) -> Outline:
    """Return the counts of a file; raise `BadInputError` if it is damaged.

    memory : bytes for an import
    """
    found = _HEADERS[importer.name](path) if importer.name in _HEADERS else Outline()
    if found.neurons is not None and found.synapses is not None:
        return found
    if require_file(path) > READ_BYTES:
        return found
    return _counted(path, importer, memory) or found


def _counted(path: Path, importer: Importer, memory: int) -> Outline | None:
    """Import a file into a temporary folder; return None if that takes too long."""
    steps = 0

    def count(_fraction: float) -> None:  # of a packed file: it may be 1 long before the end
        nonlocal steps
        steps += 1
        if steps > MOST_STEPS:
            raise _TooLongError

    with tempfile.TemporaryDirectory() as folder:
        weights, traffic = importer.kept_weights(None, None)
        job = ImportJob(path, Path(folder) / "net.bin", memory, progress=count, weights=weights)
        extra = {"traffic": traffic} if "traffic" in importer.takes else {}
        try:
            meta = importer.load(job, extra)
        except (_TooLongError, MemoryShortError):
            return None
    return Outline(meta.neurons, meta.synapses, meta.undirected, CONTENT)


def _matrix_market(path: Path) -> Outline:
    from storage.formats.text.matrixmarket import read_header
    from storage.formats.text.reader import TextReader

    with TextReader(path) as reader:
        header = read_header(reader)
    entries = None if header.dense else header.entries * (1 + header.skew)
    return Outline(header.neurons, entries, header.symmetric and not header.skew, HEADER)


def _metis(path: Path) -> Outline:
    from storage.formats.text.reader import TextReader, read_counts

    with TextReader(path) as reader:
        _, numbers = read_counts(reader, 4, "n m [fmt [ncon]]")
    return Outline(numbers[0], numbers[1], True, HEADER)


def _parhip(path: Path) -> Outline:
    from storage.formats.columnar.parhip import ParhipFile

    with open_input(path) as file:
        layout = ParhipFile(path, file).layout
    return Outline(layout.vertices, layout.entries // 2, True, HEADER)


def _npy(path: Path) -> Outline:
    from storage.formats.matrices.npyfile import read_shape

    with open_input(path) as file:
        neurons, _, _ = read_shape(path, file)
    return Outline(neurons, None, False, HEADER)


def _parquet(path: Path) -> Outline:
    from storage.formats.columnar.parquet import count_rows

    return Outline(None, count_rows(path), False, HEADER)


_HEADERS: dict[str, Callable[[Path], Outline]] = {
    "matrixmarket": _matrix_market,
    "metis": _metis,
    "npy": _npy,
    "parhip": _parhip,
    "parquet": _parquet,
}
