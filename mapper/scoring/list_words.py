"""Words of the synapse lists of the cores under a mapping, where equal lists are stored once.

The list of a source in a core holds its targets there, relative to the first, and their weights.
Neurons of a core are numbered by id. All synapses of a source are in one block of the network, so
one pass finds all lists; only the keys of different lists are kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hw.core.sharing import list_keys
from mapper.monitoring.callbacks import Advance, ignore
from storage.arrays import Int32, Int64
from storage.store.network import NetworkFile

Keys = NDArray[np.uint64]


def list_words(network: NetworkFile, core: Int32, cores: int, advance: Advance = ignore) -> Int64:
    """Return the list words of each core, shape (cores,), in one pass over the network.

    core : core of every neuron
    advance : called with the number of synapses of each block

    Weights are the synaptic weights of the network, or its weights if it has none. Lists count as
    equal if their lengths and two hashes of 64 bits are.
    """
    number = numbers_in_cores(core, cores)
    known, added = np.zeros((2, 0, 4), np.uint64)
    for index in range(network.block_count):
        source, target, weight = outgoing_synapses(network, index)
        advance(source.size)
        keys = _keys_of_lists(source, core[target].astype(np.int64), number[target], weight)
        added = np.concatenate([added, _distinct(keys)])
        if len(added) > len(known):
            known, added = _distinct(np.concatenate([known, added])), added[:0]
    known = _distinct(np.concatenate([known, added])).astype(np.int64)
    words = np.zeros(cores, np.int64)
    np.add.at(words, known[:, 0], known[:, 1])
    return words


def outgoing_synapses(network: NetworkFile, index: int) -> tuple[Int64, Int64, Int64]:
    """Return source, target and weight of the synapses of a block, without self-loops.

    Weights are whole numbers that are equal if the weights are: for synaptic weights, their bits.
    """
    if network.meta.synaptic is not None:
        source, target, weight = network.read_synapses(index)
        other = source != target
        return source[other], target[other], (weight[other] + 0.0).view(np.int64)
    indptr, ids, stored = network.read_outgoing(index)
    first, end = network.block_bounds(index)
    return np.repeat(np.arange(first, end), np.diff(indptr)), ids.astype(np.int64), stored


def numbers_in_cores(core: Int32, cores: int) -> Int64:
    """Return the number of every neuron in its core, by id, shape (neurons,)."""
    order = np.argsort(core, kind="stable")
    counts = np.bincount(core, minlength=cores)
    number = np.empty(core.size, np.int64)
    number[order] = np.arange(core.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return number


def _keys_of_lists(source: Int64, core: Int64, number: Int64, weight: Int64) -> Keys:
    """Return the keys of the lists of some sources; core, number : of the targets."""
    order = np.lexsort((weight, number, core, source))
    source, core, number, weight = (each[order] for each in (source, core, number, weight))
    starts = (np.diff(source, prepend=-1) != 0) | (np.diff(core, prepend=-1) != 0)
    begin = np.append(np.flatnonzero(starts), source.size)
    base = np.repeat(number[begin[:-1]], np.diff(begin))
    return list_keys(core[begin[:-1]], np.column_stack([number - base, weight]), begin)


def _distinct(keys: Keys) -> Keys:
    """Return different keys, sorted."""
    keys = keys[np.lexsort(keys.T)]
    return keys[np.append(True, (keys[1:] != keys[:-1]).any(axis=1))[: len(keys)]]
