"""Latency and throughput of a mesh under a random load.

A run warms up, then measures during a window. Latency covers all packets created in the window: the
load continues until the last of them has arrived, or for the allowed time, and packets that have
not arrived by then are counted. Throughput and link counts cover the cycles of the window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chipsim.errors import ChipError
from chipsim.noc.demand import Demand
from chipsim.noc.kernel import ARRIVED, DRAWN, LATENCY, _count_rest
from chipsim.noc.mesh import Advance, Mesh, MeshRun, link_flits, new_tally
from chipsim.noc.moves import LOCAL
from chipsim.protocols import Int64Array

DRAIN = 4
"""Default limit of cycles after the window, as a multiple of its length."""


@dataclass(frozen=True, slots=True)
class Load:
    """Result of a run.

    Attributes
    ----------
    cores, warmup, cycles : number of cores, cycles before the window, cycles of the window
    drained : cycles after the window until its last packet arrived, or the limit
    packets, delivered : packets created in the window, and those that arrived
    sent : ndarray[int64], shape (cores,), packets that each core created in the window
    received : ndarray[int64], shape (nodes,), flits that each router delivered in the window
    links : ndarray[int64], shape (4, height, width)
        Flits on each link in the window, in the form of `chipsim.traffic.links`.
    histogram : ndarray[int64], shape (latencies,), delivered packets by latency in cycles
    latency_sum : sum of the latencies in cycles
    waits : ndarray[int64], shape (cores,)
        Cycles that the packet at the front of each source queue had waited at the end of the
        window; 0 for an empty queue.
    """

    cores: int
    warmup: int
    cycles: int
    drained: int
    packets: int
    delivered: int
    sent: Int64Array
    received: Int64Array
    links: Int64Array
    histogram: Int64Array
    latency_sum: int
    waits: Int64Array

    @property
    def offered(self) -> float:
        """Packets created per core and cycle."""
        return self.packets / (self.cores * self.cycles)

    @property
    def accepted(self) -> float:
        """Flits delivered per core and cycle."""
        return int(self.received.sum()) / (self.cores * self.cycles)

    @property
    def undelivered(self) -> int:
        """Packets of the window that had not arrived when the run ended."""
        return self.packets - self.delivered

    @property
    def lag(self) -> float:
        """The longest wait at the front of a queue, as a share of the run so far.

        A source that sends a share s of the packets it creates lags by 1 - s of the time.
        """
        return float(self.waits.max(initial=0)) / (self.warmup + self.cycles)

    @property
    def latency_mean(self) -> float | None:
        """Mean latency of the delivered packets; None without any."""
        return self.latency_sum / self.delivered if self.delivered else None

    @property
    def latency_max(self) -> int | None:
        """Largest latency of the delivered packets; None without any."""
        return int(np.flatnonzero(self.histogram)[-1]) if self.delivered else None

    def percentile(self, percent: float) -> int | None:
        """Return the given percentile of the latency of delivered packets; None without any."""
        if not self.delivered:
            return None
        within = np.cumsum(self.histogram)
        return int(np.searchsorted(within, percent / 100 * self.delivered))


def measure_load(
    mesh: Mesh,
    demand: Demand,
    *,
    cycles: int,
    warmup: int | None = None,
    drain: int | None = None,
    seed: int = 0,
    advance: Advance | None = None,
) -> Load:
    """Run a mesh under a load.

    Parameters
    ----------
    mesh, demand
    cycles : length of the window, 1 or more
    warmup : cycles before the window; half its length by default
    drain : cycles after the window in which its packets may still arrive; by default four times its
        length
    seed : seed of the packets
    advance : callback, called regularly with the current cycle

    Raises
    ------
    ChipError
        If the load does not fit this mesh, or a core sends more than a flit per cycle.
    """
    drain = DRAIN * cycles if drain is None else drain
    run = new_run(mesh, demand, cycles, warmup, drain, seed)
    end = run.window[1]
    run.until(end, end, advance)
    waits = run.waits()
    run.until(end + drain, end, advance)
    return result_of(run, waits)


def new_run(
    mesh: Mesh, demand: Demand, cycles: int, warmup: int | None, drain: int, seed: int
) -> MeshRun:
    """Return a run that has not started; arguments and errors as in `measure_load`."""
    warmup = cycles // 2 if warmup is None else warmup
    if cycles < 1 or warmup < 0 or drain < 0:
        raise ChipError(
            f"cycles {cycles}, warmup {warmup}, drain {drain}: need cycles >= 1, others >= 0"
        )
    if len(demand.rate) != mesh.cores or demand.nodes != mesh.nodes:
        raise ChipError(
            f"load: built for {len(demand.rate)} nodes, but the mesh has {mesh.cores}; "
            "use the chip that it was built for"
        )
    if demand.spread and demand.rate.any():
        _require_all_routes(mesh)
    return MeshRun(mesh, demand.feed(seed), new_tally(mesh), (warmup, warmup + cycles))


def _require_all_routes(mesh: Mesh) -> None:
    """Raise `ChipError` unless routes lead from every router to every other."""
    nodes = np.arange(mesh.nodes)
    for node in nodes if mesh.detours is not None else ():
        mesh.require_routes(np.full_like(nodes, node), nodes)


def result_of(run: MeshRun, waits: Int64Array) -> Load:
    """Return the result of a run; the run cannot continue afterwards.

    waits : waits of its sources at the end of the window
    """
    warmup, end = run.window
    arrived = int(run.scalars[ARRIVED])
    _count_rest(run.sources, run.feed, run.tally, run.scalars, run.mesh.node_bits, warmup, end)
    histogram = run.tally.histogram
    return Load(
        cores=run.mesh.cores,
        warmup=warmup,
        cycles=end - warmup,
        drained=run.cycle - end,
        packets=int(run.scalars[DRAWN]),
        delivered=arrived,
        sent=run.tally.offered,
        received=run.tally.passed.reshape(-1, 5)[:, LOCAL].copy(),
        links=link_flits(run.mesh, run.tally.passed),
        histogram=histogram[: np.flatnonzero(histogram)[-1] + 1 if arrived else 0].copy(),
        latency_sum=int(run.scalars[LATENCY]),
        waits=waits,
    )
