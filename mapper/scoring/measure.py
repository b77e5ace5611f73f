"""The traffic of a stored network under a mapping."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.traffic.arrays import Traffic, Units, measure
from chipsim.traffic.sweep import Swept
from mapper.runtime.callbacks import Advance, ignore
from storage.graph import Csr
from storage.store.network import RATE, NetworkFile


def measure_network(
    network: NetworkFile,
    chip: Chip,
    core: NDArray[np.int32],
    threads: int = 1,
    scratch: Path | None = None,
    advance: Advance = ignore,
    swept: Iterable[Swept] | None = None,
) -> Traffic:
    """Traffic of a stored network under a mapping, in one pass.

    scratch : folder for sums that outgrow the memory meant for them
    advance : called with the connections of each block
    swept : what others have gathered of all blocks, instead of the threads
    """
    rate = network.attribute(RATE) if RATE in network.meta.attributes else None
    return measure(
        chip,
        core,
        _Counted(network, advance) if swept is None else (),
        sizes=network.vertex_sizes(),
        rates=rate.stored if rate else None,
        undirected=network.undirected,
        units=Units(network.meta.weight_unit, rate.unit if rate else network.meta.weight_unit),
        threads=threads,
        scratch=scratch,
        swept=swept or (),
    )


@dataclass(frozen=True, slots=True)
class Synapses:
    """The outgoing synapses of some consecutive vertices."""

    first: int
    lists: Csr

    def outgoing(self) -> Csr:
        return self.lists


@dataclass(frozen=True, slots=True)
class _Counted:
    """The blocks of a network, each counted by `advance` when it is read."""

    network: NetworkFile
    advance: Advance

    @property
    def block_count(self) -> int:
        return self.network.block_count

    def read_block(self, index: int) -> Synapses:
        lists = self.network.read_outgoing(index)
        self.advance(lists[1].size * (1 if self.network.undirected else 2))
        return Synapses(self.network.block_bounds(index)[0], lists)
