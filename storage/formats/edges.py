"""Synapses of a network block by block, for exporters of edge lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storage.errors import CorruptError
from storage.formats.text.render import decimals_of
from storage.store.network import NetworkFile

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Edges:
    """Synapses of consecutive neurons, by source, then by target; all of shape (synapses,).

    weight : in stored units; isolated : number of neurons of the block without synapses
    """

    source: Int64
    target: Int64
    weight: Int64
    isolated: int


def edge_blocks(net: NetworkFile, lower: bool = False) -> Iterator[Edges]:
    """Yield each synapse once, and each edge of an undirected network once.

    lower : sources have the larger number (lower triangle), else the smaller one
    """
    count = 0
    for block in net.blocks():
        indptr, ids, weight = block.outgoing()
        source = np.repeat(np.arange(block.vertices) + block.first, np.diff(indptr))
        target = ids.astype(np.int64)
        if net.undirected:
            once = source > target if lower else source < target
            source, target, weight = source[once], target[once], weight[once]
        count += source.size
        if count > net.meta.synapses:
            break
        alone = int(np.count_nonzero(np.diff(block.indptr) == 0))
        yield Edges(source, target, weight, alone)
    if count != net.meta.synapses:  # exported headers already state the count
        raise CorruptError(
            f"{net.path}: meta.json states {net.meta.synapses} synapses, the blocks hold others; "
            "recreate the network"
        )


def real_weights(stored: Int64, unit: float) -> Int64 | NDArray[np.float64]:
    """Return weights in real units: integers if the unit is 1, else rounded stored * unit."""
    if unit == 1:
        return stored
    digits = decimals_of(unit)
    real = (stored * unit).astype(np.float64, copy=False)
    # for a decimal unit, rounding the product gives the exact decimal value
    return real if digits is None else np.round(real, digits)
