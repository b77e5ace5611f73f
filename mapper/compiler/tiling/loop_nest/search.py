"""Exhaustive tiling search of a layer: all orders of the outer loops with all tile sizes.

All candidates are ranked by a closed-form model: steps are grouped into classes by the outermost
loop that advances after them. The best candidates are then evaluated step by step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.tiling.loop_nest.steps import (
    LayerCost,
    cost_of,
    matrix_cycles,
    requantise_cycles,
    steps_of,
)
from mapper.compiler.tiling.loop_nest.traffic import (
    BATCH,
    DEPENDS,
    HELD,
    IC,
    LOOPS,
    OC,
    OH,
    ORDERS,
    OW,
    LoopNest,
    Tiling,
    contents_of,
    fits,
)
from mapper.compiler.tiling.tiles import parts_in
from mapper.errors import DoesNotFitError
from storage.parallel import map_ordered

BEST = 64  # tilings that are evaluated step by step
SOME = 64  # minimum number of tile sizes that are ranked
WIDE = 1.15  # tile sizes within this factor of the lower bound are always ranked
RANKED_SHARE = 0.97  # tile sizes are ranked if their lower bound times this is among the best


class Found(NamedTuple):
    """A tiling, its exact cost, and the cycles predicted by the model."""

    tiling: Tiling
    cost: LayerCost
    modelled: float


def search(layer: LoopNest, shape: NpuShape, fixed: Mapping[int, int] | None = None) -> Found:
    """Return the tiling with the fewest cycles; break ties by bits moved, then by order.

    fixed : fixed sizes, by loop
    Raises `DoesNotFitError` if no tile fits in half of the buffers.
    """
    sizes, held = _candidates(layer, shape, fixed or {})
    least = _least_cycles(layer, sizes, held, shape)
    kept = least <= max(np.sort(least)[:SOME][-1], WIDE * least.min())
    cycles, bits = modelled(layer, sizes[:, kept], held[kept], shape)
    others = least * RANKED_SHARE <= np.sort(cycles, axis=None)[:BEST][-1]
    if (others & ~kept).any():
        kept |= others
        cycles, bits = modelled(layer, sizes[:, kept], held[kept], shape)
    sizes, held, found = sizes[:, kept], held[kept], []
    for place in np.lexsort((bits.ravel(), cycles.ravel()))[:BEST].tolist():
        order, at = divmod(place, sizes.shape[1])
        if not np.isfinite(cycles[order, at]):
            break
        tiling = Tiling(tuple(sizes[:, at].tolist()), ORDERS[order], bool(held[at]))
        cost = cost_of(steps_of(layer, tiling, shape), shape)
        found.append(Found(tiling, cost, float(cycles[order, at])))
    return min(found, key=lambda one: (one.cost.cycles, one.cost.bits))


def search_all(
    layers: Sequence[LoopNest], shape: NpuShape, threads: int = 1,
    first: Mapping[int, int] | None = None,
) -> list[Found]:  # fmt: skip
    """Return the best tilings of a network's layers; first : fixed sizes of the first layer"""
    asked = [
        (layer, tuple((first or {}).items()) if not n else ()) for n, layer in enumerate(layers)
    ]
    distinct = list(dict.fromkeys(asked))
    found = map_ordered(lambda one: search(one[0], shape, dict(one[1])), distinct, threads)
    made = dict(zip(distinct, found, strict=True))
    return [made[one] for one in asked]


