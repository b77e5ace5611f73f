"""Check whether a network can fit a chip at all: the minimum demand for each limit.

Lower bounds on axons: a core that holds a neuron has an axon from each of its sources, so the
fan-in of a neuron bounds axons_in. The targets of a neuron s fill at least k(s) cores, by the sums
of their sizes, synapses and bits: each of these cores has an axon from s, and at most one of
them is the core of s. So any mapping has at least sum k(s) axons_in, and sum (k(s) - 1) axons_out.
Where a neuron has a single target, it occupies k(s) places, including its copies.

A core with A axons has at most as many synapses as the A neurons of largest fan-out together;
this also bounds synapses, and k(s) uses it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from chipsim.chip.limits import BITS_OF_MEMORY, MEMORY
from chipsim.chip.memory import NO_MEMORY
from chipsim.chip.model import Chip
from chipsim.chip.unlike import limit_of_cores
from mapper.errors import DoesNotFitError
from mapper.limits.use import BitCosts, Fans, count_fans
from storage.arrays import Int64
from storage.graph import Graph
from storage.store.network import ID, NetworkFile
from storage.store.populations import called


@njit(cache=True, nogil=True)
def _add_targets(first, indptr, targets, sizes, fan_in, size_sum, synapse_sum):
    """Sum the sizes and incoming synapses of the targets of each neuron of a block."""
    for i in range(indptr.size - 1):
        size = np.int64(0)
        synapses = np.int64(0)
        for e in range(indptr[i], indptr[i + 1]):
            t = np.uint32(targets[e])
            size += sizes[t]
            synapses += fan_in[t]
        size_sum[first + i] = size
        synapse_sum[first + i] = synapses


@dataclass(frozen=True, slots=True)
class AxonBounds:
    """Lower bounds for any mapping.

    spread : ndarray[int64], shape (neurons,), cores that the targets of each neuron fill
    cores : cores that the synapses fill, given the limit on axons per core
    """

    spread: Int64
    cores: int

    @property
    def axons_in(self) -> int:
        return int(self.spread.sum())


def axon_bounds(graph: Graph, chip: Chip, sizes: Int64, fans: Fans, threads: int = 1) -> AxonBounds:
    """Compute bounds on axons, in one pass.

    sizes : size of each neuron, ndarray[int64], shape (neurons,)
    """
    most = most_synapses(chip, fans)
    size_sum, synapse_sum = np.zeros((2, graph.vertices), np.int64)
    for block in graph.blocks(threads=threads):
        indptr, targets, _ = block.outgoing()
        _add_targets(block.first, indptr, targets, sizes, fans.into, size_sum, synapse_sum)
    spread = np.maximum(-(-size_sum // chip.neurons), -(-synapse_sum // most))
    if chip.shared_bits is not None:
        bits = BitCosts.on(chip).of(size_sum, synapse_sum)
        np.maximum(spread, -(-bits // chip.shared_bits), out=spread)
    np.maximum(spread, fans.out > 0, out=spread)  # targets of size 0 still occupy a core
    return AxonBounds(spread, -(-int(fans.into.sum()) // most))


def most_synapses(chip: Chip, fans: Fans) -> int:
    """Return the most synapses a core can have within its limits on synapses and axons_in, >= 1."""
    most = int(fans.into.sum())
    if chip.synapse_limit is not None:
        most = min(most, chip.synapse_limit)
    if chip.axons_in is not None and chip.axons_in < fans.out.size:
        widest = np.partition(fans.out, fans.out.size - chip.axons_in)[-chip.axons_in :]
        most = min(most, int(widest.sum()))
    return max(1, most)


@dataclass(frozen=True, slots=True)
class Demand:
    """The minimum demand for one limit, compared with the capacity of the chip.

    limit : name of the limit
    per_core : of the largest core
    needed, available : totals over all usable cores
    vertex : a vertex that no core can hold alone, or None
    largest : demand of the largest vertex
    too_large : number of vertices that no core can hold
    original_id : id of that vertex in the imported file, if it is stored
    called : name of that vertex in messages: its population and number there, if there are any
    """

    limit: str
    per_core: int
    needed: int
    available: int
    vertex: int | None
    largest: int
    too_large: int = 0
    original_id: int | str | None = None
    called: str | None = None

    @property
    def fits(self) -> bool:
        return self.vertex is None and self.needed <= self.available

    def __str__(self) -> str:
        faults = []
        name = BITS_OF_MEMORY if self.limit == MEMORY else self.limit
        if self.vertex is not None:
            origin = "" if self.original_id is None else f" (id {self.original_id})"
            faults.append(
                f"{self.called}{origin} needs {self.largest:,} {name}; a core holds "
                f"{self.per_core:,} ({self.largest - self.per_core:,} short)"
            )
            if self.too_large > 1:
                others = "neuron does" if self.too_large == 2 else "neurons do"
                faults[0] += f"; {self.too_large - 1:,} more {others} not fit either"
            if self.limit in ("synapses", "axons_in", MEMORY):
                faults[0] += "; --split-neurons spreads its synapses over relay neurons"
        if self.fits or self.needed > self.available:
            state = "fits" if self.fits else f"{self.needed - self.available:,} short"
            faults.append(
                f"needs {self.needed:,} {name}; the chip holds {self.available:,} ({state})"
            )
        return "; ".join(faults)


def demands(graph: Graph, chip: Chip, threads: int = 1, fans: Fans | None = None) -> list[Demand]:
    """Return lower bounds on the demand of any mapping for every limit of the chip.

    fans : synapses of the vertices, if known

    neurons, synapses and bits add up over cores; for axons see above. On chips that share synapse
    lists, synapses have no bound.
    """
    chip = without_lists(chip)
    sizes = graph.vertex_sizes()
    found = [_demand("neurons", sizes, int(sizes.sum()), chip.neurons, chip)]
    axons = chip.axons_in is not None or chip.out_limit is not None
    if chip.synapse_limit is not None or axons:
        fans = fans or count_fans(graph, threads)
        if chip.synapse_limit is not None:
            total = int(fans.into.sum())
            found.append(_demand("synapses", fans.into, total, chip.synapse_limit, chip))
        if chip.shared_bits is not None:
            bits = BitCosts.on(chip).of(sizes, fans.into)
            found.append(_demand(MEMORY, bits, int(bits.sum()), chip.shared_bits, chip))
        if axons:
            bounds = axon_bounds(graph, chip, sizes, fans, threads)
            if chip.axons_in is not None:
                needed = bounds.axons_in
                if bounds.cores > chip.usable_count:
                    needed = max(needed, bounds.cores * chip.axons_in)
                found.append(_demand("axons_in", fans.into, needed, chip.axons_in, chip))
            if chip.out_limit is not None:
                leaving = np.maximum(bounds.spread - 1, 0)
                if chip.single_target:
                    leaving = np.maximum(bounds.spread, 1)
                needed = int(leaving.sum())
                found.append(_demand("axons_out", leaving, needed, chip.out_limit, chip))
    return [_with_name(demand, graph) for demand in found]


def _demand(limit: str, use: Int64, needed: int, per_core: int, chip: Chip) -> Demand:
    worst = int(use.argmax())
    largest = int(use[worst])
    available = per_core * chip.usable_count
    if chip.core_limits:
        names = {"synapses": "synapse_limit", "axons_out": "out_limit", MEMORY: "shared_bits"}
        own = limit_of_cores(chip, names.get(limit, limit))
        assert own is not None, "a core has the limit"
        available = int(own[chip.usable].sum())
        per_core = int(own[chip.usable].max())
    return Demand(
        limit,
        per_core,
        needed,
        available,
        worst if largest > per_core else None,
        largest,
        int(np.count_nonzero(use > per_core)),
    )


def _with_name(demand: Demand, graph: Graph) -> Demand:
    """Return a demand with the names of its vertex."""
    if demand.vertex is None:
        return demand
    if not isinstance(graph, NetworkFile):
        return replace(demand, called=f"neuron {demand.vertex}")
    demand = replace(demand, called=called(graph, demand.vertex))
    if ID not in graph.meta.attributes:
        return demand
    ids = graph.attribute(ID)
    original = int(ids.stored[demand.vertex])
    name = original if ids.labels is None else ids.labels[original]
    return replace(demand, original_id=name)


def without_lists(chip: Chip) -> Chip:
    """Return a chip that shares synapse lists without limits on them; any other chip unchanged.

    List words are fewer than synapses, by an unknown factor. Memory that neurons share with lists
    still limits the neurons.
    """
    if chip.sharing == "none":
        return chip
    neurons = chip.neurons
    if chip.shared_bits is not None:
        neurons = min(neurons, max(1, chip.shared_bits // chip.neuron_bits))
    unlike = tuple(
        replace(one, neurons=min(one.neurons, neurons), synapses=None, memory_bits=None)
        for one in chip.core_limits
        if one.neurons is not None
    )
    chip = replace(chip, core_limits=())
    chip = replace(chip, neurons=neurons, synapses=None, sharing="none", **NO_MEMORY)  # type: ignore[arg-type]
    return replace(chip, core_limits=unlike)


def require_fit(graph: Graph, chip: Chip, threads: int = 1, fans: Fans | None = None) -> None:
    """Raise `DoesNotFitError` with the exceeded limits if a network cannot fit the chip."""
    short = [str(demand) for demand in demands(graph, chip, threads, fans) if not demand.fits]
    if short:
        raise DoesNotFitError(
            f"chip {chip.name} with {chip.usable_count} usable cores is too small: "
            f"{'; '.join(short)}; use a larger chip or larger cores"
        )
