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
from chipsim.traffic.links import Totals, loads_of, new_differences, route_flows
from chipsim.traffic.pairs import PairTable
from chipsim.traffic.profile import Profile
from chipsim.traffic.sweep import SUM_LIMIT
from chipsim.workers import map_ordered


@dataclass(frozen=True, slots=True)
class Flows:
    """Sums over all flows between cores.

    totals : those of `chipsim.traffic.links.Totals`
    links : ndarray[int64], shape (4, height, width), loads under XY routing
    congestion : ndarray[float64], shape (height, width), expected loads of the routers
    profile : by core and by distance
    """

    totals: Totals
    links: Int64Array
    congestion: FloatArray
    profile: Profile


def follow(chip: Chip, pairs: PairTable, used: Int64Array, threads: int = 1) -> Flows:
    """Send the traffic of all core pairs through the mesh.

    ``used`` holds the ids of the cores that pairs name. Raises ChipError if weight * hops exceeds
    2^62.
    """
    y, x = np.divmod(used, chip.width)
    walks = Walks.within(int(np.ptp(y)) + 1, int(np.ptp(x)) + 1) if len(used) else None

    profile = Profile.idle(chip)

    def work(stripe: int) -> tuple[Int64Array, Totals, FloatArray, tuple[Int64Array, Int64Array]]:
        assert walks is not None
        flows = pairs.stripe(stripe)
        loads = router_loads(chip, walks, *flows)
        return *route_flows(chip, *flows), loads, profile.send(chip, *flows)

    differences = new_differences(chip)
    congestion = np.zeros((chip.height, chip.width), dtype=np.float64)
    sums = Totals()
    for diff, part, load, received in map_ordered(work, range(pairs.stripes), threads):
        differences += diff
        congestion += load
        profile.receive(received)
        sums.weight += part.weight
        sums.cut += part.cut
        sums.hops += part.hops
        sums.farthest = max(sums.farthest, part.farthest)
        sums.hops_estimate += part.hops_estimate
        if sums.hops_estimate >= SUM_LIMIT:
            raise ChipError("unicast: weight * hops exceeds 2^62; use a coarser weight unit")
    return Flows(sums, loads_of(differences), congestion, profile)
