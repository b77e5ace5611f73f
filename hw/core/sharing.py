"""Synapse lists that are equal relative to their first neuron, stored once per core.

A convolution reaches its targets by the same weights from every source pixel, only from another
neuron on. An axon therefore has a base, and its list holds neurons relative to it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.integers import Int64Array

UInt64Array = NDArray[np.uint64]
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
"""Odd factors of the two hashes of a list (splitmix64, xxHash64)."""


class SynapseRows(NamedTuple):
    """Synapses, each ndarray[int64], shape (synapses,).

    axon : number of its axon, over all cores; every axon has a synapse
    neuron : number of the target in its core
    weight, delay : as in `SpikingNetwork`
    """

    axon: Int64Array
    neuron: Int64Array
    weight: Int64Array
    delay: Int64Array


class SharedLists(NamedTuple):
    """Synapse lists of all cores, each ndarray[int64].

    heads : first word in the core, number of words, and base of each axon, shape (axons, 3)
    words : neuron minus base, weight, delay, core by core, shape (words, 3)
    first : first word of each core, shape (cores + 1,)
    """

    heads: Int64Array
    words: Int64Array
    first: Int64Array


def share_lists(core: Int64Array, rows: SynapseRows, cores: int) -> SharedLists:
    """Return the synapse lists of axons, in which each core stores equal lists once.

    core : core of each axon, ascending, ndarray[int64], shape (axons,)

    The base of an axon is its smallest neuron, and a list is sorted by neuron, delay and weight, so
    that lists which can be shared are equal word by word. A list is stored where its first axon is.
    """
    order = np.lexsort((rows.weight, rows.delay, rows.neuron, rows.axon))
    axon, neuron = rows.axon[order], rows.neuron[order]
    begin = np.searchsorted(axon, np.arange(core.size + 1))
    count = np.diff(begin)
    base = neuron[begin[:-1]]
    words = np.column_stack([neuron - base[axon], rows.weight[order], rows.delay[order]])
    stored = _stored(core, words, begin)
    own = stored == np.arange(core.size)
    kept = np.repeat(own, count)
    at = np.cumsum(np.where(own, count, 0)) - count  # of lists that are stored
    sizes = np.bincount(core[own], count[own], cores).astype(np.int64)
    first = np.r_[0, np.cumsum(sizes)]
    heads = np.column_stack([at[stored] - first[core], count, base])
    return SharedLists(heads, words[kept], first)


def list_keys(core: Int64Array, words: Int64Array, begin: Int64Array) -> UInt64Array:
    """Return a key of each list: its core, its length and two hashes of its words.

    core : of each list, shape (lists,)
    words : one row per word, sorted by list, each list in the order of `share_lists`
    begin : first word of each list, and the number of words

    Lists of a core with different keys differ.
    """
    count = np.diff(begin)
    place = (np.arange(len(words)) - np.repeat(begin[:-1], count)).astype(np.uint64)
    hashes = []
    for factor in _MIX:
        mixed = place
        for column in (0, *words.T):
            mixed = (mixed ^ np.asarray(column).astype(np.uint64)) * factor
            mixed ^= mixed >> np.uint64(29)
        hashes.append(np.add.reduceat(mixed, begin[:-1]) if count.size else mixed[:0])
    return np.column_stack([core.astype(np.uint64), count.astype(np.uint64), *hashes])


def _stored(core: Int64Array, words: Int64Array, begin: Int64Array) -> Int64Array:
    """Return for each axon the first axon of its core with an equal list, shape (axons,).

    Lists are compared by two hashes first, then word by word; of lists with equal hashes and other
    words only the first is shared.
    """
    axons = core.size
    if axons == 0:
        return np.zeros(0, np.int64)
    keys = list_keys(core, words, begin)
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    found = first[group.reshape(-1)].astype(np.int64)
    # The same words, at the same places of both lists.
    here = np.repeat(np.arange(axons), np.diff(begin))
    there = begin[found][here] + np.arange(len(words)) - begin[here]
    differs = (words != words[there]).any(axis=1)
    wrong = np.unique(here[differs])
    found[wrong] = wrong
    return found
