"""Kernels of the single pass over a network: contributions of a block of vertices to all sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.chip.machine import Axes
from chipsim.protocols import Int32Array, Int64Array
from chipsim.traffic.links import add_straight
from chipsim.traffic.machines import add_round, cast_cost
from chipsim.traffic.routes import Routes, way
from chipsim.traffic.walks import add_branch, add_detour, extra_cost

# Columns of a cell, the record of a core: weight from the current source core, serial number of the
# last neuron that reached it, and synapses of that neuron.
_SUM, STAMP, _COUNT = 0, 1, 2

# Columns of a core's activity, in the order of the fields of `Activity`.
_SPIKES, _SENT, _RECEIVED, _LOCAL, _EVENTS = 0, 1, 2, 3, 4

# The bit of a power of two below 2^32, by its remainder modulo 37: all 32 differ.
_PLACE = np.zeros(37, dtype=np.int64)
_PLACE[[(1 << bit) % 37 for bit in range(32)]] = np.arange(32)


class KernelBlock(NamedTuple):
    """A block for the kernel: its vertices are visited in ``order`` (by core, ascending)."""

    first: int
    order: Int64Array
    indptr: Int64Array
    targets: Int32Array
    weights: Int64Array


class KernelMapping(NamedTuple):
    """Data of all neurons, and the router of each core.

    priced : True if distances have their own costs, in `axes`
    copies : True if a neuron needs a copy for each core that it reaches, including its own
    """

    core: Int32Array
    rates: Int64Array
    has_rates: bool
    undirected: bool
    columns: Int32Array
    rows: Int32Array
    routes: Routes
    axes: Axes
    priced: bool
    copies: bool


class Arrays(NamedTuple):
    """Sums and scratch of one thread at a time.

    cells : (cores, 3), columns as above. A stamp is the serial number of the last neuron that
        reached the core, so stamps are never cleared
    extents : (columns of routers, 4): stamp, lowest and highest row of the tree in a column; the
        last field of entry j is the j-th column of the tree. If links are broken, (routers, 4):
        stamps of the links of the tree
    ends, reached : core of every synapse of a neuron, and the distinct ones
    touched : (cores + 1,), the cores with weight from the current source core
    bits : (cores / 32,), the same as a set of bits; zero between uses
    synapses, axons_in, axons_out : (cores,), incoming synapses, incoming and outgoing axons
    activity : (cores, 5), columns in the order of the fields of `Activity`
    core_links, tree_links : differences of routes, as in `chipsim.traffic.links`
    keys, sums : the run for PairSums
    """

    cells: Int64Array
    extents: Int64Array
    ends: Int32Array
    reached: Int32Array
    touched: Int32Array
    bits: Int64Array
    synapses: Int64Array
    axons_in: Int64Array
    axons_out: Int64Array
    activity: Int64Array
    core_links: Int64Array
    tree_links: Int64Array
    keys: Int64Array
    sums: Int64Array


@njit(cache=True, nogil=True)
def fill_cores(core: Int32Array, sizes: Int64Array, count: Int64Array, used: Int64Array) -> int:
    """Count neurons and sizes per core; return the first bad neuron, or -1."""
    for v in range(len(core)):
        c = core[v]
        if c < 0 or c >= len(count) or sizes[v] < 0:
            return v
        count[c] += 1
        used[c] += sizes[v]
    return -1


@njit(cache=True, nogil=True)
def examine(
    indptr: Int64Array, targets: Int32Array, weights: Int64Array, neurons: int
) -> tuple[int, int, float]:
    """Return the first fault (a key of _FAULTS, or 0), largest degree, sum of the weights."""
    degree = 0
    for i in range(len(indptr) - 1):
        if indptr[i + 1] < indptr[i]:
            return 1, 0, 0.0
        degree = max(degree, indptr[i + 1] - indptr[i])
    lowest = 0
    highest = -1
    lightest = 0
    total = 0.0
    for e in range(len(targets)):
        lowest = min(lowest, targets[e])
        highest = max(highest, targets[e])
        lightest = min(lightest, weights[e])
        total += weights[e]
    if lowest < 0 or highest >= neurons:
        return 2, degree, total
    return (3 if lightest < 0 else 0), degree, total


@njit(cache=True, nogil=True)
def _sort(values, n):
    """Sort the first n values, at most a few hundred (Shell 1959); numba's sort compiles slowly."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            value = values[i]
            j = i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap //= 3


