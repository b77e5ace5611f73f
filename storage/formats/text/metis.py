"""METIS graph files, as in the METIS 5.1 manual, section 4.5.

The first line is ``n m [fmt [ncon]]``; line i of the others lists vertex i: its communication
size (fmt 1xx), its `ncon` weights (fmt x1x), then its neighbours from 1, each followed by the
edge's weight (fmt xx1). An empty line is an isolated vertex.

The first vertex weight becomes the attribute `size`, further ones `weight2`, `weight3`, ..., and
the communication size becomes `rate`: the cost of a vertex for each part that it reaches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from numba import njit
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.mirror import Mirror, find_unmatched, load_mirrored
from storage.formats.text.reader import TextReader, read_counts
from storage.formats.text.tokens import Tokens
from storage.graph import MAX_VERTICES
from storage.store.meta import NetworkMeta
from storage.store.network import RATE, SIZE

_VERTEX, _POSITION, _NEIGHBOUR = range(3)  # indices into the kernel's state
_FINE, _RANGE, _PREFIX, _HALF, _MANY = range(5)


@njit(cache=True, nogil=True)
def _interpret(values, ends, notes, first_line, weighted, state, own, lines, edges):
    """Parse numbers as vertex lines.

    values : ndarray[int64], shape (numbers,)
    ends, notes : ends of lines as in `Tokens`
    state : ndarray[int64], shape (3,): current vertex, numbers of its line read so far, and a
        neighbour whose weight follows (0 if none)
    own : ndarray[int64], shape (n, numbers before the neighbours), output
    lines : ndarray[int64], shape (n,) or (0,), output: line of each vertex
    edges : ndarray[int64], shape (3, numbers), output: vertex, neighbour, weight
    Returns (edges, fault, index of the line, faulty number).
    """
    vertex, position, neighbour = state[0], state[1], state[2]
    n, prefix = own.shape
    found = 0
    token = 0
    for line in range(ends.size + 1):
        ended = line < ends.size
        stop = ends[line] if ended else values.size
        if token < stop and vertex >= n:
            return found, _MANY, line, 0
        while token < stop:
            value = values[token]
            if position < prefix:
                own[vertex, position] = value
            elif weighted and neighbour:
                edges[0, found] = vertex
                edges[1, found] = neighbour - 1
                edges[2, found] = value
                found += 1
                neighbour = 0
            else:
                if value < 1 or value > n:
                    return found, _RANGE, line, value
                if weighted:
                    neighbour = value
                else:
                    edges[0, found] = vertex
                    edges[1, found] = value - 1
                    edges[2, found] = 1
                    found += 1
            position += 1
            token += 1
        if ended and not notes[line] and vertex < n:
            if position < prefix:
                return found, _PREFIX, line, 0
            if neighbour:
                return found, _HALF, line, neighbour
            if lines.size:
                lines[vertex] = first_line + line
            vertex += 1
            position = 0
    state[0], state[1], state[2] = vertex, position, neighbour
    return found, _FINE, 0, 0


@dataclass(frozen=True, slots=True)
class Header:
    """The first line: vertices, edges, and the data listed with them."""

    vertices: int
    edges: int
    sized: bool
    constraints: int
    weighted: bool

    @property
    def prefix(self) -> int:
        """Return the count of numbers before the neighbours of a vertex."""
        return self.sized + self.constraints


def read_header(reader: TextReader) -> Header:
    """Parse the header; raise `BadInputError` with the line."""
    words, numbers = read_counts(reader, 4, "vertices edges [fmt [ncon]]")
    vertices, edges = numbers[:2]
    fmt = words[2] if len(words) > 2 else "0"
    if set(fmt) - {"0", "1"} or len(fmt) > 3:
        raise BadInputError(f"{reader.where()}: fmt is {fmt!r}; it must be three digits 0 or 1")
    sized, has_weights, weighted = (digit == "1" for digit in fmt.zfill(3))
    constraints = numbers[3] if len(words) > 3 else 1
    if vertices == 0:
        raise BadInputError(f"{reader.where()}: no neurons; a network needs at least one")
    if vertices > MAX_VERTICES:
        raise BadInputError(
            f"{reader.where()}: {vertices} vertices; at most {MAX_VERTICES} can be stored"
        )
    if not 1 <= constraints <= 64:
        raise BadInputError(f"{reader.where()}: ncon is {constraints}; it must be 1 to 64")
    return Header(vertices, edges, sized, constraints if has_weights else 0, weighted)


class Body:
    """The vertex lines of an open file.

    own : ndarray[int64], shape (vertices, header.prefix), complete after `edges`
    lines : ndarray[int64], shape (vertices,), line of each vertex, if requested
    """

    def __init__(self, reader: TextReader, header: Header, want_lines: bool = False) -> None:
        self.reader, self.header = reader, header
        self.own = np.zeros((header.vertices, header.prefix), np.int64)
        self.lines = np.zeros(header.vertices if want_lines else 0, np.int64)

    def edges(self) -> Iterator[NDArray[np.int64]]:
        """Yield all entries as arrays of shape (3, entries): vertex, neighbour, weight."""
        weighted = self.header.weighted
        state = np.zeros(3, np.int64)
        for tokens in self.reader.chunks():
            _check_whole(self.reader, tokens)
            values = tokens.mantissa
            edges = np.empty((3, values.size), np.int64)
            found, fault, line, value = _interpret(
                values, tokens.ends, tokens.notes, tokens.first_line, weighted, state,
                self.own, self.lines, edges,
            )  # fmt: skip
            if fault != _FINE:
                self._complain(fault, tokens.first_line + line, value)
            yield edges[:, :found]
        self._check_count(int(state[_VERTEX]))

    def _check_count(self, seen: int) -> None:
        n = self.header.vertices
        if seen == n - 1 and not self.header.prefix:
            return  # the last vertex is isolated and its empty line is missing
        if seen < n:
            raise BadInputError(
                f"{self.reader.where()}: the file ends after {seen} vertices, its header declares "
                f"{n}; is the file complete?"
            )

    def _complain(self, fault: int, line: int, value: int) -> NoReturn:
        n = self.header.vertices
        text = {
            _RANGE: f"neighbour {value} is outside 1..{n}; repair the line, or fmt in the header",
            _PREFIX: "the weights of the vertex are missing; repair the line, or fmt in the header",
            _HALF: f"neighbour {value} has no weight; repair the line, or fmt in the header",
            _MANY: f"more lines than the {n} vertices in the header; correct the header",
        }[fault]
        raise BadInputError(f"{self.reader.where(line)}: {text}")


def _check_whole(reader: TextReader, tokens: Tokens) -> None:
    """Raise `BadInputError` unless all numbers are non-negative integers."""
    if tokens.exponent.any():
        token = int(np.flatnonzero(tokens.exponent)[0])
        value = float(tokens.mantissa[token]) * 10.0 ** min(int(tokens.exponent[token]), 300)
        raise BadInputError(
            f"{reader.where(tokens.line_of(token))}: {value:g} is not a whole number below 2^63, "
            "as METIS files require; scale the weights"
        )
    if tokens.mantissa.size and tokens.mantissa.min() < 0:
        token = int(np.flatnonzero(tokens.mantissa < 0)[0])
        raise BadInputError(
            f"{reader.where(tokens.line_of(token))}: {tokens.mantissa[token]} is negative; "
            "use its magnitude"
        )


def attribute_names(header: Header) -> list[str]:
    """Return the attributes for the numbers before the neighbours, in their order."""
    weights = [SIZE, *(f"weight{k}" for k in range(2, header.constraints + 1))]
    return [RATE] * header.sized + weights[: header.constraints]


class MetisFile:
    """A file that is read from its start for each pass over its edges."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with TextReader(path) as reader:
            header = read_header(reader)
            self._body = Body(reader, header)
        self.vertices = header.vertices
        fmt = f"{header.sized:d}{bool(header.constraints):d}{header.weighted:d}"
        self.provenance = {"format": "metis", "source": path.name, "fmt": fmt}

    @property
    def fraction(self) -> float:
        return self._body.reader.fraction

    def edges(self, want_lines: bool = False) -> Iterator[NDArray[np.int64]]:
        with TextReader(self.path) as reader:
            self._body = Body(reader, read_header(reader), want_lines)
            yield from self._body.edges()

    def attributes(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        for column, name in enumerate(attribute_names(self._body.header)):
            yield name, self._body.own[:, column]

    def check(self, mirror: Mirror) -> None:
        """Compare edge counts of header and body; a self-loop may count once, half or not."""
        entries, loops, said = mirror.entries, mirror.loops, self._body.header.edges
        if 2 * said not in (entries, entries + loops, entries - loops):
            raise BadInputError(
                f"{self.path}: line 1: the header declares {said} edges, but the lines list "
                f"{entries / 2:g}; correct the header, or download the file again"
            )

    def refuse_unmatched(self, folder: Path, memory: int) -> None:
        found = find_unmatched(self.vertices, self.edges(want_lines=True), folder, memory)
        if found is None:
            return  # one end splits the weight over repeated entries
        u, v, there, back = found
        if there is None:
            u, v = v, u
        fault = f"edge {u + 1} {v + 1} weighs {there} here and {back} at its other end"
        if there is None or back is None:
            fault = f"vertex {u + 1} lists {v + 1}, but {v + 1} does not list {u + 1}"
        where = self._body.reader.where(int(self._body.lines[u]))
        raise BadInputError(f"{where}: {fault}; list each edge at both ends with one weight")


def load(job: ImportJob) -> NetworkMeta:
    """Convert a METIS file to an undirected network file.

    Raises `BadInputError` with the line of the first fault. Self-loops are dropped and counted.
    """
    return load_mirrored(job, MetisFile(job.source))
