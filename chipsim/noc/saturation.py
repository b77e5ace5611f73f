"""The largest load that a mesh carries.

A load is carried if every source keeps up with what it creates. In an open loop a source that does
not falls behind at a steady pace: when it has got rid of a share s of what it created in n cycles,
the packet at the front of its queue is (1 - s) * n cycles old. So a load counts as too much if, at
one of `LOOKS` looks during a run, some source is behind by more than `TOLERANCE` of the whole run.
That looks at each source by itself: one hot link may starve a single core while the sum over all of
them hardly tells.

No node carries more than one flit a cycle, no link more than its width, which bounds the scale from
above.
Bisection below that bound finds the largest load that is carried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chipsim.noc.demand import Demand
from chipsim.noc.load import Load, new_run, result_of
from chipsim.noc.mesh import Mesh

TOLERANCE = 0.05
"""A source may be behind by this share of a run."""
LOOKS = 20
"""Times that a run is looked at; it ends at the first that finds it overloaded."""
PRECISION = 0.01
"""Distance of the last two scales, as a share of the bound."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """Where a load stops being carried.

    scale : largest factor on the load that was carried; None if there is no load
    bound : factor at which the busiest link or node has a flit in every cycle; None likewise
    offered : packets per node and cycle at `scale`
    accepted : flits delivered per node and cycle there
    runs : how many loads were tried
    """

    scale: float | None
    bound: float | None
    offered: float
    accepted: float
    runs: int


def find_saturation(
    mesh: Mesh,
    demand: Demand,
    *,
    cycles: int,
    warmup: int | None = None,
    seed: int = 0,
    precision: float = PRECISION,
    tried: Callable[[int], None] = lambda runs: None,
) -> Saturation:
    """The largest factor on a load that the mesh carries, to `precision` of the bound.

    The arguments are those of `chipsim.noc.load.measure_load`; every run is as long as told.
    ``tried`` is called after each with the number of runs so far.
    """
    busiest = demand.busiest(mesh)
    if busiest == 0:
        return Saturation(None, None, 0.0, 0.0, 0)
    bound = 1 / busiest
    runs = 0

    def carried(scale: float) -> Load | None:
        nonlocal runs
        found = attempt(scale)
        runs += 1
        tried(runs)
        return found

    def attempt(scale: float) -> Load | None:
        # Rounding must not make a rate of 1 a little more.
        load = demand.scaled(min(scale, (1 - 1e-12) / demand.rate.max()))
        run = new_run(mesh, load, cycles, warmup, 0, seed)
        end = run.window[1]
        for look in range(1, LOOKS + 1):
            run.until(end * look // LOOKS, end)
            waits = run.waits()
            if waits.max() > TOLERANCE * end:
                return None
        return result_of(run, waits)

    low, best = 0.0, None
    high = bound
    if (found := carried(bound)) is not None:
        low, best = bound, found
    while high - low > precision * bound:
        middle = (low + high) / 2
        if (found := carried(middle)) is None:
            high = middle
        else:
            low, best = middle, found
    if best is None:
        return Saturation(low, bound, 0.0, 0.0, runs)
    return Saturation(low, bound, best.offered, best.accepted, runs)
