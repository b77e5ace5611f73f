"""Cycles of ticks in which given neurons spike, by cause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chipsim.chip.time import ChipTime
from chipsim.errors import ChipError
from chipsim.noc.mesh import Mesh, link_flits, new_routers, new_tiles
from chipsim.protocols import FloatArray, Int64Array
from chipsim.ticks.kernel import LATER, run_ticks
from chipsim.ticks.state import NONE, Cores, CycleCosts, Routes, Spiking, TickCounters

_TO_LIST = 9
"""Cycles from the update of a neuron until its packet has been looked up at the core: five in
the sender, one in the router, three in the receiver."""


@dataclass(frozen=True, slots=True)
class TickRun:
    """Result of simulated ticks.

    cycles : ndarray[int64], shape (ticks,), cycles of each tick
    swept, received : ndarray[float64], shape (ticks,), cycle in which the last neuron was updated
        and had left the sweep; cycle in which the last event was added to its sum, or the last
        packet reached the host, 0 without either
    sent, taken, events : ndarray[int64], shape (cores,), packets that each core sent and received
        (including packets of the host), and synaptic events
    heard : packets that the host received
    links : ndarray[int64], shape (4, height, width), flits, in the form of `chipsim.traffic.links`
    """

    cycles: Int64Array
    swept: FloatArray
    received: FloatArray
    sent: Int64Array
    taken: Int64Array
    events: Int64Array
    heard: int
    links: Int64Array


class TickSimulator:
    """A chip at reset with the routes of its neurons; ticks continue from the last state.

    The arbiters keep their state from tick to tick. Links are the mesh's: one cycle per hop and one
    flit per cycle unless `Mesh.of` sets others.
    """

    def __init__(self, mesh: Mesh, time: ChipTime, routes: Routes) -> None:
        self.mesh, self.routes = mesh, routes
        count = mesh.cores
        if len(routes.first) != count + 1:
            raise ChipError(
                f"ticks: neurons of {len(routes.first) - 1} cores for a mesh of {count}"
            )
        self._routers, self._tiles = new_routers(mesh, routes.mask), new_tiles(mesh)
        whole, real = np.zeros((6, count), np.int64), np.zeros((6, count))
        nothing = np.full((5, count), NONE, np.int64)
        self._cores = Cores(
            next=np.full(count, LATER), at=whole[0], stop=whole[1], queued=whole[5],
            looked=nothing[0], known=nothing[1], row=whole[2], left=whole[3], read=nothing[3],
            offered=nothing[2], offer=real[1], behind=nothing[4], free=real[2], begins=real[4],
            before=real[5], ends=real[3],
        )  # fmt: skip
        self._costs = CycleCosts(
            time.neuron, time.event, time.packet_out, time.packet_in, time.barrier,
            max(0.0, time.spike - _TO_LIST - time.event), mesh.depth, mesh.node_bits,
        )  # fmt: skip

    def run(
        self, spikes: Int64Array, ends: Int64Array, host: Int64Array, host_ends: Int64Array
    ) -> TickRun:
        """Run ticks in which given slots spike.

        Parameters
        ----------
        spikes : ndarray[int64], shape (spikes,): slots, tick by tick, sorted within each
        ends : ndarray[int64], shape (ticks + 1,): tick k has spikes[ends[k]:ends[k + 1]]
        host, host_ends : slots in the same form, whose packets the host sends before each tick, in
            this order
        """
        ticks = len(ends) - 1
        sent, events = np.zeros((2, self.mesh.cores), np.int64)
        taken = np.zeros(self.mesh.cores + 1, np.int64)
        cycles, swept, received = np.zeros(ticks, np.int64), np.zeros(ticks), np.zeros(ticks)
        passed = np.zeros(5 * self.mesh.nodes, np.int64)
        seen = TickCounters(cycles, swept, received, sent, taken, events, passed)
        run_ticks(
            self._cores, self.routes, self._routers, self._tiles, seen,
            Spiking(spikes, ends, host, host_ends), self._costs,
        )  # fmt: skip
        links = link_flits(self.mesh, passed)
        return TickRun(
            cycles, swept, received, sent, taken[:-1], events, int(taken[-1]), links
        )  # fmt: skip
