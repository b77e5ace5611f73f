"""Kernels of traffic between populations: sums over slices, the neurons of a population in a core.

Slices are numbered by population, then by core.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.traffic.links import add_straight
from chipsim.traffic.routes import add_route, way
from storage.arrays import Int32, Int64


class SliceMapping(NamedTuple):
    """Data of all neurons and slices.

    of : ndarray[int32], shape (neurons,), slice of every neuron
    core : ndarray[int32], shape (slices,)
    rates : ndarray[int64], shape (neurons,), or empty if the largest weight is the rate
    packets : sum packets to cores instead of weights
    """

    of: Int32
    core: Int32
    rates: Int64
    undirected: bool
    packets: bool


class SliceScratch(NamedTuple):
    """Scratch of one thread; zero between blocks, except the stamps.

    total : (slices,), sums of the present source slice; touched : its slices with a sum
    weight, stamp, reached : (slices,), the same for one neuron; a stamp is the serial number of the
        last neuron that reached the slice
    best, mark : (cores,), the slice of a core that a neuron reaches with most weight, and its stamp
    ends : (cores,), the cores that a neuron reaches
    """

    total: Int64
    touched: Int64
    weight: Int64
    stamp: Int64
    reached: Int64
    best: Int64
    mark: Int64
    ends: Int64


@njit(cache=True, nogil=True, inline="always")
def _flush(own, slices, scratch, count, keys, sums, at):
    """Write the sums of a source slice by increasing target slice and clear them."""
    total, touched = scratch.total, scratch.touched
    touched[:count].sort()
    for k in range(count):
        t = touched[k]
        keys[at] = own * slices + t
        sums[at] = total[t]
        total[t] = 0
        at += 1
    return at


@njit(cache=True, nogil=True, inline="always")
def _add(scratch, count, t, amount):
    """Add to the sum of a target slice; return the number of touched slices."""
    if scratch.total[t] == 0:
        scratch.touched[count] = t
        count += 1
    scratch.total[t] += amount
    return count


@njit(cache=True, nogil=True, inline="always")
def _choose(block, mapping, scratch, row, mark):
    """Choose a slice in each core that a neuron reaches: in `best`, the cores in `ends`.

    Returns the number of cores, and the largest weight.
    """
    weight, stamp, best = scratch.weight, scratch.stamp, scratch.best
    reached = 0
    largest = 0
    for e in range(block.indptr[row], block.indptr[row + 1]):
        t = mapping.of[block.targets[e]]
        if stamp[t] != mark:
            stamp[t] = mark
            weight[t] = 0
            scratch.reached[reached] = t
            reached += 1
        weight[t] += block.weights[e]
        largest = max(largest, block.weights[e])
    cores = 0
    for k in range(reached):
        t = scratch.reached[k]
        c = mapping.core[t]
        if scratch.mark[c] != mark:
            scratch.mark[c] = mark
            best[c] = t
            scratch.ends[cores] = c
            cores += 1
        elif weight[t] > weight[best[c]] or (weight[t] == weight[best[c]] and t < best[c]):
            best[c] = t
    return cores, largest


@njit(cache=True, nogil=True)
def sum_slices(block, mapping, scratch, serial, keys, sums):
    """Sum the traffic of a block by source and target slice; return the number of sums.

    block : a `KernelBlock` whose neurons are ordered by slice; mapping : a `SliceMapping`
    scratch : a `SliceScratch`; serial : of its first neuron, never used before
    keys : source slice * slices + target slice, increasing

    A packet to a core counts for the slice in which it reaches most weight, the first of several.
    """
    of, slices = mapping.of, np.int64(len(mapping.core))
    found = np.int64(0)
    count = 0
    own = np.int64(-1)
    for i in range(len(block.order)):
        row = block.order[i]
        v = block.first + row
        if of[v] != own:
            found = _flush(own, slices, scratch, count, keys, sums, found)
            count = 0
            own = np.int64(of[v])
        if mapping.packets:
            cores, largest = _choose(block, mapping, scratch, row, serial + i)
            rate = mapping.rates[v] if len(mapping.rates) else largest
            for k in range(cores if rate > 0 else 0):
                count = _add(scratch, count, scratch.best[scratch.ends[k]], rate)
            continue
        for e in range(block.indptr[row], block.indptr[row + 1]):
            target = block.targets[e]
            if block.weights[e] == 0 or (mapping.undirected and target <= v):
                continue  # an edge is one flow
            count = _add(scratch, count, of[target], block.weights[e])
    return _flush(own, slices, scratch, count, keys, sums, found)


@njit(cache=True, nogil=True)
def add_flows(flows, at, slices, routes, sums, row):
    """Add flows between slices to the sums, from `at` to the end of its source population.

    flows : source slice, target slice and traffic; slices : population and core of each
    sums : (populations, 4): traffic sent to other cores, received from them, within cores, hops
    row : (populations, 2): traffic from the source population to each other, and its hops
    Returns the index of the first flow of the next population.
    """
    source, target, weight = flows
    population, core = slices
    width = routes.column.size
    p = population[source[at]]
    while at < len(source) and population[source[at]] == p:
        s, t, w = core[source[at]], core[target[at]], weight[at]
        q = population[target[at]]
        x0, x1 = routes.column[s % width], routes.column[t % width]
        y0, y1 = routes.row[s // width], routes.row[t // width]
        d = abs(way(x0, x1, routes.x, routes.round_x)) + abs(way(y0, y1, routes.y, routes.round_y))
        if s == t:
            sums[p, 2] += w
        else:
            sums[p, 0] += w
            sums[q, 1] += w
        sums[p, 3] += w * d
        row[q, 0] += w
        row[q, 1] += w * d
        at += 1
    return at


@njit(cache=True, nogil=True)
def route_pairs(flows, slices, routes, pairs, populations, differences):
    """Add the XY routes of flows between slices to the differences of their population pair.

    flows, slices : as for `add_flows`
    pairs : sorted keys, source population * populations + target population; others are left out
    differences : (pairs, 4, rows + 1, columns + 1), in the form of `chipsim.traffic.links`
    """
    source, target, weight = flows
    population, core = slices
    width, torus = routes.column.size, routes.torus
    for i in range(len(source)):
        s, t = core[source[i]], core[target[i]]
        if s == t:
            continue
        key = np.int64(populations) * population[source[i]] + population[target[i]]
        low, high = 0, len(pairs)
        while low < high:
            middle = (low + high) // 2
            if pairs[middle] < key:
                low = middle + 1
            else:
                high = middle
        if low == len(pairs) or pairs[low] != key:
            continue
        x0, x1 = routes.column[s % width], routes.column[t % width]
        y0, y1 = routes.row[s // width], routes.row[t // width]
        if torus:
            dx = way(x0, x1, routes.x, routes.round_x)
            dy = way(y0, y1, routes.y, routes.round_y)
            add_route(differences[low], x0, y0, dx, dy, weight[i])
        else:
            add_straight(differences[low], x0, y0, x1, y1, weight[i])


@njit(cache=True, nogil=True)
def keep_strongest(loads, pair, kept_pair, kept_load):
    """Insert the loads of a pair into the strongest pairs of every link, sorted, descending.

    loads : (links,); kept_pair, kept_load : (links, kept); the earlier of equal pairs comes first
    """
    kept = kept_load.shape[1]
    for i in range(len(loads)):
        load = loads[i]
        if load <= kept_load[i, kept - 1]:
            continue
        at = kept - 1
        while at > 0 and kept_load[i, at - 1] < load:
            kept_load[i, at] = kept_load[i, at - 1]
            kept_pair[i, at] = kept_pair[i, at - 1]
            at -= 1
        kept_load[i, at] = load
        kept_pair[i, at] = pair
