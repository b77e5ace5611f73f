"""A layer as nested loops, its tiles, and the traffic between external memory and a core.

Loops over columns, rows and blocks of channels are cut into tiles; kernels are not. The outer loops
iterate over the tiles in some order. The contents of a buffer depend on some of these loops and are
replaced at each step of the innermost of them that has more than one iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape

LOOPS = ("batch", "ow", "oh", "ic", "oc")
"""Tiled loops: frames, columns and rows of the result, blocks of input and output channels."""
BATCH, OW, OH, IC, OC = range(5)
DEPENDS: dict[str, tuple[int, ...]] = {
    "input": (BATCH, OW, OH, IC),
    "weights": (IC, OC),
    "output": (BATCH, OW, OH, OC),
    "bias": (OC,),
}
"""Loops that the contents of a buffer depend on."""
HELD: dict[str, tuple[int, ...]] = DEPENDS | {"input": (BATCH, OW, OH)}
"""The same if the input buffer holds all input blocks."""
ORDERS: tuple[tuple[int, ...], ...] = tuple(permutations(range(len(LOOPS))))
"""All loop orders, outermost first."""


class LoopNest(NamedTuple):
    """A convolution as loops.

    counts : iterations of `LOOPS`; channels in blocks of the array's columns and rows
    kernel, stride : rows and columns; reach : kernel with dilation
    input_bits, output_bits, partial_bits : bits per entry, a block of a pixel or of a pixel pair
    weight_bits : bits per weight word; weight_words : bytes per weight, i.e. words in the memory
    bias_bits : bits per output block
    results : sequential ALU results per entry
    """

    counts: tuple[int, int, int, int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    reach: tuple[int, int]
    input_bits: int
    output_bits: int
    partial_bits: int
    weight_bits: int
    weight_words: int
    bias_bits: int
    results: int


class Convolution(NamedTuple):
    """Dimensions of a convolution.

    width, height : size of the result; inputs, outputs : channels; kernel, stride : rows, columns
    """

    width: int
    height: int
    inputs: int
    outputs: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    batch: int = 1


def layer_of(form: Convolution, shape: NpuShape, numbers: str = "int8") -> LoopNest:
    """Return the loops of a convolution.

    numbers : "int8"; "pairs" for bytes of the upper and lower half of the map that share a
        multiplier; or "int16"
    """
    rows, columns = shape.rows, shape.columns
    height = -(-form.height // 2) if numbers == "pairs" else form.height
    lane = 8 if numbers == "int8" else 16
    weight = 2 if numbers == "int16" else 1
    reach = tuple((k - 1) * d + 1 for k, d in zip(form.kernel, form.dilation, strict=True))
    return LoopNest(
        (form.batch, form.width, height, -(-form.inputs // columns), -(-form.outputs // rows)),
        form.kernel,
        form.stride,
        (reach[0], reach[1]),
        lane * columns,
        lane * rows,
        (32 if numbers == "int8" else 64) * rows,
        8 * weight * rows * columns,
        weight,
        32 * rows,
        2 if numbers == "pairs" else 1,
    )


class Tiling(NamedTuple):
    """Tile sizes, one per loop of `LOOPS`, and the order of the outer loops.

    held : the input buffer holds all input blocks of a tile's pixels, the weight buffer only those
        of the tile: the input is kept while the loop over input blocks advances
    """

    sizes: tuple[int, ...]
    order: tuple[int, ...]
    held: bool = False

    @property
    def depends(self) -> dict[str, tuple[int, ...]]:
        """Loops that the contents of each buffer depend on."""
        return HELD if self.held else DEPENDS

    def counts(self, layer: LoopNest) -> tuple[int, ...]:
        """Return the iterations of the outer loops in the order of `LOOPS`."""
        return tuple(-(-n // size) for n, size in zip(layer.counts, self.sizes, strict=True))

    def outer(self, layer: LoopNest) -> list[tuple[str, int]]:
        """Return the outer loops with more than one iteration, outermost first."""
        counts = self.counts(layer)
        return [(LOOPS[loop], counts[loop]) for loop in self.order if counts[loop] > 1]


Sizes = Sequence[Any] | NDArray[Any]
"""Tile sizes by loop: numbers or arrays."""


class Contents(NamedTuple):
    """Buffer contents of a tile: entries of input and output, weight words, bias blocks."""

    input: NDArray[np.int64]
    weights: NDArray[np.int64]
    output: NDArray[np.int64]
    bias: NDArray[np.int64]


def contents_of(layer: LoopNest, sizes: Sizes, held: bool | NDArray[np.bool_] = False) -> Contents:
    """Return the buffer contents of tiles, halo included; sizes may be arrays.

    held : the input buffer holds all input blocks
    """
    batch, ow, oh, ic, oc = (np.asarray(size) for size in sizes)
    high = (oh - 1) * layer.stride[0] + layer.reach[0]
    wide = (ow - 1) * layer.stride[1] + layer.reach[1]
    kernel = layer.kernel[0] * layer.kernel[1]
    return Contents(
        batch * high * wide * np.where(held, layer.counts[IC], ic),
        ic * oc * kernel * layer.weight_words,
        batch * ow * oh * oc,
        oc,
    )


def fits(layer: LoopNest, sizes: Sizes, shape: NpuShape, held: bool = False) -> NDArray[np.bool_]:
    """Return whether tiles fit in half of each buffer (double buffering). An input that is held for
    the whole result may use its whole buffer."""
    found = contents_of(layer, sizes, held)
    once = held & np.all([np.equal(sizes[loop], layer.counts[loop]) for loop in (BATCH, OW, OH)], 0)
    words = -(-shape.rows // 16)  # parameter words per block
    return np.asarray(
        (found.input <= shape.input_vectors // np.where(once, 1, 2))
        & (found.weights <= shape.weight_words // 2)
        & (found.output <= shape.entries // 2)
        & (found.bias * words <= shape.parameter_words // 2)
    )


def replacements(tiling: Tiling, layer: LoopNest, buffer: str) -> int:
    """Return how often a buffer is loaded (for the output: stored) in the whole layer."""
    counts = tiling.counts(layer)
    moved, at = 1, 1
    for loop in tiling.order:
        at *= counts[loop]
        if loop in tiling.depends[buffer] and counts[loop] > 1:
            moved = at
    return moved


def partial_sums(tiling: Tiling, layer: LoopNest) -> bool:
    """Return whether partial sums are stored and reloaded: a loop that changes the output is inside
    the loop over input channels."""
    counts = tiling.counts(layer)
    inside = tiling.order[tiling.order.index(IC) + 1 :]
    return counts[IC] > 1 and any(counts[loop] > 1 for loop in inside if loop in DEPENDS["output"])
