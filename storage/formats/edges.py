"""The synapses of a network block by block, as exporters of edge lists want them."""

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

    weight : in stored units; isolated : neurons of the block without any synapse
    """

    source: Int64
    target: Int64
    weight: Int64
    isolated: int


def edge_blocks(net: NetworkFile, lower: bool = False) -> Iterator[Edges]:
    """Every synapse once, and every edge of an undirected network once.

    lower : its sources have the larger number, else the smaller one
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
    if count != net.meta.synapses:  # which other files say beforehand
        raise CorruptError(
            f"{net.path}: meta.json says {net.meta.synapses} synapses, the blocks hold others; "
            "make the network again"
        )


def real_weights(stored: Int64, unit: float) -> Int64 | NDArray[np.float64]:
    """Weights as numbers: whole where the unit is 1, else the nearest to stored * unit."""
    if unit == 1:
        return stored
    digits = decimals_of(unit)
    real = (stored * unit).astype(np.float64, copy=False)
    # the decimal that is nearest to the product is the exact value of a decimal unit
    return real if digits is None else np.round(real, digits)
