"""Synaptic events: add the weights of spikes to the sums of neurons, list by list."""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from chipsim.protocols import Int64Array


class SynapseLists(NamedTuple):
    """Synapse lists of all cores. A slot is a neuron, numbered core by core.

    route : ndarray[int64], shape (slots + 1,): slot s sends to the axons of rows route[s] to
        route[s + 1] - 1 of `axon`
    axon : ndarray[int64], shape (routes,), numbered core by core
    synapse : ndarray[int64], shape (axons + 1,): axon a has the synapses synapse[a] to synapse[a +
        1] - 1
    target, weight : ndarray[int64], shape (synapses,), slot and weight
    """

    route: Int64Array
    axon: Int64Array
    synapse: Int64Array
    target: Int64Array
    weight: Int64Array


@njit(cache=True, nogil=True)
def add_events(lists, spikes, total):
    """Add the weights of the synapses of spiking slots; returns the number of events.

    spikes : ndarray[int64], shape (spikes,), slots, repeats allowed
    total : ndarray[int64], shape (slots,)
    """
    count = 0
    for i in range(len(spikes)):
        s = spikes[i]
        for r in range(lists.route[s], lists.route[s + 1]):
            a = lists.axon[r]
            for e in range(lists.synapse[a], lists.synapse[a + 1]):
                total[lists.target[e]] += lists.weight[e]
                count += 1
    return count
