"""Vectors that the host sends to cores and receives from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.codegen.code import Lying
from mapper.compiler.memory.layouts import WORD_VECTORS, plane_words
from mapper.compiler.memory.planner import pixel_vectors
from mapper.compiler.multicore.areas import Homes, Kept
from mapper.compiler.multicore.job import Whole
from mapper.compiler.numerics.windows import GROUP


def runs_of(whole: Whole, homes: Homes, kept: Kept, base: int) -> Iterator[tuple[int, int, int]]:
    """Yield the vectors of a region that the host sends, row by row; planes word by word.

    base : first vector of the region
    """
    for tensor in whole.written:
        if homes.of(tensor).owner is not kept.owner:
            continue
        held = homes.held(tensor, kept.box)
        if held is None:
            continue
        if kept.owner.planes:
            for at, count, row in planes_of(kept, homes.lanes):
                yield base + at, count, held.rows.first + row
            continue
        region = homes.region(kept, homes.part(tensor, held), base)
        part = region.tensor
        each = pixel_vectors(part, homes.lanes)
        for row in range(part.height):
            number = held.rows.first + row
            if each == region.pixel:
                yield int(region.vector(row, 0, 0)), part.width * each, number
            else:
                for column in range(part.width):
                    yield int(region.vector(row, column, 0)), each, number


def planes_of(kept: Kept, lanes: int) -> Iterator[tuple[int, int, int]]:
    """Yield the vectors of existing channels of planes, word by word: first vector, number, and
    row."""
    owner, bank = kept.owner, 2 * lanes
    words = plane_words(1, kept.box.rows.size * owner.width, bank)
    for word in range(words):
        for first in range(0, owner.channels, GROUP):
            at = WORD_VECTORS * (first // GROUP * words + word)
            count = WORD_VECTORS // GROUP * min(GROUP, owner.channels - first)
            yield at, count, word * bank // owner.width


def result_functions(results: Sequence[Lying], whole: Whole, columns: int) -> NDArray[np.int64]:
    """Return the function after which the host needs each of its vectors, shape (vectors,).

    Vectors that it receives without reading them count for the last function.
    """
    cells = [(one.cells(columns), whole.read.get(one.tensor)) for one in results]
    stop = 1 + max((int(some.max()) for some, _ in cells), default=-1)
    found = np.full(stop, max(whole.functions, default=0), np.int64)
    for some, number in cells:
        if number is not None:
            found[some] = np.minimum(found[some], number)
    return found
