"""The traffic of a stored network under a mapping."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from chipsim.chip.model import Chip
from chipsim.traffic.arrays import Traffic, Units, measure
from chipsim.traffic.sweep import Swept
from mapper.graph.rows import directed_copy
from mapper.monitoring.callbacks import Advance, ignore
from mapper.scoring.list_words import list_words
from storage.arrays import Int32
from storage.graph import Csr
from storage.scratch.packed import PackedRows
from storage.scratch.scratch import Scratch
from storage.store.network import RATE, NetworkFile

REMEMBERED = 2  # number of mappings: before and after a refinement


def measure_network(
    network: NetworkFile,
    chip: Chip,
    core: Int32,
    threads: int = 1,
    scratch: Path | None = None,
    advance: Advance = ignore,
    swept: Iterable[Swept] | None = None,
    rows: PackedRows | None = None,
) -> Traffic:
    """Measure the traffic of a stored network under a mapping, in one pass.

    A second pass counts list words, which replace the synapses of cores on chips that share lists.

    scratch : folder for sums that exceed their memory
    advance : called with the number of connections of each block
    rows : a directed copy of the network, which is faster to read
    swept : sums over all blocks from workers, which replace the threads
    """
    rate = network.attribute(RATE) if RATE in network.meta.attributes else None
    traffic = measure(
        chip,
        core,
        SynapseBlocks(network, rows or network, advance) if swept is None else (),
        sizes=network.vertex_sizes(),
        rates=rate.stored if rate else None,
        undirected=network.undirected,
        units=Units(network.meta.weight_unit, rate.unit if rate else network.meta.weight_unit),
        threads=threads,
        scratch=scratch,
        swept=swept or (),
    )
    if chip.sharing == "none":
        return traffic
    words = list_words(network, core, chip.cores)
    return replace(traffic, usage=replace(traffic.usage, synapses=words))


class Measurements:
    """Measures mappings of a network, and caches the last ones.

    If a refinement has measured its result, the last stage of a run needs no pass over the network.
    """

    def __init__(
        self, network: NetworkFile, chip: Chip, threads: int, scratch: Scratch | None = None
    ) -> None:
        """scratch : may have a copy of the network, see `mapper.graph.rows.copied`"""
        self._network, self._chip, self._threads = network, chip, threads
        self._scratch = scratch
        self._last: list[tuple[Int32, Traffic]] = []

    def measure(
        self,
        core: Int32,
        scratch: Path | None = None,
        advance: Advance = ignore,
        swept: Iterable[Swept] | None = None,
    ) -> Traffic:
        """Return the traffic, see `measure_network`."""
        traffic = self.known(core)
        if traffic is None:
            traffic = measure_network(
                self._network, self._chip, core, self._threads, scratch, advance, swept,
                directed_copy(self._scratch),
            )  # fmt: skip
            self._last = [*self._last[-REMEMBERED + 1 :], (core.copy(), traffic)]
        return traffic

    def known(self, core: Int32) -> Traffic | None:
        """Return the traffic of a mapping that was measured recently, or None."""
        for last, traffic in self._last:
            if np.array_equal(last, core):
                return traffic
        return None


@dataclass(frozen=True, slots=True)
class OutgoingSynapses:
    """The outgoing synapses of some consecutive vertices."""

    first: int
    lists: Csr

    def outgoing(self) -> Csr:
        return self.lists


@dataclass(frozen=True, slots=True)
class SynapseBlocks:
    """The blocks of a network, read from the file or from a copy of its rows.

    advance : called with the connections of each block read
    """

    network: NetworkFile
    source: NetworkFile | PackedRows
    advance: Advance

    @property
    def block_count(self) -> int:
        return self.network.block_count

    def read_block(self, index: int) -> OutgoingSynapses:
        lists = self.source.read_outgoing(index)
        self.advance(lists[1].size * (1 if self.network.undirected else 2))
        return OutgoingSynapses(self.network.block_bounds(index)[0], lists)
