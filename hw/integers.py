"""Whole numbers of networks: checks that name what does not fit in a core, and word arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.errors import HwError

Int64Array = NDArray[np.int64]


def saturate(values: Int64Array, bits: int) -> Int64Array:
    """Clip to the range of signed words of `bits` bits."""
    half = 1 << (bits - 1)
    return np.clip(values, -half, half - 1)


def wrap(values: Int64Array, bits: int) -> Int64Array:
    """Truncate to signed words of `bits` bits."""
    half = 1 << (bits - 1)
    return ((values + half) & (2 * half - 1)) - half


def whole(name: str, values: Any) -> Int64Array:
    """Return `values` as int64; raise `HwError` if they are not whole numbers."""
    array = np.asarray(values)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype != bool and not np.issubdtype(array.dtype, np.integer):
        raise HwError(f"network: {name} are {array.dtype}; cores compute with whole numbers")
    return array.astype(np.int64)


def spread(name: str, values: Any, count: int, of: str = "neurons") -> Int64Array:
    """Return whole numbers for `count` neurons or synapses, given one for all or one for each."""
    array = whole(name, values)
    if array.shape not in ((), (count,)):
        raise HwError(
            f"network: {name} has shape {array.shape}; give one number, or one for each of "
            f"the {count} {of}"
        )
    return np.broadcast_to(array, count)


def require_synapses(
    source: Int64Array, target: Int64Array, weight: Int64Array, neurons: int, inputs: int
) -> None:
    """Raise `HwError` for lists of different lengths, and for ids that do not exist."""
    size = source.shape
    if not size == target.shape == weight.shape or len(size) != 1:
        raise HwError(
            f"network: {source.shape} sources, {target.shape} targets, "
            f"{weight.shape} weights; give one of each per synapse"
        )
    for name, ids, end in (("source", source, neurons + inputs), ("target", target, neurons)):
        wrong = np.flatnonzero((ids < 0) | (ids >= end))
        if wrong.size:
            raise HwError(
                f"network: {name} of synapse {wrong[0]} is {ids[wrong[0]]}; "
                f"give ids from 0 to {end - 1}"
            )


def require_range(name: str, values: Int64Array, least: int, most: int, words: str) -> None:
    """Raise `HwError` naming the first neuron whose number is outside least .. most."""
    wrong = np.flatnonzero((values < least) | (values > most))
    if wrong.size:
        raise HwError(
            f"network: {name} {values[wrong[0]]} of neuron {wrong[0]} is outside "
            f"{least}..{most}, the {words} of a core ({wrong.size} such)",
            int(wrong[0]),
        )


def require_weights(source: Int64Array, target: Int64Array, weight: Int64Array, bits: int) -> None:
    """Raise `HwError` naming the first synapse whose weight has more than `bits` bits."""
    half = 1 << (bits - 1)
    wrong = np.flatnonzero((weight < -half) | (weight >= half))
    if wrong.size:
        first = wrong[0]
        raise HwError(
            f"network: weight {weight[first]} of the synapse from {source[first]} to "
            f"{target[first]} is outside {-half}..{half - 1}, the {bits}-bit "
            f"weights of a core ({wrong.size} such); scale the weights, or widen weight_bits"
        )


def require_sums(target: Int64Array, weight: Int64Array, neurons: int, bits: int) -> None:
    """Raise `HwError` if a sum may need more than `bits` bits.

    Every source is assumed to spike at most once per tick.
    """
    half = 1 << (bits - 1)
    for bound, part in ((-half, np.minimum(weight, 0)), (half - 1, np.maximum(weight, 0))):
        total = np.zeros(neurons, np.int64)
        np.add.at(total, target, part)
        worst = int(np.abs(total).argmax())
        if abs(total[worst]) > abs(bound):
            raise HwError(
                f"network: weights on neuron {worst} add up to {total[worst]} at worst, beyond "
                f"{bound}, the limit of the {bits}-bit sums of a core; widen sum_bits",
                worst,
            )


def check_inputs(inputs: Sequence[Sequence[int]], known: int, ticks: int) -> list[list[int]]:
    """Return the inputs that spike before each of `ticks` ticks; missing ticks have none.

    Raises `HwError` if there are more lists than ticks, or inputs outside 0 .. known-1.
    """
    if len(inputs) > ticks:
        raise HwError(
            f"inputs for {len(inputs)} ticks, but the run has {ticks}; give at most {ticks}"
        )
    events = [[int(one) for one in told] for told in inputs]
    for tick, told in enumerate(events):
        for one in told:
            if not 0 <= one < known:
                raise HwError(
                    f"input {one} spikes before tick {tick}; the network has {known} inputs, "
                    "numbered from 0"
                )
    return events + [[]] * (ticks - len(events))
