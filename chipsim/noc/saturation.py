"""The largest load that a mesh carries.

A load is carried if every source keeps up with the packets it creates. In an open loop an
overloaded source falls behind at a constant pace: if it has sent a share s of the packets created
in n cycles, the packet at the front of its queue is (1 - s) * n cycles old. So a load counts as too
large if, at one of `LOOKS` checks during a run, some source lags by more than `TOLERANCE` of the
run. Checking each source separately matters: one hot link may starve a single core while the total
hardly changes.

The scale is bounded because no node carries more than one flit per cycle and no link more than its
width. Bisection below that bound finds the largest load that is carried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chipsim.noc.demand import Demand
from chipsim.noc.load import Load, new_run, result_of
from chipsim.noc.mesh import Mesh

TOLERANCE = 0.05
"""Tolerated lag of a source, as a share of the run."""
LOOKS = 20
"""Checks per run; the run ends at the first that finds an overload."""
PRECISION = 0.01
"""Distance of the last two scales, as a share of the bound."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """Saturation point of a load.

    scale : largest factor on the load that was carried; None for an empty load
    bound : factor at which the busiest link or node has a flit in every cycle; None for an empty
        load
    offered : packets per node and cycle at `scale`
    accepted : flits delivered per node and cycle at `scale`
    runs : number of loads tried
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
    """Return the largest factor on a load that the mesh carries, to `precision` of the bound.

    Arguments as in `chipsim.noc.load.measure_load`; every run has the full length. ``tried`` is
    called after each run with the number of runs so far.
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
        # Rounding must not raise a rate above 1.
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
