"""The single pass over a network that all metrics are computed from.

Each block of vertices contributes: sums per (source core, target core), the link loads of packets
to cores and of multicast trees, the hops of one packet per synapse, and the use and activity of
each core. A packet to a core takes its own XY route. A multicast tree is the union of the XY routes
from the neuron's core to the distinct cores that it reaches: the horizontal extent in the row of
the source, and in each column with a target the vertical extent from that row. If links are broken,
both follow the routes of `chipsim.detours`.

All sums are int64 in weight units or rate units. They are exact and depend neither on the order of
the blocks nor on the threads; overflow raises ChipError. Memory is O(cores + block) per thread,
plus the core pairs with traffic.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np

from chipsim.chip.limits import Usage
from chipsim.chip.machine import STRAIGHT
from chipsim.chip.model import Chip
from chipsim.errors import ChipError
from chipsim.protocols import Int32Array, Int64Array, SynapseBlock
from chipsim.traffic.activity import Activity
from chipsim.traffic.links import new_differences
from chipsim.traffic.pairs import PairRun, PairSums
from chipsim.traffic.routes import Routes, distances_of, require_routes
from chipsim.traffic.sweep_kernel import (
    STAMP,
    Arrays,
    KernelBlock,
    KernelMapping,
    examine,
    fill_cores,
    sweep_block,
)

SUM_LIMIT = 2.0**62
"""Limit of sums, tracked in float64: half of the int64 range."""

_FAULTS = {
    1: "indptr decreases; verify the network",
    2: "a target is not a neuron; verify the network",
    3: "a weight is negative; weights are traffic, 0 or more",
}


class Swept(NamedTuple):
    """Sums of a sweep over some blocks, as other processes send them.

    columns : ndarray[int64], shape (cores, 3): synapses, axons in, axons out
    activity : ndarray[int64], shape (cores, 5), as for `Activity.add`
    sums : connectivity, unicast hops, cost of packets to cores, vertices
    about : sums tracked against overflow, in float64: weights, and links of trees
    """

    columns: Int64Array
    activity: Int64Array
    core_links: Int64Array
    tree_links: Int64Array
    pairs: PairRun
    sums: tuple[int, int, int, int]
    about: tuple[float, float]


class Sweep:
    """Collect traffic and usage block by block; arguments as in `chipsim.traffic.arrays.measure`.

    Several threads may call `add` concurrently; `finish` then completes the attributes.
    """

    def __init__(
        self,
        chip: Chip,
        core: Int32Array,
        sizes: Int64Array,
        rates: Int64Array | None,
        undirected: bool,
        scratch: Path | None = None,
    ) -> None:
        self._chip = chip
        routes = Routes.of(chip)
        self._mapping = KernelMapping(
            core,
            np.zeros(0, dtype=np.int64) if rates is None else rates,
            rates is not None,
            undirected,
            *routes.of_cores(),
            routes,
            chip.axes,
            chip.machine is not None,
            chip.single_target,
        )
        self.usage = Usage.zeros(chip.cores)
        bad = fill_cores(core, sizes, self.usage.count, self.usage.neurons)
        if bad >= 0:
            raise ChipError(_bad_neuron(chip, bad, core, sizes))
        require_routes(chip, np.flatnonzero(self.usage.count))
        self.activity = Activity.idle(chip.cores)
        self.pairs = PairSums(chip.cores, scratch)
        self.core_links, self.tree_links = _differences(chip)
        self.connectivity = 0
        self.unicast_hops = 0
        self.core_cost = 0
        self.vertices = 0
        self._weight = 0.0
        self._tree_hops = 0.0
        self._lock = Lock()
        self._idle: list[_Tally] = []

    def add(self, block: SynapseBlock) -> None:
        """Add one block; ChipError if it does not belong to the network or is malformed."""
        indptr, targets, weights = block.outgoing()
        first = block.first
        degree = self._check(first, indptr, targets, weights)
        with self._lock:
            tally = self._idle.pop() if self._idle else _Tally(self._chip)
        tally.reserve(len(targets), degree)
        mine = self._mapping.core[first : first + len(indptr) - 1]
        # Process the neurons of a core together: their synapses are summed before they reach the
        # pair sums.
        order = np.argsort(mine, kind="stable")
        n, connectivity, tree_hops, unicast_hops, unicast_about, core_cost = sweep_block(
            KernelBlock(first, order, indptr, targets, weights), self._mapping, tally.serial,
            tally.arrays,
        )  # fmt: skip
        tally.serial += len(mine)
        self.pairs.add(tally.arrays.keys[:n], tally.arrays.sums[:n])
        with self._lock:
            self._idle.append(tally)
            self.connectivity += int(connectivity)
            self.unicast_hops += int(unicast_hops)
            self.core_cost += int(core_cost)
            self.vertices += len(mine)
            self._tree_hops += tree_hops
            if self._tree_hops >= SUM_LIMIT:
                raise ChipError("multicast: rate * links exceeds 2^62; use a coarser rate unit")
            if unicast_about >= SUM_LIMIT:
                raise ChipError(
                    "multicast: rate * (hops + 1) exceeds 2^62; use a coarser rate unit"
                )

    def finish(self) -> None:
        """Add up the sums of the threads; ChipError if a cost would exceed 2^62."""
        if self._mapping.priced and self.connectivity * _longest(self._chip) >= SUM_LIMIT:
            raise ChipError("core: rate * cost may exceed 2^62; use coarser step costs")
        for tally in self._idle:
            self.usage.synapses[:] += tally.arrays.synapses
            self.usage.axons_in[:] += tally.arrays.axons_in
            self.usage.axons_out[:] += tally.arrays.axons_out
            self.core_links += tally.arrays.core_links
            self.tree_links += tally.arrays.tree_links
            self.activity.add(tally.arrays.activity)
        self._idle.clear()

    def swept(self) -> Swept:
        """Complete and return the sums."""
        self.finish()
        usage, activity = self.usage, self.activity
        return Swept(
            np.stack([usage.synapses, usage.axons_in, usage.axons_out], axis=1),
            np.stack([getattr(activity, field.name) for field in fields(activity)], axis=1),
            self.core_links,
            self.tree_links,
            self.pairs.table().run,
            (self.connectivity, self.unicast_hops, self.core_cost, self.vertices),
            (self._weight, self._tree_hops),
        )

    def join(self, other: Swept) -> None:
        """Add the sums of other blocks; ChipError if a sum would exceed 2^62."""
        for mine, more in zip(
            (self.usage.synapses, self.usage.axons_in, self.usage.axons_out),
            other.columns.T,
            strict=True,
        ):
            mine += more
        self.activity.add(other.activity)
        self.core_links += other.core_links
        self.tree_links += other.tree_links
        self.pairs.add_run(other.pairs)
        connectivity, unicast_hops, core_cost, vertices = other.sums
        self.connectivity += connectivity
        self.unicast_hops += unicast_hops
        self.core_cost += core_cost
        self.vertices += vertices
        self._weight += other.about[0]
        self._tree_hops += other.about[1]
        if self._weight >= SUM_LIMIT:
            raise ChipError("the sum of weights exceeds 2^62; use a coarser weight unit")
        if self._tree_hops >= SUM_LIMIT:
            raise ChipError("multicast: rate * links exceeds 2^62; use a coarser rate unit")

    def _check(
        self, first: int, indptr: Int64Array, targets: Int32Array, weights: Int64Array
    ) -> int:
        """Reject data that would make the kernel exceed its arrays; return the largest degree."""
        where = f"block of vertex {first}"
        count = len(indptr) - 1
        neurons = len(self._mapping.core)
        if count < 0 or first < 0 or first + count > neurons:
            raise ChipError(
                f"{where}: its {count} vertices exceed the {neurons} neurons of the mapping; "
                "use the mapping of this network"
            )
        if not len(targets) == len(weights) == indptr[-1] or indptr[0] != 0:
            raise ChipError(f"{where}: indptr, targets and weights disagree; verify the network")
        fault, degree, weight = examine(indptr, targets, weights, neurons)
        if fault:
            raise ChipError(f"{where}: {_FAULTS[fault]}")
        with self._lock:
            self._weight += weight
            if self._weight >= SUM_LIMIT:
                raise ChipError(
                    f"{where}: the sum of weights exceeds 2^62; use a coarser weight unit"
                )
        return int(degree)


class _Tally:
    """The arrays of one thread at a time, and the serial number of its next neuron."""

    def __init__(self, chip: Chip) -> None:
        self.serial = 0
        cells = np.zeros((chip.cores, 3), dtype=np.int64)
        cells[:, STAMP] = -1
        core_links, tree_links = _differences(chip)
        self.arrays = Arrays(
            cells=cells,
            extents=np.full(_extents(chip), -1, dtype=np.int64),
            ends=np.zeros(0, dtype=np.int32),
            reached=np.zeros(0, dtype=np.int32),
            touched=np.zeros(chip.cores + 1, dtype=np.int32),
            bits=np.zeros((chip.cores + 31) // 32, dtype=np.int64),
            synapses=np.zeros(chip.cores, dtype=np.int64),
            axons_in=np.zeros(chip.cores, dtype=np.int64),
            axons_out=np.zeros(chip.cores, dtype=np.int64),
            activity=np.zeros((chip.cores, 5), dtype=np.int64),
            core_links=core_links,
            tree_links=tree_links,
            keys=np.zeros(0, dtype=np.int64),
            sums=np.zeros(0, dtype=np.int64),
        )

    def reserve(self, synapses: int, degree: int) -> None:
        """Reserve room for a block of ``synapses``, at most ``degree`` of them per neuron."""
        if len(self.arrays.keys) < synapses:
            self.arrays = self.arrays._replace(
                keys=np.empty(synapses, dtype=np.int64), sums=np.empty(synapses, dtype=np.int64)
            )
        if len(self.arrays.ends) < degree:
            self.arrays = self.arrays._replace(
                ends=np.empty(degree, dtype=np.int32), reached=np.empty(degree + 1, dtype=np.int32)
            )


def _differences(chip: Chip) -> tuple[Int64Array, Int64Array]:
    """Return zero differences for packets to cores and for trees.

    Turns are included only for packets that the chip sends. With trees, packets to cores have turns
    as well, as they determine where the trees end.
    """
    return (
        new_differences(chip, chip.delivery != "synapse"),
        new_differences(chip, chip.delivery == "tree"),
    )


def _extents(chip: Chip) -> tuple[int, int]:
    """Return the shape of the scratch of a tree: its columns, or its links if some are broken."""
    columns, rows = chip.routers
    return (columns * rows if chip.detoured else columns), 4


def _longest(chip: Chip) -> float:
    """Return an upper bound of the cost of a route."""
    ends = [at.astype(np.float64) for at in (chip.axes.x, chip.axes.y)]
    if not chip.detoured:
        return float(ends[0][-1] + ends[1][-1])
    rounds = [around for around in (chip.axes.round_x, chip.axes.round_y) if around != STRAIGHT]
    steps = [float(np.diff(at).max(initial=0)) for at in ends]
    return distances_of(chip) * max(*steps, *rounds, 0.0) + float(ends[0][-1] + ends[1][-1])


def _bad_neuron(chip: Chip, neuron: int, core: Int32Array, sizes: Int64Array) -> str:
    if sizes[neuron] < 0:
        return f"neuron {neuron} has size {sizes[neuron]}; sizes must be 0 or more"
    return (
        f"neuron {neuron} is on core {core[neuron]}, outside the {chip.width}x{chip.height} mesh; "
        "check the mapping and the chip"
    )
