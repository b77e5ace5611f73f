"""Synaptic events: add the weights of a spike to the sums of its targets, list by list."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.protocols import Int64Array

NEURON_BITS, DELAY_BITS = 20, 6
"""Bits of a neuron's number in its core, and of a delay, in a word of a list."""
_WEIGHT_AT = 32


class SynapseLists(NamedTuple):
    """Synapse lists of all cores.

    A slot is a neuron, numbered core by core. Senders are all slots, followed by the inputs of the
    host. A route leads from a sender to a list in one core; routes may share lists.

    route : ndarray[int64], shape (senders + 1,): sender s has the routes route[s] to route[s + 1]
        - 1
    heads : ndarray[int64], shape (routes, 4): first word of the list, number of its words, base
        that is added to its neurons, and first slot of its core
    words : ndarray[int64], shape (words,), from `list_words`
    highest : highest number of a neuron in a core, all ones in binary: base and neuron are added
        modulo this plus one
    """

    route: Int64Array
    heads: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    words: Int64Array
    highest: int


def list_words(neuron: Int64Array, weight: Int64Array, delay: Int64Array) -> Int64Array:
    """Return neuron, weight and delay of synapses in one word each, which costs one cache miss."""
    return neuron | delay << NEURON_BITS | weight << _WEIGHT_AT


@njit(cache=True, nogil=True, inline="always")
def add_events(lists, sender, sums, now):
    """Add the weights of a sender's synapses to the ring of sums; return the number of events.

    sums : ndarray[int64], shape (delay slots, slots), the last row follows the first; the number of
        delay slots is a power of two
    now : row in which synapses without a delay count, modulo the number of rows
    """
    events = 0
    last, slots = sums.shape[0] - 1, sums.shape[1]
    flat = sums.reshape(sums.size)
    for r in range(lists.route[sender], lists.route[sender + 1]):
        first, count = lists.heads[r, 0], lists.heads[r, 1]
        base, start = lists.heads[r, 2], lists.heads[r, 3]
        # A slice spares the check for negative indices in the loop, and so half of its time.
        words = lists.words[first : first + count]
        for e in range(count):
            word = words[e]
            neuron = (base + word) & lists.highest
            row = (now + (word >> NEURON_BITS)) & last
            flat[np.uint64(row * slots + start + neuron)] += word >> _WEIGHT_AT
        events += count
    return events
