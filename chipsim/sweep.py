"""The one pass over a network that all metrics come from.

Each block of vertices leaves behind: sums per (source core, target core), the links of the
multicast trees, and the use of each core. A multicast tree is the union of the XY routes from the
neuron's core to the distinct cores that it reaches: the horizontal extent of the row of the
source, and in each column with a target the vertical extent from that row.

All sums are int64 in weight units or rate units. They are exact and do not depend on the order of
the blocks; a sum that would not fit raises ChipError. Memory is O(cores + block), plus the core
pairs with traffic.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.chip import Chip
from chipsim.errors import ChipError
from chipsim.limits import Usage
from chipsim.links import new_differences
from chipsim.pairs import PairSums
from chipsim.protocols import Int32Array, Int64Array, SynapseBlock

SUM_LIMIT = 2.0**62
"""Sums are watched in float64 and refused from here on: half of what int64 holds."""


class Sweep:
    """Gathers traffic and usage block by block; see `chipsim.traffic.measure` for the arguments."""

    def __init__(
        self,
        chip: Chip,
        core: Int32Array,
        sizes: Int64Array,
        rates: Int64Array | None,
        undirected: bool,
    ) -> None:
        self._core = core
        self._rates = np.zeros(0, dtype=np.int64) if rates is None else rates
        self._has_rates = rates is not None
        self._undirected = undirected
        x, y = chip.coordinates()
        self._columns, self._rows = x, y
        self.usage = Usage.zeros(chip.cores)
        bad = _fill(core, sizes, self.usage.count, self.usage.neurons)
        if bad >= 0:
            raise ChipError(_bad_neuron(chip, bad, core, sizes))
        self.pairs = PairSums(self.usage.count > 0)
        self.tree_links = new_differences(chip)
        self.connectivity = 0
        self.vertices = 0
        self._weight = 0.0
        self._tree_hops = 0.0
        # Scratch of the kernel, all shared by the blocks. A stamp equals the serial number of the
        # neuron at work where that neuron has been, so that nothing is ever cleared.
        self._serial = 0
        self._stamp = np.full(chip.cores, -1, dtype=np.int64)
        self._column_stamp = np.full(chip.width, -1, dtype=np.int64)
        self._extents = np.zeros((3, chip.width), dtype=np.int64)
        self._sums = np.zeros(chip.cores, dtype=np.int64)
        self._touched = np.zeros(chip.cores, dtype=np.int64)

    def add(self, block: SynapseBlock) -> None:
        """Take in one block; ChipError if it does not belong to the network or is malformed."""
        indptr, targets, weights = block.outgoing()
        first = block.first
        count = len(indptr) - 1
        self._check(first, indptr, targets, weights)
        mine = self._core[first : first + count]
        # Neurons of a core side by side: their synapses add up before they meet the pair sums.
        order = np.argsort(mine, kind="stable")
        keys = np.empty(len(targets), dtype=np.int64)
        sums = np.empty(len(targets), dtype=np.int64)
        n, connectivity, tree_hops = _sweep(
            first,
            order,
            indptr,
            targets,
            weights,
            self._core,
            self._rates,
            self._has_rates,
            self._undirected,
            self._columns,
            self._rows,
            self._serial,
            self._stamp,
            self._column_stamp,
            self._extents,
            self._sums,
            self._touched,
            self.usage.synapses,
            self.usage.axons_in,
            self.usage.axons_out,
            self.tree_links,
            keys,
            sums,
        )
        self._tree_hops += tree_hops
        if self._tree_hops >= SUM_LIMIT:
            raise ChipError("multicast: rate * links exceeds 2^62; use a coarser rate unit")
        self.connectivity += int(connectivity)
        self._serial += count
        self.vertices += count
        self.pairs.add(keys[:n], sums[:n])

    def _check(
        self, first: int, indptr: Int64Array, targets: Int32Array, weights: Int64Array
    ) -> None:
        """Refuse what would make the kernel read or write outside its arrays."""
        where = f"block of vertex {first}"
        count = len(indptr) - 1
        neurons = len(self._core)
        if count < 0 or first < 0 or first + count > neurons:
            raise ChipError(
                f"{where}: it holds {count} vertices, the mapping {neurons} neurons; "
                "use the mapping of this network"
            )
        if not len(targets) == len(weights) == indptr[-1] or indptr[0] != 0:
            raise ChipError(f"{where}: indptr, targets and weights disagree; verify the network")
        if np.any(indptr[1:] < indptr[:-1]):
            raise ChipError(f"{where}: indptr decreases; verify the network")
        if not len(targets):
            return
        if targets.min() < 0 or targets.max() >= neurons:
            raise ChipError(f"{where}: a target is not a neuron; verify the network")
        if weights.min() < 0:
            raise ChipError(f"{where}: a weight is negative; weights are traffic, 0 or more")
        self._weight += float(weights.sum(dtype=np.float64))
        if self._weight >= SUM_LIMIT:
            raise ChipError(f"{where}: weights add up to over 2^62; use a coarser weight unit")


def _bad_neuron(chip: Chip, neuron: int, core: Int32Array, sizes: Int64Array) -> str:
    if sizes[neuron] < 0:
        return f"neuron {neuron} has size {sizes[neuron]}; sizes are 0 or more"
    return (
        f"neuron {neuron} is on core {core[neuron]}, outside the {chip.width}x{chip.height} mesh; "
        "check the mapping and the chip"
    )


@njit(cache=True, nogil=True)
def _fill(core: Int32Array, sizes: Int64Array, count: Int64Array, used: Int64Array) -> int:
    """Count neurons and sizes per core; returns the first bad neuron, or -1."""
    for v in range(len(core)):
        c = core[v]
        if c < 0 or c >= len(count) or sizes[v] < 0:
            return v
        count[c] += 1
        used[c] += sizes[v]
    return -1


@njit(cache=True, nogil=True)
def _flush(
    source: int,
    sums: Int64Array,
    touched: Int64Array,
    n: int,
    out_keys: Int64Array,
    out_sums: Int64Array,
    at: int,
) -> int:
    """Write the sums of one source core by increasing target core and clear them."""
    cores = len(sums)
    row = np.int64(source) * cores
    if 16 * n > cores:  # then a scan beats sorting
        for c in range(cores):
            if sums[c] != 0:
                out_keys[at] = row + c
                out_sums[at] = sums[c]
                sums[c] = 0
                at += 1
        return at
    touched[:n].sort()
    for i in range(n):
        c = touched[i]
        out_keys[at] = row + c
        out_sums[at] = sums[c]
        sums[c] = 0
        at += 1
    return at


@njit(cache=True, nogil=True)
def _sweep(
    first: int,
    order: Int64Array,
    indptr: Int64Array,
    targets: Int32Array,
    weights: Int64Array,
    core: Int32Array,
    rates: Int64Array,
    has_rates: bool,
    undirected: bool,
    columns: Int32Array,
    rows: Int32Array,
    serial: int,
    stamp: Int64Array,
    column_stamp: Int64Array,
    extents: Int64Array,
    sums: Int64Array,
    touched: Int64Array,
    synapses: Int64Array,
    axons_in: Int64Array,
    axons_out: Int64Array,
    diff: Int64Array,
    out_keys: Int64Array,
    out_sums: Int64Array,
) -> tuple[int, int, float]:
    """All that one block adds, its vertices visited in ``order`` (grouped by core, ascending).

    extents : (3, width): columns of the tree at work, and the lowest and highest row in each
    sums, touched : (cores,): weight from the source core at work, and the cores that have some
    diff : (4, height + 1, width + 1): differences of the multicast link loads
    out_keys, out_sums : (synapses,): the run for PairSums

    Returns the length of the run, the connectivity, and the hops of the trees in float64.
    """
    n_out = 0
    n_touched = 0
    connectivity = 0
    tree_hops = 0.0
    source = -1
    for i in range(len(order)):
        v = first + order[i]
        s = core[v]
        if s != source:
            if n_touched > 0:
                n_out = _flush(source, sums, touched, n_touched, out_keys, out_sums, n_out)
                n_touched = 0
            source = s
        x0 = columns[s]
        y0 = rows[s]
        west = x0
        east = x0
        n_columns = 0
        reached = 0
        largest = 0
        mark = serial + i
        for e in range(indptr[order[i]], indptr[order[i] + 1]):
            c = core[targets[e]]
            w = weights[e]
            largest = max(largest, w)
            synapses[c] += 1
            if w > 0 and (not undirected or targets[e] > v):
                if sums[c] == 0:
                    touched[n_touched] = c
                    n_touched += 1
                sums[c] += w
            if stamp[c] == mark:
                continue
            stamp[c] = mark
            axons_in[c] += 1
            if c == s:
                continue
            reached += 1
            x = columns[c]
            y = rows[c]
            west = min(west, x)
            east = max(east, x)
            if column_stamp[x] != mark:
                column_stamp[x] = mark
                extents[0, n_columns] = x
                extents[1, x] = y0
                extents[2, x] = y0
                n_columns += 1
            extents[1, x] = min(extents[1, x], y)
            extents[2, x] = max(extents[2, x], y)
        axons_out[s] += reached
        rate = rates[v] if has_rates else largest
        if reached == 0 or rate == 0:
            continue
        connectivity += rate * reached
        hops = east - x0 + x0 - west
        diff[0, y0, x0] += rate
        diff[0, y0, east] -= rate
        diff[1, y0, west + 1] += rate
        diff[1, y0, x0 + 1] -= rate
        for j in range(n_columns):
            x = extents[0, j]
            low = extents[1, x]
            high = extents[2, x]
            hops += high - low
            diff[2, y0, x] += rate
            diff[2, high, x] -= rate
            diff[3, low + 1, x] += rate
            diff[3, y0 + 1, x] -= rate
        tree_hops += float(rate) * hops
    if n_touched > 0:
        n_out = _flush(source, sums, touched, n_touched, out_keys, out_sums, n_out)
    return n_out, connectivity, tree_hops
