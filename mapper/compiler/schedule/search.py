"""The best tiling of a layer: all orders of the outer loops with all sizes of tiles.

A model of a few terms ranks them all: the steps fall into classes by the outermost loop that moves
on behind them. The best of them are then computed step by step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.schedule.steps import Cost, cost_of, matrix_cycles, steps_of
from mapper.compiler.schedule.traffic import (
    DEPENDS,
    IC,
    LOOPS,
    ORDERS,
    Layer,
    Tiling,
    contents_of,
    fits,
)
from mapper.errors import DoesNotFitError
from storage.parallel import map_ordered

BEST = 64  # tilings that are computed step by step


class Found(NamedTuple):
    """A tiling, its cost step by step, and the cycles that the model gave for it."""

    tiling: Tiling
    cost: Cost
    modelled: float


def search(layer: Layer, shape: NpuShape, fixed: Mapping[int, int] | None = None) -> Found:
    """The tiling of fewest cycles; among equals that of fewest bits, then the first.

    fixed : sizes that are given, by loop
    Raises `DoesNotFitError` if no tile fits half of the buffers.
    """
    sizes = _candidates(layer, shape, fixed or {})
    cycles, bits = modelled(layer, sizes, shape)
    ranked = np.lexsort((bits.ravel(), cycles.ravel()))[:BEST]
    found = []
    for place in ranked.tolist():
        order, at = divmod(place, sizes.shape[1])
        if not np.isfinite(cycles[order, at]):
            break
        tiling = Tiling(tuple(sizes[:, at].tolist()), ORDERS[order])
        cost = cost_of(steps_of(layer, tiling, shape), shape)
        found.append(Found(tiling, cost, float(cycles[order, at])))
    return min(found, key=lambda one: (one.cost.cycles, one.cost.bits))


def search_all(
    layers: Sequence[Layer], shape: NpuShape, threads: int = 1,
    first: Mapping[int, int] | None = None,
) -> list[Found]:  # fmt: skip
    """The best tilings of the layers of a network; first : sizes given for the first of them."""
    asked = [
        (layer, tuple((first or {}).items()) if not n else ()) for n, layer in enumerate(layers)
    ]
    distinct = list(dict.fromkeys(asked))
    found = map_ordered(lambda one: search(one[0], shape, dict(one[1])), distinct, threads)
    made = dict(zip(distinct, found, strict=True))
    return [made[one] for one in asked]


def distinct_sizes(count: int) -> list[int]:
    """The sizes that cut a loop evenly into 1, 2, 3 .. parts, the largest first."""
    return list(dict.fromkeys(-(-count // parts) for parts in range(1, count + 1)))


def _candidates(layer: Layer, shape: NpuShape, fixed: Mapping[int, int]) -> NDArray[np.int64]:
    """Sizes of tiles that fit, shape (loops, tiles)."""
    choices = [
        [min(fixed[loop], count)] if loop in fixed else distinct_sizes(count)
        for loop, count in enumerate(layer.counts)
    ]
    sizes = np.array(np.meshgrid(*choices, indexing="ij"), np.int64).reshape(len(choices), -1)
    sizes = sizes[:, np.flatnonzero(fits(layer, sizes, shape))]
    if not sizes.shape[1]:
        raise DoesNotFitError(
            f"a kernel of {layer.kernel[0]}x{layer.kernel[1]}: no tile fits half of the buffers "
            f"({shape.input_vectors // 2} input vectors, {shape.weight_words // 2} weight words, "
            f"{shape.entries // 2} accumulators); take a core with more"
        )
    return sizes


@cache
def _firsts() -> NDArray[np.bool_]:
    """Whether an order is the first of those that differ in loops of one iteration alone, by order
    and by mask of the loops with more; shape (orders, masks)."""
    masks = 1 << len(LOOPS)
    found = np.zeros((len(ORDERS), masks), bool)
    for mask in range(masks):
        seen = set()
        for number, order in enumerate(ORDERS):
            kept = tuple(loop for loop in order if mask >> loop & 1)
            found[number, mask] = kept not in seen
            seen.add(kept)
    return found


def modelled(
    layer: Layer, sizes: NDArray[np.int64], shape: NpuShape
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cycles and bits of all orders with some sizes, shape (orders, tiles).

    Infinite where an order equals an earlier one.
    """
    counts = -(-np.array(layer.counts)[:, None] // sizes)
    mask = ((counts > 1) << np.arange(len(LOOPS))[:, None]).sum(0)
    firsts = _firsts()[:, mask]
    terms = _Terms(layer, sizes, counts, shape)
    cycles = np.full(firsts.shape, np.inf)
    bits = np.full(firsts.shape, np.inf)
    for number, order in enumerate(ORDERS):
        kept = np.flatnonzero(firsts[number])
        if kept.size:
            cycles[number, kept], bits[number, kept] = terms.of(order, kept)
    return cycles, bits


class _Terms:
    """Means over the tiles of each candidate: of the matrix cycles and of the buffers' bits."""

    def __init__(
        self, layer: Layer, sizes: NDArray[np.int64], counts: NDArray[np.int64], shape: NpuShape
    ) -> None:
        self.counts, self.shape = counts, shape
        whole = np.array(layer.counts)[:, None]
        ends = whole - (counts - 1) * sizes  # of the last tile of each loop
        mean = np.zeros(sizes.shape[1])
        held = dict.fromkeys(("input", "weights", "output", "bias"), mean)
        for corner in range(1 << len(LOOPS)):  # each loop with its full or its last size
            last = corner >> np.arange(len(LOOPS))[:, None] & 1
            share = np.where(last, 1 / counts, 1 - 1 / counts).prod(0)
            if not share.any():
                continue
            here = np.where(last, ends, sizes)
            mean = mean + share * matrix_cycles(layer, here, shape)
            found = contents_of(layer, here)._asdict()
            held = {name: held[name] + share * found[name] for name in held}
        self.compute = mean
        self.bits = {
            "input": held["input"] * layer.input_bits,
            "weights": held["weights"] / layer.weight_words * layer.weight_bits,
            "bias": held["bias"] * layer.bias_bits,
        }
        self.output = held["output"] * layer.output_bits
        self.partial = held["output"] * layer.partial_bits

    def of(
        self, order: tuple[int, ...], kept: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Cycles and bits of an order, for some candidates."""
        counts = self.counts[list(order)][:, kept]
        compute, width = self.compute[kept], self.shape.load_bits
        more = counts > 1
        before = np.cumprod(counts, 0) // counts  # iterations of the loops outside
        moves = (counts - 1) * before  # steps behind which a loop is the outermost to move on
        # a buffer changes if a loop that it depends on is the one that moves, or lies inside
        changes = {
            name: np.logical_or.accumulate(
                (more & np.isin(order, loops)[:, None])[::-1], 0
            )[::-1]
            for name, loops in DEPENDS.items()
        }  # fmt: skip
        inside = order.index(IC)
        sums = np.zeros(kept.size)
        if inside + 1 < len(order):
            outputs = changes["output"][inside + 1]
            sums = np.where(outputs, 1 - 1 / counts[inside], 0)  # share of unfinished sums
        stored = self.output[kept] * (1 - sums) + self.partial[kept] * sums
        load = np.where(changes["output"], self.partial[kept] * sums, 0)
        for name, bits in self.bits.items():
            load = load + np.where(changes[name], bits[kept], 0)
        store = np.where(changes["output"], stored, 0)
        first = sum(bits[kept] for bits in self.bits.values())
        last = self.output[kept]
        total = first + last + (moves * (load + store)).sum(0)
        # the innermost loop that moves: its steps lie between two of its own, or at an end
        inner = np.where(more.any(0), len(order) - 1 - np.argmax(more[::-1], 0), 0)
        here = np.arange(kept.size)
        load_in, store_in = load[inner, here], store[inner, here]
        count = counts[inner, here]
        outer = np.where(np.arange(len(order))[:, None] < inner, moves, 0)
        cycles = (outer * np.maximum(compute, (load + store_in) / width)).sum(0)
        cycles += (outer * np.maximum(compute, (load_in + store) / width)).sum(0)
        cycles += before[inner, here] * np.maximum(count - 2, 0) * np.maximum(
            compute, (load_in + store_in) / width
        )  # fmt: skip
        ends = np.maximum(compute, load_in / width) + np.maximum(compute, store_in / width)
        cycles += np.where(count > 1, ends, compute)
        return cycles + (first + last) / width, total
