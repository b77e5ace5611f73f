"""After placement: neurons move and change places between cores, to shorten the tick of a chip."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np

from chipsim.chip.model import Chip
from mapper.errors import UsageError
from mapper.hop_refinement.mesh import Mesh
from mapper.hypergraph.hypergraph import Hypergraph, Int32, Int64
from mapper.hypergraph.thin_nets import (
    CORE,
    SYNAPSE,
    TREE,
    TickNets,
    receive,
    thin_nets,
    whole_nets,
)
from mapper.hypergraph.tick_annealing import SHARE, TickCosts, TickSchedule, anneal_ticks
from mapper.hypergraph.trees import new_trees
from mapper.runtime.checkpoint import Arrays
from mapper.runtime.context import Context

LEAST = 200_000  # proposals in all
MOST = 600_000_000  # slots that all proposals look at, about
SLOTS = 4  # looks at each slot that a proposal takes
FEWEST = 4  # targets of a net that stand for all of them
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


def per_unit(costs: TickCosts, unit: int) -> TickCosts:
    """The same for rates that count so many times as much."""
    rated = ("packet_out", "packet_in", "event", "link")
    return costs._replace(**{name: getattr(costs, name) / unit for name in rated})


def targets_seen(vertices: int, context: Context) -> int:
    """Targets of each net that there is time for."""
    return max(FEWEST, isqrt(_most(context) // (SLOTS * _wanted(vertices, context))))


def _most(context: Context) -> int:
    """Slots that all proposals may examine, about."""
    return max(1, int(MOST * context.plan.net_work))


def _wanted(vertices: int, context: Context) -> int:
    """Proposals in all, if there is time for them."""
    return max(context.settings.tick_proposals * vertices, LEAST)


def thinned_if_many(
    nets: Hypergraph, core: Int32, mesh: Mesh, neurons: Int64, costs: TickCosts, context: Context
) -> TickNets:
    """All nets, or as many of their targets as there is time for.

    neurons : ndarray[int64], shape (vertices,), size of each vertex in neurons
    """
    settings = context.settings
    whole = whole_nets(nets, neurons, costs.delivery)
    if _wanted(nets.vertices, context) * _work(whole, core, mesh, context) <= _most(context):
        return whole
    most = targets_seen(nets.vertices, context)
    lists = [receive((nets.start, nets.pins, nets.weights), core)]
    return thin_nets(lists, nets.sizes, neurons, core, most, costs.delivery, settings.seed_of(41))


def _work(nets: TickNets, core: Int32, mesh: Mesh, context: Context) -> float:
    """Slots that a proposal examines: of all nets of a vertex, mostly again to take it back.

    Half of the proposals are of vertices on the slowest cores, which may be in far more nets than
    others. That counts where time is short, that is with less than the usual work.
    """
    graph = nets.graph
    trees, _ = new_trees(graph, core.copy(), mesh.capacities, mesh.width)
    slots = np.repeat(trees.used.astype(np.float64), np.diff(graph.start))
    mean = float(slots.sum()) / max(1, graph.vertices)
    if context.plan.net_work < 1:
        on_core = np.bincount(core, np.bincount(graph.pins, slots, graph.vertices))
        count = np.bincount(core)
        slowest = np.argsort(-on_core, kind="stable")[: max(1, np.count_nonzero(count) // SHARE)]
        mean = (mean + float(on_core[slowest].sum()) / max(1, int(count[slowest].sum()))) / 2
    return SLOTS * max(1.0, mean)


def refine_by_ticks(
    nets: TickNets,
    core: Int32,
    mesh: Mesh,
    costs: TickCosts,
    context: Context,
    cycles_of: Callable[[Int32], float],
) -> Int32:
    """The core of every vertex, with a shorter tick; no core holds more than it may.

    cycles_of : the cycles of a tick with all nets, which are never more than before
    """
    settings, _, steps, monitor, team = context
    wanted = _wanted(nets.graph.vertices, context) if settings.tick_proposals else 0
    proposals = min(wanted, _most(context) / _work(nets, core, mesh, context))
    schedule = TickSchedule(int(proposals / 20))
    scaled = per_unit(costs, nets.unit)

    def anneal() -> Arrays:
        seed = settings.seed_of(40)
        works: list[Callable[[], Any]] = [  # annealing has one thread
            lambda: cycles_of(core),
            lambda: anneal_ticks(nets, core, mesh, scaled, schedule, seed, monitor.stop),
        ]
        before, found = team.map(lambda work: work(), works)
        after = cycles_of(found)
        monitor.note(f"slowest core or link: {before:,.1f} to {after:,.1f} cycles")
        return {"core": found if after <= before else core}

    return steps.run_once("ticks", anneal)["core"]