def _candidates(
    layer: LoopNest, shape: NpuShape, fixed: Mapping[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the tile sizes that fit, shape (loops, tiles), and whether the input is held, shape
    (tiles,). Tiles with all input channels are never marked as held: it makes no difference.
    """
    choices = [
        [min(fixed[loop], count)] if loop in fixed else parts_in(count)
        for loop, count in enumerate(layer.counts)
    ]
    sizes = np.array(np.meshgrid(*choices, indexing="ij"), np.int64).reshape(len(choices), -1)
    plain = sizes[:, fits(layer, sizes, shape)]
    if not plain.shape[1]:
        raise DoesNotFitError(
            f"kernel of {layer.kernel[0]}x{layer.kernel[1]}: no tile fits in half of the buffers "
            f"({shape.input_vectors // 2} input vectors, {shape.weight_words // 2} weight words, "
            f"{shape.entries // 2} accumulators); use a larger core"
        )
    held = sizes[:, (sizes[IC] < layer.counts[IC]) & fits(layer, sizes, shape, held=True)]
    return np.hstack((plain, held)), np.arange(plain.shape[1] + held.shape[1]) >= plain.shape[1]


def _least_cycles(
    layer: LoopNest, sizes: NDArray[np.int64], held: NDArray[np.bool_], shape: NpuShape
) -> NDArray[np.float64]:
    """Return an approximate lower bound of cycles for any order: the maximum of computing, and of
    loading all inputs once and storing all results."""
    counts = -(-np.array(layer.counts)[:, None] // sizes)
    means = np.array(layer.counts)[:, None] / counts
    compute = counts.prod(0) * matrix_cycles(layer, means, shape)
    found = contents_of(layer, means, held)
    inputs = found.input * np.where(held, 1, counts[IC]) * counts[[BATCH, OW, OH]].prod(0)
    results = found.output * counts[[BATCH, OW, OH, OC]].prod(0)
    bits = inputs * layer.input_bits + results * layer.output_bits
    return np.asarray(np.maximum(compute, bits / shape.load_bits), np.float64)


@cache
def _firsts() -> NDArray[np.bool_]:
    """Mark each order that is the first among equivalent ones, which differ only in loops with one
    iteration; by order and by bit mask of the other loops, shape (orders, masks)."""
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
    layer: LoopNest, sizes: NDArray[np.int64], held: NDArray[np.bool_], shape: NpuShape
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the cycles and bits of all orders with some sizes, shape (orders, tiles).

    held : the input buffer holds all input blocks, shape (tiles,)
    Infinite where an order is equivalent to an earlier one.
    """
    counts = -(-np.array(layer.counts)[:, None] // sizes)
    mask = ((counts > 1) << np.arange(len(LOOPS))[:, None]).sum(0)
    firsts = _firsts()[:, mask]
    terms = _Terms(layer, sizes, held, counts, shape)
    cycles = np.full(firsts.shape, np.inf)
    bits = np.full(firsts.shape, np.inf)
    for number, order in enumerate(ORDERS):
        kept = np.flatnonzero(firsts[number])
        if kept.size:
            cycles[number, kept], bits[number, kept] = terms.of(order, kept)
    return cycles, bits


class _Terms:
    """Averages over the steps of each candidate.

    The steps after which a certain loop advances, and all loops inside it restart, form a class:
    the tile that leaves has full size in that loop and the last size in inner loops; the next tile
    has full size in inner loops. Both have average sizes in outer loops.
    """

    def __init__(
        self, layer: LoopNest, sizes: NDArray[np.int64], held: NDArray[np.bool_],
        counts: NDArray[np.int64], shape: NpuShape,
    ) -> None:  # fmt: skip
        self.layer, self.shape, self.sizes, self.counts = layer, shape, sizes, counts
        self.held = held
        whole = np.array(layer.counts)[:, None]
        self.ends = whole - (counts - 1) * sizes  # size of the last tile of each loop
        self.means = whole / counts
        self.later = (whole - sizes) / np.maximum(counts - 1, 1)  # average of all but the first
        self.begin = self._bits(sizes, held)
        self.compute_first = matrix_cycles(layer, sizes, shape)
        self.compute_last = matrix_cycles(layer, self.ends, shape)
        last = contents_of(layer, self.ends).output
        self.last = last * layer.output_bits
        self.drain = last * requantise_cycles(layer, shape)

    def _bits(self, sizes: NDArray[Any], held: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """Return the bits that are loaded for a tile."""
        found, layer = contents_of(self.layer, sizes, held), self.layer
        return {
            "input": found.input * layer.input_bits,
            "weights": found.weights * (layer.weight_bits / layer.weight_words),
            "bias": found.bias * layer.bias_bits,
        }

    def of(
        self, order: tuple[int, ...], kept: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the cycles and bits of an order for some candidates."""
        layer, shape, width = self.layer, self.shape, self.shape.load_bits
        counts, held = self.counts[:, kept], self.held[kept]
        ordered = counts[list(order)]
        more = ordered > 1
        before = np.cumprod(ordered, 0) // ordered  # iterations of outer loops
        moves = (ordered - 1) * before  # steps after which a loop is the outermost to advance
        unfinished = self._unfinished(order, counts, held)
        first = sum(bits[kept] for bits in self.begin.values())
        ends = (first + self.last[kept]) / width + self.drain[kept]
        total = np.asarray(first + self.last[kept], np.float64)
        cycles = np.where(more.any(0), 0, self.compute_first[kept])
        # from the innermost loop that advances to the outermost: steps of the innermost one are
        # between two steps of that loop or at an end; others are next to a step of the innermost
        still = np.ones(kept.size, bool)  # no inner loop advances
        slow = requantise_cycles(layer, shape)
        zero = np.zeros(kept.size)
        inner_load, inner_store, inner_alu = zero, zero, zero
        for place in reversed(range(len(order))):
            if not more[place].any():
                continue
            following = self.means[:, kept].copy()
            leaving = following.copy()
            inside = list(order[place + 1 :])
            following[inside], leaving[inside] = (
                self.sizes[inside][:, kept],
                self.ends[inside][:, kept],
            )
            loop = order[place]
            following[loop], leaving[loop] = self.later[loop, kept], self.sizes[loop, kept]
            changes = self._changes(order[place:], counts, held)
            load = sum(
                np.where(changes[name], b, 0) for name, b in self._bits(following, held).items()
            )
            sums = np.where(changes["output"], unfinished, 0)
            load = load + contents_of(layer, following).output * sums * layer.partial_bits
            left = np.where(changes["output"], contents_of(layer, leaving).output, 0)
            store = left * ((1 - sums) * layer.output_bits + sums * layer.partial_bits)
            alu = left * np.where(sums > 0, 0, slow)
            total = total + moves[place] * (load + store)
            here = more[place]
            # stop: the next tile is computed, this one leaves; ahead: this one is computed
            stop = np.maximum(matrix_cycles(layer, following, shape), alu)
            ahead = matrix_cycles(layer, leaving, shape)
            outer = here & ~still
            cycles = cycles + np.where(outer, moves[place], 0) * (
                np.maximum(stop, (inner_load + store) / width)
                + np.maximum(np.maximum(ahead, inner_alu), (load + inner_store) / width)
            )
            begins = here & still
            last = np.maximum(self.compute_last[kept], alu)
            cycles = cycles + np.where(
                begins,
                np.maximum(self.compute_first[kept], load / width)
                + np.maximum(last, store / width),
                0,
            )
            between = np.flatnonzero(begins & (ordered[place] > 2))
            if between.size:
                cycles[between] += self._between(order, place, kept[between], unfinished[between])
            inner_load = np.where(begins, load, inner_load)
            inner_store = np.where(begins, store, inner_store)
            inner_alu = np.where(begins, alu, inner_alu)
            still &= ~here
        return cycles + ends, total

    def _between(
        self, order: tuple[int, ...], place: int, kept: NDArray[np.int64],
        unfinished: NDArray[np.float64],
    ) -> NDArray[np.float64]:  # fmt: skip
        """Return the cycles of the steps between two advances of the innermost advancing loop;
        outer loops have their full or their last sizes."""
        layer, counts, held = self.layer, self.counts[:, kept], self.held[kept]
        changes = self._changes(order[place:], counts, held)
        sums = np.where(changes["output"], unfinished, 0)
        entry = (1 - sums) * layer.output_bits + 2 * sums * layer.partial_bits
        slow = np.where(sums > 0, 0, requantise_cycles(layer, self.shape))
        inner = order[place]
        total = np.zeros(kept.size)
        for corner in range(1 << place):
            sizes = self.sizes[:, kept].copy()
            share = np.ones(kept.size, np.int64)
            for at, loop in enumerate(order[:place]):
                last = corner >> at & 1
                share = share * (1 if last else counts[loop] - 1)
                if last:
                    sizes[loop] = self.ends[loop, kept]
            if not share.any():
                continue
            left = np.where(changes["output"], contents_of(layer, sizes).output, 0)
            working = np.maximum(matrix_cycles(layer, sizes, self.shape), left * slow)
            coming = sizes.copy()
            coming[inner] = self.ends[inner, kept]
            for times, brought in ((counts[inner] - 3, sizes), (1, coming)):
                bits = sum(
                    np.where(changes[name], b, 0) for name, b in self._bits(brought, held).items()
                )
                memory = (bits + left * entry) / self.shape.load_bits
                total += share * times * np.maximum(working, memory)
        return total

    def _changes(
        self, moving: tuple[int, ...], counts: NDArray[np.int64], held: NDArray[np.bool_]
    ) -> dict[str, NDArray[np.bool_]]:
        """Return whether each buffer is replaced when some loops advance."""

        def moves(loops: tuple[int, ...]) -> NDArray[np.bool_]:
            return np.asarray((counts[[loop for loop in loops if loop in moving]] > 1).any(0))

        found = {name: moves(loops) for name, loops in DEPENDS.items()}
        return found | {"input": np.where(held, moves(HELD["input"]), found["input"])}

    def _unfinished(
        self, order: tuple[int, ...], counts: NDArray[np.int64], held: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return the share of tiles with unfinished sums: all but the last iteration over input
        channels if the output changes inside that loop."""
        inside = order[order.index(IC) + 1 :]
        outputs = self._changes(inside, counts, held)["output"]
        return np.where(outputs, 1 - 1 / counts[IC], 0)
