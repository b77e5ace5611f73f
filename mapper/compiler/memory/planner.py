"""Where stored maps lie in the feature memory of a core."""

from __future__ import annotations

from typing import Any, NamedTuple

from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.tensor import Tensor
from mapper.errors import DoesNotFitError

VECTORS_OF_ENTRY = 4
"""Of an accumulator, in memory."""
VECTORS = {"int16": 2, "int32": VECTORS_OF_ENTRY}
"""Of a block of a pixel."""


class Region(NamedTuple):
    """A map in memory.

    born, dies : numbers of the macro nodes that write it and read it last
    pixel, row : vectors from a pixel to the next, and from a row to the next
    high : vectors from the low bytes of 16 bits to the high ones, which are of the same pixel
    """

    tensor: Tensor
    first: int
    vectors: int
    born: int
    dies: int
    pixel: int
    row: int
    high: int = 0

    def vector(self, row: Any, column: Any, block: Any) -> Any:
        """Where a block of a pixel lies; numbers or arrays."""
        return self.first + row * self.row + column * self.pixel + block


def blocks_of(channels: int, columns: int) -> int:
    """Vectors of a pixel."""
    return -(-channels // columns)


def blocks_of_vector(rows: int, columns: int) -> int:
    """Output blocks whose bits fill a vector of bits."""
    return 8 * columns // rows


def pixel_vectors(tensor: Tensor, columns: int) -> int:
    """Vectors of a pixel of a map: of bytes, of bits, of 16 bits, or of whole sums (int32)."""
    if tensor.type == "bits":
        return blocks_of(tensor.channels, 8 * columns)
    return blocks_of(tensor.channels, columns) * VECTORS.get(tensor.type, 1)


def plan_memory(
    macros: list[Macro], inputs: list[Tensor], outputs: list[Tensor], columns: int, capacity: int,
    reuse: bool = True,
) -> dict[Tensor, Region]:  # fmt: skip
    """Addresses of all stored maps; maps whose lives do not meet may share vectors.

    Best fit in order of falling size. Inputs live from the start, outputs until the end of a frame.
    Raises `DoesNotFitError` that names the largest sum of maps that are alive at once.
    """
    born = dict.fromkeys(inputs, -1)
    dies = dict(born)
    for at, macro in enumerate(macros):
        for tensor in macro.inputs:
            dies[tensor] = at
        born |= dict.fromkeys(macro.outputs, at)
        dies |= dict.fromkeys(macro.outputs, at)
    for tensor in outputs:
        dies[tensor] = len(macros)
    sizes = {t: t.height * t.width * pixel_vectors(t, columns) for t in born}
    placed: list[Region] = []
    for tensor in sorted(born, key=lambda one: (-sizes[one], born[one])):
        lives = (born[tensor], dies[tensor])
        busy = sorted(
            (one.first, one.first + one.vectors)
            for one in placed
            if not reuse or (one.born <= lives[1] and lives[0] <= one.dies)
        )
        gaps, end = [], 0
        for first, behind in busy:
            if first - end >= sizes[tensor]:
                gaps.append((first - end, end))
            end = max(end, behind)
        first = min(gaps)[1] if gaps else end
        pixel = pixel_vectors(tensor, columns)
        placed.append(
            Region(
                tensor,
                first,
                sizes[tensor],
                *lives,
                pixel=pixel,
                row=tensor.width * pixel,
                high=pixel // 2 if tensor.type == "int16" else 0,
            )
        )
    used = max((one.first + one.vectors for one in placed), default=0)
    if used > capacity:
        most = max(
            range(-1, len(macros) + 1),
            key=lambda at: sum(one.vectors for one in placed if one.born <= at <= one.dies),
        )
        names = [one.tensor.name for one in placed if one.born <= most <= one.dies]
        raise DoesNotFitError(
            f"feature memory: {used:,} vectors needed, a core has {capacity:,} "
            f"({used - capacity:,} short); most at {', '.join(names[:4])}; take a core with more, "
            "or more cores"
        )
    for one in placed:
        one.tensor.address = one.first
    return {one.tensor: one for one in placed}
