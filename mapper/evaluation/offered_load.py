"""Offered load of a mapped network on the mesh: flits between cores, per cycle.

The traffic of the network is in packets per unit of time; the mesh counts cycles. ``tick_cycles``,
the cycles per unit of time, converts between them. Packets within a core are left out and counted:
on the hardware they pass the local port of its router.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.chip.presets import from_fields
from chipsim.noc.demand import Demand
from chipsim.noc.mesh import DEPTH, Mesh
from chipsim.traffic.arrays import Traffic, Units, measure
from chipsim.traffic.latency import PacketLatency, RouterTraffic, latency
from mapper.errors import MapperError
from mapper.evaluation.mapped import open_mapped
from mapper.results.mapping_file import mapping_in
from mapper.scoring.measure import OutgoingSynapses, measure_network
from storage.store.network import RATE, NetworkFile

BUSY = 0.5
"""Flits per cycle on the busiest link or node at load scale 1, unless the user gives the length of
a unit of time."""

Measure = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Offered:
    """The offered load of a mapped network.

    mesh : routers
    packets : one flit per spike and "synapse" or "core"
    demand : flits per cycle at load scale 1
    tick_cycles : cycles per unit of time at load scale 1; None without traffic and a user's value
    rate : flits per unit of time, total of all nodes
    own : flits per unit of time within a core, left out
    latency : expected latency at a load scale, by `chipsim.traffic.latency`
    """

    mesh: Mesh
    packets: str
    demand: Demand
    tick_cycles: float | None
    rate: float
    own: float
    latency: Callable[[float], PacketLatency]

    def scaled(self, scale: float) -> Demand:
        """Return the load at a scale; raise `MapperError` if a node exceeds 1 flit per cycle."""
        demand = self.demand.scaled(scale)
        worst = int(demand.rate.argmax())
        if demand.rate[worst] > 1:
            most = scale / float(demand.rate[worst])
            assert self.tick_cycles is not None
            raise MapperError(
                f"at load scale {scale:g} core {worst} sends {demand.rate[worst]:.4g} flits per "
                f"cycle, the limit is 1; give --load-scale {_down(most)} or less, or "
                f"--tick-cycles {_up(self.tick_cycles * scale / most)} or more"
            )
        return demand


def _down(value: float) -> str:
    """Format with three digits, rounded towards 0."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 2)
    return f"{np.floor(value / unit) * unit:.3g}"


