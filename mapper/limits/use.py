"""Resource use of parts, counted exactly in one pass over a network.

No limit depends on the position of a part on the mesh: axons_out counts distinct (neuron, other
core) pairs at any distance. So parts can be checked and repaired before placement, and cores after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.chip.limits import LIMITS, MEMORY
from chipsim.chip.model import Chip
from chipsim.chip.unlike import limit_of_cores
from mapper.concurrency.threads import ThreadTeam, WorkspacePool
from storage.arrays import Int32, Int64
from storage.graph import Graph

NEURONS, SYNAPSES, AXONS_IN, AXONS_OUT, BITS = range(5)  # rows of `Use.table`
LIMIT_NAMES = (*LIMITS, MEMORY)
"""Names of the limits in the order of rows."""
NO_LIMIT = 1 << 62
ONE_CORE = 1 << 30  # weight of an excess of one whole core


@njit(cache=True, nogil=True)
def _count_axons(first, indptr, targets, part, stamp, axons_in, axons_out, reach, copies):
    """Add the use of the outgoing synapses of a block.

    copies : axons_out counts the neurons, with a copy for each further part that they reach

    stamp : scratch per part, without ids of vertices of the block on entry
    reach : receives the number of parts that each neuron has synapses in, its own included
    """
    for i in range(indptr.size - 1):
        s = first + i
        found = 0
        for e in range(indptr[i], indptr[i + 1]):
            k = part[targets[e]]
            if stamp[k] != s:
                stamp[k] = s
                axons_in[k] += 1
                found += 1
        reach[s] = found
        own = 1 if stamp[part[s]] == s else 0
        axons_out[part[s]] += max(1, found) if copies else found - own


@njit(cache=True, nogil=True)
def _count_ends(first, indptr, incoming, undirected, fan_in, fan_out):
    """Count the incoming and outgoing synapses of each vertex of a block."""
    for i in range(indptr.size - 1):
        into = np.int64(0)
        for e in range(indptr[i], indptr[i + 1]):
            into += incoming[e] > 0
        degree = indptr[i + 1] - indptr[i]
        fan_in[first + i] = degree if undirected else into
        fan_out[first + i] = degree if undirected else degree - into


@dataclass(frozen=True, slots=True)
class Fans:
    """Synapses per vertex, each ndarray[int64] of shape (vertices,).

    into : incoming synapses, each from another source
    out : outgoing synapses
    """

    into: Int64
    out: Int64


class BitCosts(NamedTuple):
    """Bits of a memory that neurons and synapses share: per unit of neuron size, and per synapse.

    Both are 0 if they share none.
    """

    neuron: int = 0
    synapse: int = 0

    @classmethod
    def on(cls, chip: Chip) -> BitCosts:
        """Return the bits on a chip."""
        return NO_BITS if chip.shared_bits is None else cls(chip.neuron_bits, chip.synapse_bits)

    def of(self, sizes: Int64, synapses: Int64) -> Int64:
        """Return the bits of neurons and synapses, elementwise."""
        return sizes * self.neuron + synapses * self.synapse


NO_BITS = BitCosts()


@dataclass(frozen=True, slots=True)
class Use:
    """The resource use of all parts.

    table : ndarray[int64], shape (5, parts), rows in the order of `LIMIT_NAMES`
    reach : ndarray[int32], shape (neurons,), number of parts that each neuron has synapses in
    """

    table: Int64
    reach: Int32


def limits_of(chip: Chip) -> Int64:
    """Return the limits of a core in the order of LIMIT_NAMES, `NO_LIMIT` where the chip has none.

    The limit on synapses follows from the memory size, if the chip has one. Bits are limited where
    neurons and synapses share that memory.
    """
    given = (chip.neurons, chip.synapse_limit, chip.axons_in, chip.out_limit, chip.shared_bits)
    return np.array([NO_LIMIT if limit is None else limit for limit in given], np.int64)


def reserved_on(chip: Chip) -> Int64 | None:
    """Return the missing part of each limit on each core, shape (5, cores); None for nothing.

    Counted as use of a core, it keeps the core within its own limits.
    """
    if not chip.core_limits:
        return None
    names = ("neurons", "synapse_limit", "axons_in", "out_limit", "shared_bits")
    own = [limit_of_cores(chip, name) for name in names]
    most = limits_of(chip)
    return np.stack(
        [np.zeros(chip.cores, np.int64) if one is None else most[r] - one
         for r, one in enumerate(own)]
    )  # fmt: skip


def weight_of_excess(limits: Int64) -> Int64:
    """Return the weight of one unit above each limit, which makes limits comparable."""
    return np.maximum(1, ONE_CORE // limits)


def excess(table: Int64, limits: Int64) -> Int64:
    """Return the weighted sum of the excesses of each part, shape (parts,)."""
    over = np.maximum(table - limits[:, None], 0)
    return np.asarray((over * weight_of_excess(limits)[:, None]).sum(axis=0), np.int64)


def count_fans(graph: Graph, threads: int = 1) -> Fans:
    """Count the synapses at each vertex, in one pass."""
    fans = Fans(np.zeros(graph.vertices, np.int64), np.zeros(graph.vertices, np.int64))
    for block in graph.blocks(threads=threads):
        _count_ends(
            block.first, block.indptr, block.incoming, graph.undirected, fans.into, fans.out
        )
    return fans


def count_use(
    graph: Graph,
    part: Int32,
    parts: int,
    sizes: Int64,
    fan_in: Int64,
    team: ThreadTeam,
    copies: bool = False,
    bits: BitCosts = NO_BITS,
) -> Use:
    """Count the use of all parts, in one pass.

    part : ndarray[int32], shape (vertices,), 0 .. parts-1
    sizes, fan_in : ndarray[int64], shape (vertices,)
    copies : the chip allows a neuron a single target core, see `Chip.single_target`
    bits : of a memory that neurons and synapses share
    """
    use = Use(np.zeros((5, parts), np.int64), np.zeros(graph.vertices, np.int32))
    np.add.at(use.table[NEURONS], part, sizes)
    np.add.at(use.table[SYNAPSES], part, fan_in)
    use.table[BITS] = bits.of(use.table[NEURONS], use.table[SYNAPSES])

    def fresh() -> tuple[Int32, Int64]:
        return np.full(parts, -1, np.int32), np.zeros((2, parts), np.int64)

    tallies: list[Int64] = []
    workspaces = WorkspacePool(fresh)

    def count(index: int) -> None:
        indptr, targets, _ = graph.read_outgoing(index)
        first, _ = graph.block_bounds(index)
        with workspaces.borrow() as (stamp, axons):
            _count_axons(first, indptr, targets, part, stamp, axons[0], axons[1], use.reach, copies)
            if not any(axons is known for known in tallies):
                tallies.append(axons)

    for _ in team.stream(count, range(graph.block_count)):
        pass
    for axons in tallies:  # integer sums: the order does not matter
        use.table[AXONS_IN : AXONS_OUT + 1] += axons
    return use
