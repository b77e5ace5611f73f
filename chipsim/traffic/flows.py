"""Evaluate the sums per core pair: totals, loads of links, routers and cores.

Each thread decodes the pairs of a range of source cores, stripe by stripe. Loads of routers are
floats, so they are added in the order of the stripes of a range, and of the ranges: the result is
bit-identical for any number of threads. Memory is O(cores) plus one stripe per thread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chipsim.chip.model import Chip
from chipsim.errors import ChipError
from chipsim.parallel import map_ordered
from chipsim.protocols import FloatArray, Int32Array, Int64Array
from chipsim.traffic.congestion import Walks, router_loads
from chipsim.traffic.congestion_sample import CongestionSample, choose_sample
from chipsim.traffic.links import Totals, loads_of, new_differences, route_flows
from chipsim.traffic.machines import FlowCosts, costs_of
from chipsim.traffic.pairs import PairTable
from chipsim.traffic.profile import Profile
from chipsim.traffic.routes import distances_of
from chipsim.traffic.sweep import SUM_LIMIT
from chipsim.traffic.turns import entering, of_routers


@dataclass(frozen=True, slots=True)
class Flows:
    """Sums over all flows between cores.

    totals : as in `chipsim.traffic.links.Totals`
    routes : ndarray[int64], shape (4 + turns, rows + 1, columns of routers + 1): differences of the
        routes, as in `chipsim.traffic.links`
    congestion : ndarray[float64], shape (rows, columns), expected loads of the routers; if links
        are broken, their loads on the routes
    sample : the sample that congestion was measured on, None for all traffic
    profile : traffic by core and by distance
    costs : costs on a machine
    """

    totals: Totals
    routes: Int64Array
    congestion: FloatArray
    sample: CongestionSample | None
    profile: Profile
    costs: FlowCosts


def _walks(chip: Chip, used: Int64Array) -> Walks:
    """Return the tables for all offsets between these cores; on a torus for its whole length.

    With unequal step costs the shorter way round may pass more routers than lie between.
    """
    wide, tall = (1, 1) if chip.machine is None else chip.machine.tile_size
    torus = "" if chip.machine is None else chip.machine.torus
    columns, rows = chip.routers
    y, x = used // chip.width // tall, used % chip.width // wide
    return Walks.within(
        rows if "y" in torus else int(np.ptp(y)) + 1,
        columns if "x" in torus else int(np.ptp(x)) + 1,
    )


def follow(chip: Chip, pairs: PairTable, used: Int64Array, threads: int = 1) -> Flows:
    """Route the traffic of all core pairs through the mesh.

    ``used`` holds the ids of the cores in the pairs. Raises ChipError if weight * hops exceeds
    2^62.
    """
    walks = _walks(chip, used) if len(used) and not chip.detoured else None
    sample = None if chip.detoured else choose_sample(chip, pairs, len(used), threads)
    profile = Profile.idle(chip)

    def work(index: int) -> _Range:
        found = _Range(chip)
        for flows in pairs.stripes_of(index):
            found.add(flows, walks, sample, profile)
        return found

    every = _Range(chip)
    for part in map_ordered(work, range(pairs.ranges), threads):
        every.join(part)
    profile.receive((every.incoming, every.distances))
    if chip.detoured:
        through = entering(loads_of(every.routes)).sum(axis=0)
        every.congestion += through + of_routers(chip, profile.outgoing)
    return Flows(every.totals, every.routes, every.congestion, sample, profile, every.costs)


class _Range:
    """Sums over the flows of a range of source cores."""

    def __init__(self, chip: Chip) -> None:
        columns, rows = chip.routers
        self._chip = chip
        self.totals, self.costs = Totals(), FlowCosts()
        self.routes = new_differences(chip)
        self.congestion: FloatArray = np.zeros((rows, columns), dtype=np.float64)
        self.incoming: Int64Array = np.zeros(chip.cores, dtype=np.int64)
        self.distances: Int64Array = np.zeros(distances_of(chip), dtype=np.int64)

    def add(
        self, flows: tuple[Int32Array, Int32Array, Int64Array], walks: Walks | None,
        sample: CongestionSample | None, profile: Profile,
    ) -> None:  # fmt: skip
        """Route the flows of a stripe; walks : for congestion, None for its routes alone"""
        chip = self._chip
        if walks is not None:
            routed = router_loads if sample is None else sample.router_loads
            self.congestion += routed(chip, walks, *flows)
        incoming, distances = profile.send(chip, *flows)
        self.incoming += incoming
        self.distances += distances
        routes, totals = route_flows(chip, *flows)
        self.routes += routes
        self.totals.add(totals)
        self.costs.add(costs_of(chip, *flows))

    def join(self, other: _Range) -> None:
        """Add the sums of the next range; ChipError if a sum would exceed 2^62."""
        self.congestion += other.congestion
        self.incoming += other.incoming
        self.distances += other.distances
        self.routes += other.routes
        self.totals.add(other.totals)
        self.costs.add(other.costs)
        if self.totals.hops_estimate >= SUM_LIMIT:
            raise ChipError("unicast: weight * hops exceeds 2^62; use a coarser weight unit")
        if self.costs.estimate >= SUM_LIMIT:
            raise ChipError("unicast: weight * cost exceeds 2^62; use coarser step costs")
