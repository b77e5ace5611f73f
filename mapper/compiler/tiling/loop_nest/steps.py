"""Cycles of a layer, tile by tile, with the true sizes of the last tiles of each loop.

While a tile is computed, the next one is loaded, and the results of the previous one are processed
by the ALU and stored. Time beyond the computation is a stall; the first load and the last store are
not overlapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.tiling.loop_nest.traffic import (
    IC,
    LoopNest,
    Sizes,
    Tiling,
    contents_of,
)


def nest_cycles(counts: Sequence[Any], overhead: int) -> Any:
    """Return the cycles of nested loops, innermost first: an(...(a1(a0 + b) + b)...)."""
    total: Any = counts[0]
    for count in counts[1:]:
        total = count * (total + overhead)
    return total


def matrix_cycles(layer: LoopNest, sizes: Sizes, shape: NpuShape) -> NDArray[np.int64]:
    """Return the matrix unit cycles of tiles; sizes may be arrays.

    Rows and columns are innermost, as the weights are constant there; each pair of loops has the
    larger count inside. With a weight port of one row per cycle, the next weight word takes as many
    cycles as the array has rows: planes with fewer pixels wait for it.
    """
    batch, ow, oh, ic, oc = (np.asarray(size) for size in sizes)
    wide, narrow = np.maximum(ow, oh), np.minimum(ow, oh)
    plane = nest_cycles((wide, narrow), shape.loop_overhead)
    if shape.weight_port == "row":
        plane = plane + np.maximum(0, shape.rows - ow * oh)
    kernel = (np.full_like(ic, count) for count in layer.kernel)
    others = np.sort(np.broadcast_arrays(ic, oc, *kernel), axis=0)[::-1]
    return np.asarray(batch * nest_cycles((plane, *others), shape.loop_overhead))


def requantise_cycles(layer: LoopNest, shape: NpuShape) -> int:
    """Return the ALU cycles per entry of results."""
    return layer.results * -(-shape.rows // shape.multiply_lanes)


class Steps(NamedTuple):
    """The steps of a layer, shape (steps,).

    sizes : tile sizes, shape (loops, steps)
    compute : cycles of the matrix unit; alu : cycles of the ALU after a step
    input, weights, partial : bits loaded before a step; weights include the bias; partial sums
    store : bits stored after a step
    fresh, whole : the step starts with other sums than the previous one; it finishes its sums
    """

    sizes: NDArray[np.int64]
    compute: NDArray[np.int64]
    alu: NDArray[np.int64]
    input: NDArray[np.int64]
    weights: NDArray[np.int64]
    partial: NDArray[np.int64]
    store: NDArray[np.int64]
    fresh: NDArray[np.bool_]
    whole: NDArray[np.bool_]

    @property
    def load(self) -> NDArray[np.int64]:
        """Bits loaded before a step."""
        return self.input + self.weights + self.partial


class LayerCost(NamedTuple):
    """Cost of a layer: total cycles, compute cycles, and bits moved."""

    cycles: int
    compute: int
    bits: int

    @property
    def stalls(self) -> int:
        return self.cycles - self.compute


def steps_of(layer: LoopNest, tiling: Tiling, shape: NpuShape) -> Steps:
    """Return all steps in order."""
    counts = tiling.counts(layer)
    grid = np.indices([counts[loop] for loop in tiling.order]).reshape(len(counts), -1)
    index = np.empty_like(grid)
    index[list(tiling.order)] = grid
    count = np.array(layer.counts)[:, None]
    size = np.array(tiling.sizes)[:, None]
    sizes = np.minimum(size, count - index * size)
    held = contents_of(layer, sizes, tiling.held)
    moved = np.ones_like(index, dtype=bool)
    moved[:, 1:] = index[:, 1:] != index[:, :-1]
    changes = {
        name: np.asarray(moved[list(loops)].any(0)) for name, loops in tiling.depends.items()
    }
    words = held.weights // layer.weight_words * layer.weight_bits
    again = changes["output"] & (index[IC] > 0)
    leaves = np.append(changes["output"][1:], True)
    whole = index[IC] == counts[IC] - 1
    entry = np.where(whole, layer.output_bits, layer.partial_bits)
    return Steps(
        sizes,
        matrix_cycles(layer, sizes, shape),
        (leaves & whole) * held.output * requantise_cycles(layer, shape),
        changes["input"] * held.input * layer.input_bits,
        changes["weights"] * words + changes["bias"] * held.bias * layer.bias_bits,
        again * held.output * layer.partial_bits,
        leaves * held.output * entry,
        changes["output"],
        whole,
    )


def cost_of(steps: Steps, shape: NpuShape) -> LayerCost:
    """Return the cost on a core whose loads and stores share the path to external memory."""
    bits = shape.load_bits
    coming = np.append(steps.load[1:], 0)
    leaving = np.append(0, steps.store[:-1])
    others = np.maximum(-(-(coming + leaving) // bits), np.append(0, steps.alu[:-1]))
    cycles = int(np.maximum(steps.compute, others).sum() + steps.alu[-1])
    cycles += -(-int(steps.load[0]) // bits) + -(-int(steps.store[-1]) // bits)
    return LayerCost(cycles, int(steps.compute.sum()), int(steps.load.sum() + steps.store.sum()))


def overlaps(first: Steps, second: Steps, shape: NpuShape) -> int:
    """Return the cycles saved by prefetching a layer's first weights during the previous layer:
    nothing else is loaded while its last tile is computed and processed. The input of a layer must
    wait for the results."""
    bits = shape.load_bits
    leaving = int(first.store[-2]) if first.store.size > 1 else 0
    idle = max(0, int(first.compute[-1]) - -(-leaving // bits)) + int(first.alu[-1])
    come = -(-int(second.load[0]) // bits) - -(-int(second.input[0]) // bits)
    return min(idle, come)


def network_cost(steps: Sequence[Steps], shape: NpuShape) -> LayerCost:
    """Return the cost of consecutive layers, each with its first weights prefetched."""
    costs = [cost_of(one, shape) for one in steps]
    saved = sum(overlaps(*pair, shape) for pair in pairwise(steps))
    cycles, compute, moved = (sum(one[at] for one in costs) for at in range(3))
    return LayerCost(cycles - saved, compute, moved)
