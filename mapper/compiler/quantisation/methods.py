"""Calibration methods: select the range that the integers of a tensor cover.

A narrower range has finer steps, and clips numbers outside. Each method is a compromise of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.quantisation.parameters import scaling
from mapper.compiler.quantisation.ranges import BINS, Ends, Range
from mapper.compiler.settings import Method, Scheme
from mapper.errors import MapperError

METHODS: tuple[Method, ...] = get_args(Method)

PERCENTILE = 99.99
FACTORS = np.linspace(0.3, 1.0, 29).tolist()
"""Factors of a range that are compared by mean squared error."""
Floats = NDArray[np.float64]
Rule = Callable[[Range, int, Scheme], Ends]


def chosen_ends(
    ranges: Mapping[Tensor, Range], method: Method, bits: int, scheme: Scheme
) -> dict[Tensor, Ends]:
    """Return the ends of each tensor's range; 0 is always inside.

    Raises `MapperError` for entropy in 16 bits, where a histogram has fewer bins than levels.
    """
    if method == "entropy" and bits > 8:
        raise MapperError("the method entropy is for 8 bits; use minmax or mse for 16")
    rule = _RULES[method]
    return {
        tensor: rule(found, bits, scheme) if found.counts.any() else Ends(found.low, found.high)
        for tensor, found in ranges.items()
    }


def _minmax(found: Range, bits: int, scheme: Scheme) -> Ends:
    return Ends(found.low, found.high)


def _percentile(found: Range, bits: int, scheme: Scheme) -> Ends:
    """Return a range with at most 0.01 % of the numbers outside on each side."""
    spare = found.counts.sum() * (1 - PERCENTILE / 100)
    up = np.cumsum(found.counts)
    down = np.cumsum(found.counts[::-1])
    edges = _edges(found)
    low = edges[int(np.searchsorted(up, spare, side="right"))]
    high = edges[BINS - int(np.searchsorted(down, spare, side="right"))]
    return Ends(min(float(low), 0.0), max(float(high), 0.0))


def _mse(found: Range, bits: int, scheme: Scheme) -> Ends:
    """Return the share of the range with the least squared error; on ties the widest."""
    errors = [
        (squared_error(found, Ends(found.low * factor, found.high * factor), bits, scheme), -factor)
        for factor in FACTORS
    ]
    factor = -min(errors)[1]
    return Ends(found.low * factor, found.high * factor)


def squared_error(found: Range, ends: Ends, bits: int, scheme: Scheme) -> float:
    """Return the squared error of bin centres, weighted by counts, if a range has the given
    ends."""
    scale, zero_point = scaling(*ends, bits, scheme)
    middles = (_edges(found)[1:] + _edges(found)[:-1]) / 2
    half = 1 << (bits - 1)
    stored = np.clip(np.rint(middles / scale) + zero_point, -half, half - 1)
    return float(((scale * (stored - zero_point) - middles) ** 2 * found.counts).sum())


def _entropy(found: Range, bits: int, scheme: Scheme) -> Ends:
    """Return the range with the least Kullback-Leibler divergence from the measured distribution.

    Both distributions collect outside numbers at the ends; the second one has only the available
    levels.

    Migacz, 8-bit Inference with TensorRT, GTC 2017; here also for asymmetric ranges.
    """
    edges = _edges(found)
    counts = found.counts.copy()
    # zeros, mostly from activations, are exact in any range: they must not decide
    zero = min(int(np.searchsorted(edges, 0.0, side="right")) - 1, BINS - 1)
    beside = [counts[at] for at in (zero - 1, zero + 1) if 0 <= at < BINS]
    counts[zero] = max(min(beside), 1)
    best = (np.inf, 1.0)
    for taken in range(BINS, BINS // 8 - 1, -BINS // 128):
        factor = taken / BINS
        first = int(np.searchsorted(edges, found.low * factor, side="right")) - 1
        last = int(np.searchsorted(edges, found.high * factor, side="left"))
        divergence = _divergence(counts, max(first, 0), min(last, BINS), 1 << bits)
        best = min(best, (divergence, factor), key=lambda one: one[0])
    return Ends(found.low * best[1], found.high * best[1])


def _divergence(counts: NDArray[np.int64], first: int, last: int, levels: int) -> float:
    inside = counts[first:last].astype(np.float64)
    if not inside.any():
        return np.inf
    wanted = inside.copy()
    wanted[0] += counts[:first].sum()
    wanted[-1] += counts[last:].sum()
    level = np.arange(inside.size) * min(levels, inside.size) // inside.size
    met = wanted > 0
    share = np.bincount(level, inside) / np.maximum(np.bincount(level, met), 1)
    stored = np.where(met, share[level], 0.0)
    # numbers only at an end, without a level, cost as much as a number seen less than once
    stored = np.maximum(stored, np.where(met, 1e-4, 0.0))
    p, q = wanted[met] / wanted.sum(), stored[met] / stored.sum()
    return float((p * np.log(p / q)).sum())


def _edges(found: Range) -> Floats:
    return np.linspace(found.low, found.high, BINS + 1)


_RULES: dict[Method, Rule] = {
    "minmax": _minmax,
    "percentile": _percentile,
    "mse": _mse,
    "entropy": _entropy,
}
