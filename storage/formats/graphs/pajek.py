"""Pajek networks: ``*Vertices n``, then sections of arcs (directed) and edges (undirected).

Neurons are in the order of the vertices. They are called by the labels, as in networkx, if each
vertex has a different one, and by their numbers otherwise; positions become attributes. A file
without arcs is an undirected network; in a file with both, an edge counts in both directions. Each
relation (``*Arcs :2 "name"``) adds its lines. A matrix is a list of arcs without its zeros.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import partial
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from storage.budget import require_room
from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.compact import whole_numbers
from storage.formats.graphs.nodes import POSITION, Nodes
from storage.formats.losses import Magnitudes
from storage.formats.text.reader import TextReader
from storage.formats.weightkeys import number_of
from storage.graph import MAX_VERTICES
from storage.store.meta import NetworkMeta
from storage.store.network import ID
from storage.store.writer import NetworkWriter

READ_BYTES = 1 << 20
ARCS, EDGES = ("arcs", "arcslist", "matrix"), ("edges", "edgeslist")
IGNORED = ("network", "partition", "vector", "events")
_SECTION = re.compile(r"\*\s*([A-Za-z]+)(.*)")


class _Batch(NamedTuple):
    """Lines of a section.

    head : rest of the line that begins the section; None if the batch continues it
    numbers : of the lines in the file; begin : the number of the first line of the section
    """

    path: Path
    section: str
    head: str | None
    lines: list[str]
    numbers: list[int]
    begin: int

    def complain(self, row: int | None, fault: str) -> NoReturn:
        """Raise `BadInputError` with a line, or the first line of the section."""
        number = self.begin if row is None else self.numbers[row]
        raise BadInputError(f"{self.path}: line {number}: {fault}")

    def where(self, row: int) -> str:
        return f"{self.path}: line {self.numbers[row]}"


def _batches(reader: TextReader) -> Iterator[_Batch]:
    """Yield lines with content, section by section."""
    section = ""
    while lines := reader.raw_lines(READ_BYTES):
        first = reader.line - len(lines) + 1
        kept = [(i, text) for i, line in enumerate(lines, first) if (text := line.strip())]
        kept = [one for one in kept if one[1][0] != "%"]
        heads = [at for at, (_, line) in enumerate(kept) if line[0] == "*"]
        for begin, end in pairwise([0, *heads, len(kept)]):
            if begin == end:
                continue
            number, text = kept[begin]
            head = None
            if text[0] == "*":
                found = _SECTION.match(text)
                section = text[1:] if found is None else found[1].lower()
                head, begin = "" if found is None else found[2].strip(), begin + 1
            numbers, texts = [i for i, _ in kept[begin:end]], [line for _, line in kept[begin:end]]
            yield _Batch(reader.path, section, head, texts, numbers, number)


def _has_arcs(job: ImportJob) -> bool:
    """Return whether any section of arcs has lines."""
    with TextReader(job.source) as reader:
        return any(batch.section in ARCS and batch.lines for batch in _batches(reader))


class _Pajek:
    """Passes the sections of a file to a writer."""

    def __init__(self, job: ImportJob, directed: bool) -> None:
        self._job, self._directed = job, directed
        self.nodes = Nodes(job.source, job.memory, by_label=True)
        self.neurons = 0
        self._labelled = self._matrix_row = 0
        self._magnitudes = Magnitudes(job.keeps_weights)

    def vertices(self, batch: _Batch) -> None:
        """Read the number of vertices, and their labels and positions."""
        if batch.head is not None:
            numbers = (batch.head or "").split()
            if self.neurons:
                batch.complain(None, "a second list of vertices; split the file")
            if not numbers or not numbers[0].isdecimal() or len(numbers[0]) > 12:
                batch.complain(None, f"{batch.head[:40]!r} is not the number of vertices")
            self.neurons = int(numbers[0])
            if not 0 < self.neurons <= MAX_VERTICES:
                batch.complain(
                    None, f"{self.neurons} vertices; a network needs 1 to {MAX_VERTICES}"
                )
        for row, line in enumerate(batch.lines):
            words = _words(line)
            if not words[0].isdecimal() or len(words[0]) > 12:
                batch.complain(row, f"{words[0][:40]!r} is not the number of a vertex")
            number = int(words[0])
            if not self._labelled < number <= self.neurons:
                batch.complain(
                    row,
                    f"vertex {number} after {self._labelled} of {self.neurons}; sort the vertices",
                )
            self._labelled = number
            data = {"label": words[1]} if len(words) > 1 else {}
            for name, word in zip(POSITION, words[2:5], strict=False):
                if number_of(word) != number_of(word):
                    break
                data[name] = word
            self.nodes.declare(words[0], data, partial(batch.where, row))

    def connect(self, batch: _Batch, writer: NetworkWriter) -> None:
        """Add the lines of a section to the network."""
        lines = [line.split() for line in batch.lines]
        if batch.section == "matrix":
            self._add_matrix(batch, lines, writer)
        elif batch.section in ("arcslist", "edgeslist"):
            sources = list(chain.from_iterable(repeat(each[0], len(each) - 1) for each in lines))
            targets = list(chain.from_iterable(each[1:] for each in lines))
            rows = list(
                chain.from_iterable(repeat(row, len(each) - 1) for row, each in enumerate(lines))
            )
            ends = self._ends(batch, sources, rows), self._ends(batch, targets, rows)
            self._add(batch.section, writer, *ends, np.ones(len(rows), np.int64))
        else:
            rows = list(range(len(lines)))
            short = next((row for row in rows if len(lines[row]) < 2), None)
            if short is not None:
                batch.complain(short, f"{batch.lines[short][:40]!r} is not `source target weight`")
            ends = (
                self._ends(batch, [each[0] for each in lines], rows),
                self._ends(batch, [each[1] for each in lines], rows),
            )
            self._add(batch.section, writer, *ends, self._weights(batch, lines))

    def _add(
        self, section: str, writer: NetworkWriter, source: NDArray[np.int64],
        target: NDArray[np.int64], weight: NDArray[np.int64] | NDArray[np.float64],
    ) -> None:  # fmt: skip
        weight = self._magnitudes.of(weight)
        writer.add(source, target, weight)
        if section in EDGES and self._directed:
            apart = source != target
            writer.add(target[apart], source[apart], weight[apart])

    def _ends(self, batch: _Batch, words: list[str], rows: list[int]) -> NDArray[np.int64]:
        """Return vertices from 0, shape (words,)."""
        try:
            found = np.array(list(map(int, words)), np.int64) - 1
        except (ValueError, OverflowError):
            found = np.array([int(w) - 1 if _is_vertex(w) else -1 for w in words], np.int64)
        wrong = np.flatnonzero((found < 0) | (found >= self.neurons))
        if wrong.size:
            at = int(wrong[0])
            batch.complain(
                rows[at], f"{words[at][:40]!r} is not a vertex; there are {self.neurons}"
            )
        return found

    def _weights(self, batch: _Batch, lines: list[list[str]]) -> NDArray[np.float64]:
        try:
            values = np.array([float(each[2]) if len(each) > 2 else 1.0 for each in lines])
        except ValueError:  # other words after the ends describe drawings
            values = np.array([_weight(each) for each in lines])
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            row = int(wrong[0])
            batch.complain(row, f"weight {lines[row][2][:24]!r} is not a finite number")
        return values

    def _add_matrix(self, batch: _Batch, lines: list[list[str]], writer: NetworkWriter) -> None:
        for row, words in enumerate(lines):
            values = np.array(list(map(number_of, words)))
            if values.size != self.neurons or self._matrix_row >= self.neurons:
                row_number = self._matrix_row + 1
                batch.complain(
                    row,
                    f"{values.size} numbers in row {row_number} for {self.neurons} vertices",
                )
            if not np.isfinite(values).all():
                batch.complain(row, "an entry of the matrix is not a finite number")
            target = np.flatnonzero(values)
            source = np.full(target.size, self._matrix_row)
            self._add("matrix", writer, source, target, values[target])
            self._matrix_row += 1

    def write(self, writer: NetworkWriter) -> NetworkMeta:
        """Set the names and attributes, and write the network."""
        if len(self.nodes) == self.neurons:
            names = self.nodes.names()
            whole = whole_numbers(names)
            if whole is None:
                writer.set_attribute(ID, np.arange(self.neurons), names)
            else:
                writer.set_attribute(ID, whole)
            for attribute in self.nodes.attributes():
                writer.set_attribute(*attribute)
        else:
            writer.set_attribute_parts(ID, self.neurons, lambda a, b: np.arange(a + 1, b + 1))
        facts = {"format": "pajek", "source": self._job.source.name, **self._magnitudes.facts}
        return writer.finish(facts)


def _is_vertex(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 12


def _weight(words: list[str]) -> float:
    """Return the weight of a line; 1 if it continues with a word, such as a colour."""
    if len(words) < 3:
        return 1.0
    value = number_of(words[2])
    return 1.0 if value != value and words[2][:1].isalpha() and words[2] != "nan" else value


def _words(line: str) -> list[str]:
    """Split the line of a vertex at blanks outside quotes."""
    if '"' not in line:
        return line.split()
    try:
        splitter = shlex.shlex(line, posix=True)
        splitter.whitespace_split, splitter.commenters, splitter.quotes = True, "", '"'
        splitter.escape = ""
        return list(splitter) or [""]
    except ValueError:
        return line.replace('"', "").split() or [""]


def load(job: ImportJob) -> NetworkMeta:
    """Convert a Pajek file to a network file; raise `BadInputError` with the first fault."""
    directed = _has_arcs(job)
    pajek = _Pajek(job, directed)
    writer: NetworkWriter | None = None
    try:
        with TextReader(job.source) as reader:
            for batch in _batches(reader):
                if batch.section == "vertices":
                    pajek.vertices(batch)
                elif batch.section in (*ARCS, *EDGES):
                    if writer is None:
                        writer = _open(job, pajek, directed)
                    pajek.connect(batch, writer)
                elif batch.section not in IGNORED:
                    batch.complain(None, f"section *{batch.section[:24]} is unknown; remove it")
                pajek.nodes.require_memory(reader.fraction)
                job.progress(reader.fraction)
        if not pajek.neurons:
            raise BadInputError(f"{job.source}: no section *Vertices; is this a Pajek network?")
        writer = _open(job, pajek, directed) if writer is None else writer
        return pajek.write(writer)
    finally:
        if writer is not None:
            writer.close()


def _open(job: ImportJob, pajek: _Pajek, directed: bool) -> NetworkWriter:
    if not pajek.neurons:
        raise BadInputError(f"{job.source}: *Vertices must be before arcs and edges")
    require_room(f"{job.source}: a list of vertices", 8 * pajek.neurons, job.memory)
    left = job.memory if not len(pajek.nodes) else pajek.nodes.left
    return job._replace(memory=left).writer(pajek.neurons, undirected=not directed)
