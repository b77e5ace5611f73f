"""The traffic of a stored network under a mapping, gathered by workers.

Each worker reads ranges of blocks from the network file, which has directions and weights of
synapses; the rows cached for refinement do not. All sums are integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chipsim.chip.model import Chip
from chipsim.traffic.sweep import Sweep, Swept
from mapper.executors.shard import Shard, State
from mapper.executors.worker_interface import Workers
from mapper.graph.csr import Chunk
from mapper.graph.network_rows import open_same
from mapper.graph.rows import StreamedRows
from mapper.monitoring.monitor import Monitor
from mapper.scoring.measure import OutgoingSynapses
from storage.arrays import Int32
from storage.blobs.access import StoreAccess, current_access
from storage.scratch.scratch import Scratch
from storage.store.network import RATE, NetworkFile


class SynapseSource(NamedTuple):
    """The synapses of a network, by its path; identity : of the file, see `NetworkFile`.

    access : of the driver, if the path is an address
    """

    path: Path
    identity: tuple[int, int]
    access: StoreAccess

    @property
    def exchanged(self) -> bool:
        return False

    def open(self, scratch: Scratch) -> SynapseRows:
        """Open the rows; raises the errors of `open_same`."""
        return SynapseRows(open_same(self.path, self.identity, self.access), scratch.path)


class SynapseRows(StreamedRows):
    """Outgoing synapses as stored, weights in 64 bits; one row per neuron.

    rates : of all neurons, None if the weights determine them
    folder : for sums that exceed their memory
    """

    def __init__(self, network: NetworkFile, folder: Path) -> None:
        super().__init__(network, np.broadcast_to(np.int64(0), (network.vertices,)), 0)
        has_rates = RATE in network.meta.attributes
        self.rates = network.attribute(RATE).stored if has_rates else None
        self.undirected = network.undirected
        self.folder = folder

    def read(self, index: int) -> Chunk:
        first, _ = self._graph.block_bounds(index)
        return Chunk(first, *self._graph.read_outgoing(index))


class SweepHere:
    """A sweep over some blocks on a worker; see `Gathering`."""

    def __init__(self, shard: Shard, chip: Chip) -> None:
        """The part in the state is the core of every neuron."""
        rows = shard.rows
        assert isinstance(rows, SynapseRows), "opened by a SynapseSource"
        sizes = np.zeros(rows.vertices, np.int64)  # neurons are counted in the final sum
        self._sweep = Sweep(
            chip, shard.state.part, sizes, rates=rows.rates, undirected=rows.undirected,
            scratch=rows.folder,
        )  # fmt: skip

    def add(self, chunk: Chunk) -> None:
        self._sweep.add(OutgoingSynapses(chunk.first, (chunk.indptr, chunk.ids, chunk.weights)))

    def result(self) -> Swept:
        return self._sweep.swept()


def sweep_on(
    workers: Workers, network: NetworkFile, chip: Chip, core: Int32, monitor: Monitor
) -> Iterator[Swept]:
    """Yield the sums that workers gather over all blocks; each receives all cores once.

    monitor : receives the number of connections of each block, as in `measure_network`
    """
    both = 1 if network.undirected else 2  # a synapse counts at its source and its target
    source = SynapseSource(network.path.absolute(), network.identity, current_access())
    executor = workers.executor(source, network.block_count, network.connections, monitor)
    executor.begin(State(core))

    def advance(synapses: int) -> None:
        monitor.advance(both * synapses)

    yield from executor.gather(SweepHere, chip, advance=advance)