@njit(cache=True, nogil=True)
def _flush(source, cells, touched, n, bits, out_keys, out_sums, at):
    """Write the sums of one source core by increasing target core and clear them."""
    row = np.int64(source) * len(cells)
    if len(bits) > 8 * n:  # few cores on a large mesh
        _sort(touched, n)
        for i in range(n):
            c = np.int64(touched[i])
            out_keys[at] = row + c
            out_sums[at] = cells[c, _SUM]
            cells[c, _SUM] = 0
            at += 1
        return at
    # A bit set yields the cores in sorted order, in a fraction of the time.
    for i in range(n):
        c = np.int64(touched[i])
        bits[c >> 5] |= np.int64(1) << (c & 31)
    for j in range(len(bits)):
        word = bits[j]
        bits[j] = 0
        while word != 0:
            lowest = word & -word
            word ^= lowest
            c = 32 * j + _PLACE[lowest % 37]
            out_keys[at] = row + c
            out_sums[at] = cells[c, _SUM]
            cells[c, _SUM] = 0
            at += 1
    return at


@njit(cache=True, nogil=True, inline="always")
def _gather(block, mapping, arrays, v, start, degree, mark, n_touched):
    """Sum the synapses of a neuron per core that it reaches, and into the sums of its core.

    Returns the largest weight, the number of reached cores, and the new number of touched ones.
    """
    targets, weights, core = block.targets, block.weights, mapping.core
    cells, ends, reached, touched = arrays.cells, arrays.ends, arrays.reached, arrays.touched
    undirected = mapping.undirected
    # Cores of targets are scattered in memory: a separate loop lets the processor overlap the
    # accesses. The loop after it has no unpredictable branches, and unsigned indices save both
    # loops a test for negative ones.
    for k in range(degree):
        ends[k] = core[np.uint64(targets[start + k])]
    largest = 0
    n_reached = 0
    for k in range(degree):
        c = np.uint64(ends[k])
        w = weights[start + k]
        largest = max(largest, w)
        reached[n_reached] = ends[k]
        new = cells[c, STAMP] != mark
        n_reached += new
        cells[c, STAMP] = mark
        cells[c, _COUNT] = cells[c, _COUNT] * (1 - new) + 1
        if undirected and targets[start + k] <= v:  # an edge is one flow
            continue
        before = cells[c, _SUM]
        touched[n_touched] = ends[k]
        n_touched += (before == 0) & (w > 0)
        cells[c, _SUM] = before + w
    return largest, n_reached, n_touched


@njit(cache=True, nogil=True, inline="always")
def _reach(mapping, arrays, s, n_reached, rate, mark):
    """Add the axons, synaptic events and packets of a neuron to the cores that it reaches.

    Returns the hops of one packet per synapse, the number of other cores, and the columns of the
    tree to them, which are left in ``extents``; on a torus, `add_round` finds these. On a chip with
    broken links trees have no such columns (`add_branches`).
    """
    columns, rows = mapping.columns, mapping.rows
    routes, torus = mapping.routes, mapping.routes.torus
    detoured, across = len(routes.table) > 0, np.int64(routes.x.size)
    cells, extents, reached = arrays.cells, arrays.extents, arrays.reached
    synapses, axons_in, active = arrays.synapses, arrays.axons_in, arrays.activity
    cast = arrays.core_links
    x0 = columns[s]
    y0 = rows[s]
    n_columns = 0
    others = n_reached
    spread = np.int64(0)
    # Synapses in one core are added together: a neuron has far more synapses than cores that it
    # reaches.
    for k in range(n_reached):
        c = reached[k]
        count = cells[c, _COUNT]
        synapses[c] += count
        axons_in[c] += 1
        active[c, _EVENTS] += rate * count
        if detoured:
            here, there = y0 * across + x0, rows[c] * across + columns[c]
            spread += count * add_detour(cast, routes, here, there, rate)
        elif torus:
            spread += count * abs(way(x0, columns[c], routes.x, routes.round_x))
            spread += count * abs(way(y0, rows[c], routes.y, routes.round_y))
        else:
            spread += count * (abs(columns[c] - x0) + abs(rows[c] - y0))
        if c == s:
            others -= 1
            active[s, _LOCAL] += rate
            continue
        active[c, _RECEIVED] += rate
        if torus or detoured:
            continue
        x = columns[c]
        y = rows[c]
        add_straight(cast, x0, y0, x, y, rate)
        if extents[x, 0] != mark:
            extents[x, 0] = mark
            extents[x, 1] = y0
            extents[x, 2] = y0
            extents[n_columns, 3] = x
            n_columns += 1
        extents[x, 1] = min(extents[x, 1], y)
        extents[x, 2] = max(extents[x, 2], y)
    return spread, others, n_columns


