"""What the sums per core pair amount to: totals, loads of links, routers and cores.

The pairs are decoded stripe by stripe, by several threads. Loads of routers are floats, so they
are added up stripe by stripe in order: the result is the same to the bit for any number of
threads. Memory is O(cores) and one stripe for each thread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chipsim.chip.model import Chip
from chipsim.errors import ChipError
from chipsim.protocols import FloatArray, Int64Array
from chipsim.traffic.congestion import Walks, router_loads
from chipsim.traffic.links import Totals, new_differences, route_flows
from chipsim.traffic.machines import Costs, costs_of
from chipsim.traffic.pairs import PairTable
from chipsim.traffic.profile import Profile
from chipsim.traffic.sweep import SUM_LIMIT
from chipsim.workers import map_ordered


@dataclass(frozen=True, slots=True)
class Flows:
    """Sums over all flows between cores.

    totals : those of `chipsim.traffic.links.Totals`
    routes : ndarray[int64], shape (12, rows + 1, columns of routers + 1): what was noted of the XY
        routes, as in `chipsim.traffic.links`
    congestion : ndarray[float64], shape (rows, columns), expected loads of the routers
    profile : by core and by distance
    costs : those of a machine
    """

    totals: Totals
    routes: Int64Array
    congestion: FloatArray
    profile: Profile
    costs: Costs


def follow(chip: Chip, pairs: PairTable, used: Int64Array, threads: int = 1) -> Flows:
    """Send the traffic of all core pairs through the mesh.

    ``used`` holds the ids of the cores that pairs name. Raises ChipError if weight * hops exceeds
    2^62.
    """
    wide, tall = (1, 1) if chip.machine is None else chip.machine.tile_size
    y, x = used // chip.width // tall, used % chip.width // wide
    walks = Walks.within(int(np.ptp(y)) + 1, int(np.ptp(x)) + 1) if len(used) else None

    profile = Profile.idle(chip)

    def work(
        stripe: int,
    ) -> tuple[Int64Array, Totals, FloatArray, tuple[Int64Array, Int64Array], Costs]:
        assert walks is not None
        flows = pairs.stripe(stripe)
        loads = router_loads(chip, walks, *flows)
        sent = profile.send(chip, *flows)
        return *route_flows(chip, *flows), loads, sent, costs_of(chip, *flows)

    differences = new_differences(chip)
    columns, rows = chip.routers
    congestion = np.zeros((rows, columns), dtype=np.float64)
    sums = Totals()
    costs = Costs()
    for diff, part, load, received, cost in map_ordered(work, range(pairs.stripes), threads):
        differences += diff
        congestion += load
        profile.receive(received)
        costs.add(cost)
        sums.weight += part.weight
        sums.cut += part.cut
        sums.hops += part.hops
        sums.farthest = max(sums.farthest, part.farthest)
        sums.hops_estimate += part.hops_estimate
        if sums.hops_estimate >= SUM_LIMIT:
            raise ChipError("unicast: weight * hops exceeds 2^62; use a coarser weight unit")
        if costs.estimate >= SUM_LIMIT:
            raise ChipError("unicast: weight * cost exceeds 2^62; use coarser costs of steps")
    return Flows(sums, differences, congestion, profile, costs)
