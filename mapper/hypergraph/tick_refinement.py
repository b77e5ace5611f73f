"""After placement: neurons move and change places between cores, to shorten the tick of a chip."""

from __future__ import annotations

import numpy as np

from chipsim.chip.model import Chip
from mapper.errors import UsageError
from mapper.hop_refinement.mesh import Mesh
from mapper.hypergraph.hypergraph import Hypergraph, Int32, Int64
from mapper.hypergraph.tick_annealing import (
    CORE,
    SYNAPSE,
    TREE,
    TickCosts,
    TickSchedule,
    anneal_ticks,
    most_cycles,
    tick_state,
)
from mapper.runtime.checkpoint import Arrays
from mapper.runtime.context import Context

LEAST = 200_000  # proposals in all
MOST = 60_000_000  # slots that all proposals look at, about
DELIVERIES = {"synapse": SYNAPSE, "core": CORE, "tree": TREE}


def require_time(chip: Chip) -> None:
    """Raise `UsageError` if the chip does not say how long anything takes."""
    if chip.time is None:
        raise UsageError(
            f"chip {chip.name} has no cycles of its parts, which the objective time needs; "
            "give a chip file with a table [time], or take the objective hops"
        )


def tick_costs(chip: Chip, rate_unit: float) -> TickCosts:
    """What a tick is made of on this chip, as `chipsim.traffic.ticks` measures it.

    rate_unit : what a rate of 1 stands for
    Links of machines, whose cores share routers, are left to the measure.
    """
    require_time(chip)
    assert chip.time is not None
    time, unit = chip.time, rate_unit * chip.time.tick
    return TickCosts(
        time.neuron, time.packet_out * unit, time.packet_in * unit, time.event * unit,
        time.link * unit, time.barrier, time.barrier + time.spike, DELIVERIES[chip.delivery],
        chip.machine is None,
    )  # fmt: skip


def refine_by_ticks(
    nets: Hypergraph, core: Int32, mesh: Mesh, neurons: Int64, costs: TickCosts, context: Context
) -> Int32:
    """The core of every vertex, with a shorter tick; no core holds more than it may.

    neurons : ndarray[int64], shape (vertices,), size of each vertex in neurons
    """
    settings, _, steps, monitor, _ = context
    trees, loads = tick_state(nets, core.copy(), mesh, neurons, costs)
    before = most_cycles(loads, costs)
    # A proposal looks at the slots of all nets of a vertex, and mostly again to take it back.
    each = np.repeat(trees.used.astype(np.int64), np.diff(nets.start)).sum()
    work = 4 * max(1.0, float(each) / max(1, nets.vertices))
    proposals = min(max(settings.tick_proposals * nets.vertices, LEAST), MOST / work)
    schedule = TickSchedule(max(1, int(proposals / 20)))

    def anneal() -> Arrays:
        found = anneal_ticks(
            nets, core, mesh, neurons, costs, schedule,
            settings.seed_of(40), monitor.stop,
        )  # fmt: skip
        return {"core": found}

    found = steps.run_once("ticks", anneal)["core"]
    _, loads = tick_state(nets, found.copy(), mesh, neurons, costs)
    after = most_cycles(loads, costs)
    monitor.note(f"slowest core or link: {before:,.1f} to {after:,.1f} cycles")
    return found
