"""Refinement after placement: neurons move and swap between cores, to shorten a tick."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np

from chipsim.chip.model import Chip
from mapper.errors import UsageError
from mapper.hop_refinement.mesh import CoreMesh
from mapper.hypergraph.hypergraph import Hypergraph
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
from mapper.monitoring.context import Context
from mapper.resume.checkpoint import Arrays
from storage.arrays import Int32, Int64

LEAST = 200_000  # proposals in total, at least
MOST_SLOTS = 600_000_000  # slots that all proposals visit, approximately
SLOTS = 4  # visits per slot and proposal
FEWEST = 4  # targets that represent a net, at least
DELIVERIES = {"synapse": SYNAPSE, "core": CORE, "tree": TREE}


def require_time(chip: Chip) -> None:
    """Raise `UsageError` if the chip has no timing."""
    if chip.time is None:
        raise UsageError(
            f"the objective time needs cycles, but chip {chip.name} has none; "
            "give a chip file with a table [time], or use the objective hops"
        )


def tick_costs(chip: Chip, rate_unit: float) -> TickCosts:
    """Return the cycles of the parts of a tick, as `chipsim.traffic.ticks` measures it.

    rate_unit : value of a stored rate of 1
    Links are ignored for machines, whose cores share routers.
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
    """Scale the costs for rates that are multiplied by `unit`."""
    rated = ("packet_out", "packet_in", "event", "link")
    return costs._replace(**{name: getattr(costs, name) / unit for name in rated})


def targets_seen(vertices: int, context: Context) -> int:
    """Return the number of targets per net that the time allows."""
    return max(FEWEST, isqrt(_most(context) // (SLOTS * _wanted(vertices, context))))


def _most(context: Context) -> int:
    """Return the number of slots that all proposals may visit, approximately."""
    return max(1, int(MOST_SLOTS * context.plan.net_work))


def _wanted(vertices: int, context: Context) -> int:
    """Return the total number of proposals, if time allows."""
    return max(context.settings.tick_proposals * vertices, LEAST)


def thinned_if_many(
    nets: Hypergraph,
    core: Int32,
    mesh: CoreMesh,
    neurons: Int64,
    costs: TickCosts,
    context: Context,
) -> TickNets:
    """Return all nets, or thinned nets if time is short.

    neurons : ndarray[int64], shape (vertices,), size of each vertex in neurons
    """
    settings = context.settings
    whole = whole_nets(nets, neurons, costs.delivery)
    if _wanted(nets.vertices, context) * _work(whole, core, mesh, context) <= _most(context):
        return whole
    most = targets_seen(nets.vertices, context)
    lists = [receive((nets.start, nets.pins, nets.weights), core)]
    return thin_nets(lists, nets.sizes, neurons, core, most, costs.delivery, settings.seed_of(41))


def _work(nets: TickNets, core: Int32, mesh: CoreMesh, context: Context) -> float:
    """Return the slots that a proposal visits: all nets of a vertex, usually twice, to undo it.

    Half of the proposals move vertices of the slowest cores, which may be in far more nets than
    others. This is considered if time is short, that is with less than the usual work.
    """
    graph = nets.graph
    trees, _ = new_trees(graph, core.copy(), mesh)
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
    mesh: CoreMesh,
    costs: TickCosts,
    context: Context,
    cycles_of: Callable[[Int32], float],
) -> Int32:
    """Return the core of every vertex, with a shorter tick; no core exceeds its capacity.

    cycles_of : function that returns the cycles of a tick with all nets; they never increase
    """
    settings, _, steps, monitor, team = context
    wanted = _wanted(nets.graph.vertices, context) if settings.tick_proposals else 0
    proposals = min(wanted, _most(context) / _work(nets, core, mesh, context))
    schedule = TickSchedule(int(proposals / 20))
    scaled = per_unit(costs, nets.unit)

    def anneal() -> Arrays:
        seed = settings.seed_of(40)
        works: list[Callable[[], Any]] = [  # annealing uses one thread
            lambda: cycles_of(core),
            lambda: anneal_ticks(nets, core, mesh, scaled, schedule, seed, monitor.stop),
        ]
        before, found = team.map(lambda work: work(), works)
        after = cycles_of(found)
        monitor.note(f"slowest core or link: {before:,.1f} to {after:,.1f} cycles")
        return {"core": found if after <= before else core}

    return steps.run_once("ticks", anneal)["core"]