def _up(value: float) -> str:
    """Format with three digits, rounded away from 0."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 2)
    return f"{np.ceil(value / unit) * unit:.6g}"


def offered_load(
    folder: Path,
    report: dict[str, Any],
    network: NetworkFile,
    *,
    depth: int = DEPTH,
    packets: str | None = None,
    tick_cycles: float | None = None,
    threads: int = 1,
    memory: int = 1 << 28,
    scratch: Path | None = None,
) -> Offered:
    """Return the load of the mapping in an output folder.

    Parameters
    ----------
    folder, report : output folder of a run, its report.json
    network : the network that was mapped
    depth : flits per router input buffer
    packets : "synapse": one flit per spike and synapse, as counted by the unicast metrics; "core":
        one per spike and other core with a target, fanned out there; None: by the chip's delivery,
        with one flit per core for multicast trees
    tick_cycles : cycles per unit of time; None: the busiest link or node gets `BUSY` flits per
        cycle
    memory : bytes for sorting; scratch : folder for temporary files, None for the system's
    """
    chip = from_fields(report["chip"], f"{folder}: chip of the report")
    packets = packets or ("synapse" if chip.delivery == "synapse" else "core")
    path = mapping_in(folder)
    with open_mapped(network, path, chip, memory // 4, threads, scratch) as (whole, core):
        traffic = _measure(whole, chip, core, packets, threads, scratch)
    return _offered(chip, traffic, packets, depth, tick_cycles)


def _offered(
    chip: Chip, traffic: Traffic, packets: str, depth: int, tick_cycles: float | None
) -> Offered:
    mesh = Mesh.of(chip, depth)
    source, target, weight = _between_cores(traffic)
    unit = traffic.weight_unit
    demand = Demand.from_flows(mesh, source, target, weight, unit)  # flits per unit of time
    total = float(demand.rate.sum())
    own = traffic.totals.weight * unit - traffic.totals.cut * unit
    if tick_cycles is None and total:
        tick_cycles = demand.busiest(mesh) / BUSY
    if tick_cycles is not None:
        demand = demand.scaled(1 / tick_cycles)
    sent = RouterTraffic(traffic.unicast_links, traffic.unicast_turns, traffic.profile.outgoing)
    per_cycle = unit / tick_cycles if tick_cycles else 0.0

    def expected(scale: float) -> PacketLatency:
        return latency(chip, sent, per_cycle * scale)

    return Offered(mesh, packets, demand, tick_cycles, total, own, expected)


def _between_cores(traffic: Traffic) -> Measure:
    """Return source, target and weight of all flows between different cores, sorted by source."""
    parts: list[Measure] = []
    for stripe in range(traffic.pairs.stripes):
        source, target, weight = traffic.pairs.stripe(stripe)
        leaves = source != target
        parts.append((source[leaves], target[leaves], weight[leaves]))
    if not parts:
        none = np.zeros(0, dtype=np.int32)
        return none, none, np.zeros(0, dtype=np.int64)
    sources, targets, weights = zip(*parts, strict=True)
    return np.concatenate(sources), np.concatenate(targets), np.concatenate(weights)


def _measure(
    network: NetworkFile,
    chip: Chip,
    core: NDArray[np.int32],
    packets: str,
    threads: int,
    scratch: Path | None,
) -> Traffic:
    if packets == "synapse":
        return measure_network(network, chip, core, threads, scratch)
    rate = network.attribute(RATE) if RATE in network.meta.attributes else None
    unit = rate.unit if rate else network.meta.weight_unit
    return measure(
        chip,
        core,
        _OnePerCore(network, core, chip.cores, rate.stored if rate else None),
        sizes=network.vertex_sizes(),
        units=Units(unit),
        threads=threads,
        scratch=scratch,
    )


@dataclass(frozen=True, slots=True)
class _OnePerCore:
    """The network with one synapse per neuron and core that it reaches.

    Its weight is the rate of the neuron, or without rates the largest weight of its synapses, as in
    the multicast metrics.
    """

    network: NetworkFile
    core: NDArray[np.int32]
    cores: int
    rates: NDArray[np.int64] | None

    @property
    def block_count(self) -> int:
        return self.network.block_count

    def read_block(self, index: int) -> OutgoingSynapses:
        indptr, targets, weights = self.network.read_outgoing(index)
        first = self.network.block_bounds(index)[0]
        degree = np.diff(indptr)
        own = np.repeat(np.arange(degree.size), degree)
        if self.rates is None:
            rates = np.zeros(degree.size, dtype=np.int64)
            np.maximum.at(rates, own, weights)
        else:
            rates = self.rates[first : first + degree.size]
        keys = own * np.int64(self.cores) + self.core[targets]
        chosen = np.sort(np.unique(keys, return_index=True)[1])
        kept = own[chosen]
        ends = np.concatenate([[0], np.cumsum(np.bincount(kept, minlength=degree.size))])
        return OutgoingSynapses(first, (ends.astype(np.int64), targets[chosen], rates[kept]))


def busiest_links(flits: NDArray[Any], count: int) -> Iterator[tuple[int, int, int, float]]:
    """Yield direction, row, column and flits of the links with most flits, without idle links.

    flits : shape (4, height, width), in the form of `chipsim.traffic.links`
    """
    order = np.argsort(-flits, axis=None, kind="stable")[:count]
    for index in order:
        d, y, x = (int(value) for value in np.unravel_index(index, flits.shape))
        if flits[d, y, x] > 0:
            yield d, y, x, float(flits[d, y, x])