@njit(cache=True, nogil=True, inline="always")
def _add_tree(diff, extents, n_columns, x0, y0, rate):
    """Add the multicast tree from router (x0, y0) to the differences; return its hops.

    extents : the rows of its `n_columns` columns, as in `Arrays`
    """
    west = x0
    east = x0
    hops = 0
    for k in range(n_columns):
        x = extents[k, 3]
        west = min(west, x)
        east = max(east, x)
        low = extents[x, 1]
        high = extents[x, 2]
        hops += high - low
        diff[2, y0, x] += rate
        diff[2, high, x] -= rate
        diff[3, low + 1, x] += rate
        diff[3, y0 + 1, x] -= rate
        if len(diff) > 4:
            turn = 6 + 2 * (x > x0) + 4 * (x < x0)
            diff[turn, y0, x] += rate * (high > y0)
            diff[turn + 1, y0, x] += rate * (low < y0)
    hops += east - west
    diff[0, y0, x0] += rate
    diff[0, y0, east] -= rate
    diff[1, y0, west + 1] += rate
    diff[1, y0, x0 + 1] -= rate
    if len(diff) > 4:
        diff[4, y0, x0] += rate * (east > x0)
        diff[5, y0, x0] += rate * (west < x0)
    return hops


@njit(cache=True, nogil=True)
def _add_branches(mapping, s, reached, rate, marks, mark, tree):
    """Add the tree of routes around broken links to the differences; return its hops.

    reached : cores, possibly including the neuron's; marks, mark : as in `add_branch`
    """
    routes, columns, rows = mapping.routes, mapping.columns, mapping.rows
    across = np.int64(routes.x.size)
    here, hops = rows[s] * across + columns[s], np.int64(0)
    for c in reached:
        there = rows[c] * across + columns[c]
        hops += add_branch(tree, routes, here, there, rate, marks, mark)
    return hops


@njit(cache=True, nogil=True)
def _detour_cost(routes, s, reached, rate):
    """Return rate times the cost of routes beyond the distances that `cast_cost` adds up."""
    cost = np.int64(0)
    for c in reached:
        cost += extra_cost(routes, s, c)
    return rate * cost


# Without reference counting (`_nrt=False`), which costs as much as a tree per neuron.
@njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]
def sweep_block(block, mapping, serial, arrays):
    """Add the contributions of a `KernelBlock` under a `KernelMapping` to the `Arrays` of a thread.

    Returns the length of the run; the connectivity; the hops of the trees in float64; the exact
    hops of one packet per synapse at the same rates; the same with one more hop each in float64, an
    upper bound of all sums over packets or synaptic events; and the cost of one packet per
    destination core.
    """
    first, order, indptr = block.first, block.order, block.indptr
    core, rates = mapping.core, mapping.rates
    torus, detoured = mapping.routes.torus, len(mapping.routes.table) > 0
    cells, reached, touched, bits = arrays.cells, arrays.reached, arrays.touched, arrays.bits
    extents, active = arrays.extents, arrays.activity
    out_keys, out_sums = arrays.keys, arrays.sums
    n_out = np.int64(0)  # not a literal, which would compile another version of `_flush`
    n_touched = 0
    connectivity = 0
    tree_hops = 0.0
    unicast_hops = np.int64(0)
    unicast_about = 0.0
    core_cost = np.int64(0)
    source = np.int64(-1)
    for i in range(len(order)):
        v = first + order[i]
        s = core[v]
        if s != source:
            if n_touched > 0:
                n_out = _flush(source, cells, touched, n_touched, bits, out_keys, out_sums, n_out)
                n_touched = 0
            source = s
        start = indptr[order[i]]
        degree = indptr[order[i] + 1] - start
        mark = serial + i
        largest, n_reached, n_touched = _gather(
            block, mapping, arrays, v, start, degree, mark, n_touched
        )
        rate = rates[v] if mapping.has_rates else largest
        spread, others, n_columns = _reach(mapping, arrays, s, n_reached, rate, mark)
        arrays.axons_out[s] += max(1, n_reached) if mapping.copies else others
        if degree == 0 or rate == 0:
            continue
        unicast_hops += rate * spread
        unicast_about += float(rate) * (spread + degree)
        if others == 0:
            continue
        connectivity += rate * others
        active[s, _SENT] += rate * others
        active[s, _SPIKES] += rate
        if mapping.priced:
            core_cost += cast_cost(mapping.axes, s, reached[:n_reached], rate)
            if detoured:
                core_cost += _detour_cost(mapping.routes, s, reached[:n_reached], rate)
        cast, diff = arrays.core_links, arrays.tree_links
        if detoured:
            hops = _add_branches(mapping, s, reached[:n_reached], rate, extents, mark, diff)
        elif torus:
            hops = add_round(mapping, s, reached[:n_reached], rate, extents, mark, cast, diff)
        else:
            hops = _add_tree(diff, extents, n_columns, mapping.columns[s], mapping.rows[s], rate)
        tree_hops += float(rate) * hops
    if n_touched > 0:
        n_out = _flush(source, cells, touched, n_touched, bits, out_keys, out_sums, n_out)
    return n_out, connectivity, tree_hops, unicast_hops, unicast_about, core_cost
