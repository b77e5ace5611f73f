"""What a run of the classic method will need, estimated before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from mapper.settings import Settings
from storage.network import NetworkFile
from storage.sorter import BYTES_PER_ENTRY

INTERPRETER = 160 << 20  # Python, numba and the compiled kernels, measured
BYTES_PER_BLOCK_ENTRY = 64  # decoded block, its undirected copy and the relabelled one
CSR_BYTES = 12  # id and weight of a connection held in memory
LEVEL_SHRINK = 0.85  # connections that a round leaves on networks with little structure, measured
SCRATCH_BYTES = 4.0  # of a connection in a zstd block


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes: of memory at the peak, of disk for scratch, of disk for the sort at the same time."""

    memory: int
    scratch: int
    sorting: int


def plan(network: NetworkFile, settings: Settings) -> Needs:
    """An upper estimate, from the number of neurons and connections.

    Memory: arrays per neuron (one mate per repeat, coarse ids, sizes, parts), the blocks in
    flight, and the larger of the external sort and the coarsest graph. Coarsening by pairs with
    a limit of 1/15 of a core leaves up to a few tenths of the connections for the coarsest one.
    """
    per_neuron = 4 * settings.matching_repeats + 64
    in_flight = 3 * settings.threads * BYTES_PER_BLOCK_ENTRY
    block = in_flight * min(network.connections, 2 * max(1, network.meta.largest_block_bytes // 3))
    sort_budget = settings.memory_bytes // 4
    sorting = min(sort_budget, BYTES_PER_ENTRY * network.connections)
    coarsest = int(3 * CSR_BYTES * LEVEL_SHRINK**4 * network.connections)
    spilled = 16 * network.connections if BYTES_PER_ENTRY * network.connections > sort_budget else 0
    return Needs(
        memory=INTERPRETER + per_neuron * network.vertices + block + max(sorting, coarsest),
        scratch=int(SCRATCH_BYTES * network.connections * LEVEL_SHRINK / (1 - LEVEL_SHRINK)),
        sorting=spilled,
    )
