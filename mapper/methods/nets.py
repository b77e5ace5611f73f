"""Nets in memory: partitioning by connectivity, then refinement of packet hops.

A neuron sends a packet to each core that it reaches, or one packet that branches on its way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from chipsim.traffic.metrics import summarise
from mapper.concurrency.threads import ThreadTeam
from mapper.graph.csr import Subgraph
from mapper.graph.rows import StreamedRows, weight_shift
from mapper.hop_refinement.mesh import CoreMesh
from mapper.hop_refinement.repair_limits import unless_over_limits
from mapper.hypergraph.hypergraph import Hypergraph, contract
from mapper.hypergraph.net_rows import NetReader, net_traffic, read_nets
from mapper.hypergraph.steps import NetTask, partition_nets, refine_trees
from mapper.hypergraph.thin_nets import TickNets, receive, thin_nets, whole_nets
from mapper.hypergraph.tick_annealing import TickCosts, most_cycles, tick_state
from mapper.hypergraph.tick_refinement import (
    refine_by_ticks,
    targets_seen,
    thinned_if_many,
    tick_costs,
)
from mapper.limits.combined import CombinedCapacity
from mapper.methods.steps import MappingRun, Method
from mapper.planning.plan import REFINED_BY
from mapper.resume.checkpoint import Checkpoint
from mapper.scoring.stage_costs import StageCosts
from storage.arrays import Int32
from storage.store.network import RATE


def costs_of(objective: str) -> str:
    """Return the objective whose net costs stages report; empty for none."""
    return {"core": "core", "time": "core", "multicast": "multicast"}.get(objective, "")


class Nets(Method):
    """Partitioning and refinement with one net per neuron: the neuron and all its targets."""

    def __init__(self, run: MappingRun) -> None:
        self._run = run
        network, monitor = run.network, run.monitor
        with monitor.stage("read"):
            self._nets, self._combined = nets_of(run), run.combined
            self._neurons = self._nets.sizes
        shift = weight_shift(network.meta.total_weight, network.meta.synapses)
        self.rows = rows = StreamedRows(run.graph, run.combined.sizes, shift)
        self.costs = StageCosts(
            monitor, run.team, rows, faithful=shift == 0, nets=costs_of(run.settings.objective),
            detoured=run.chip.detoured,
        )  # fmt: skip

    def partition(self) -> tuple[Int32, Subgraph]:
        run = self._run

        def attempt(combined: CombinedCapacity, steps: Checkpoint) -> tuple[Int32, int]:
            sized = self._nets._replace(sizes=combined.sizes)
            strict = not run.job.axon_limited
            task = NetTask(sized, run.graph, combined.capacity, run.cores, strict, run.parts)
            return partition_nets(task, run.context._replace(steps=steps))

        part, parts, combined = run.partition_within_limits(attempt)
        self._nets = self._nets._replace(sizes=combined.sizes)
        self._combined = combined
        with run.monitor.stage("groups"):
            return part, net_traffic(self._nets, part, parts)

    def refine(self, core: Int32) -> Int32:
        if self._run.settings.objective == "time":
            return self._refine_by_time(core)
        spread = self._run.spread(self._combined)
        return refine_by_nets(self._run, self._nets, core, spread)

    def _refine_by_time(self, core: Int32) -> Int32:
        nets = self._nets

        def seen(mesh: CoreMesh, costs: TickCosts) -> TickNets:
            return thinned_if_many(nets, core, mesh, self._neurons, costs, self._run.context)

        def cycles_of(found: Int32, mesh: CoreMesh, costs: TickCosts) -> float:
            whole = whole_nets(nets, self._neurons, costs.delivery)
            return most_cycles(tick_state(whole, found.copy(), mesh, costs)[1], costs)

        return refine_by_time(self._run, core, self._combined, seen, cycles_of)


def refine_by_time(
    run: MappingRun,
    core: Int32,
    combined: CombinedCapacity,
    seen: Callable[[CoreMesh, TickCosts], TickNets],
    cycles_of: Callable[[Int32, CoreMesh, TickCosts], float],
) -> Int32:
    """Refine the cycles of a tick, over all usable cores, including cores without a part.

    With a least size of the neurons of cores in use, only over these.

    seen : returns the nets that annealing uses
    cycles_of : returns the cycles of a tick of a mapping, with all nets
    """
    with run.monitor.stage(REFINED_BY["time"]):
        if run.constraints is not None and run.constraints.restricts_cores:
            run.monitor.note("no refinement: constraints restrict some neurons to cores")
            return core
        mesh = run.mesh(core, combined)
        if run.job.bounds is None:
            capacities = np.where(run.usable(core), run.job.capacities(combined), 0)
            mesh = replace(mesh, capacities=capacities)
        meta = run.network.meta
        rated = meta.attributes.get(RATE)
        costs = tick_costs(run.chip, rated.unit if rated else meta.weight_unit)
        found = refine_by_ticks(
            seen(mesh, costs), core, mesh, costs, run.context, lambda it: cycles_of(it, mesh, costs)
        )
        return checked(run, found, core, run.team)


def refine_by_time_streamed(run: MappingRun, core: Int32) -> Int32:
    """Refine the cycles of a tick, with some targets per neuron in memory; ticks take a pass."""
    network, settings = run.network, run.settings
    neurons = network.vertex_sizes()

    def seen(_: CoreMesh, costs: TickCosts) -> TickNets:
        most, seed = targets_seen(network.vertices, run.context), settings.seed_of(41)
        reader = NetReader(network)
        found = run.team.stream(
            lambda index: receive(reader.read(index), core), range(network.block_count)
        )
        run.monitor.note(f"up to {most} targets per neuron represent all targets")
        return thin_nets(found, run.combined.sizes, neurons, core, most, costs.delivery, seed)

    def cycles_of(found: Int32, *_: object) -> float:
        return float(summarise(run.chip, run.measurements.measure(found))["tick_cycles"])

    return refine_by_time(run, core, run.combined, seen, cycles_of)


def nets_of(run: MappingRun) -> Hypergraph:
    """Read the nets of the network, or of its items, within the current stage."""
    network, monitor = run.network, run.monitor
    monitor.expect(network.meta.synapses)
    nets = read_nets(network, network.vertex_sizes(), run.team, monitor.advance)
    if run.constraints is not None:
        item = run.job.items.item.astype(np.int32)
        nets = contract(nets, item, run.job.items.count, directed=True)
    return nets


def refine_by_nets(
    run: MappingRun, nets: Hypergraph | None, core: Int32, combined: CombinedCapacity
) -> Int32:
    """Move vertices to save hops of their packets: packets to each core, or multicast trees.

    nets : None to read them first, with the sizes of the items
    """
    with run.monitor.stage(REFINED_BY[run.settings.objective]):
        if nets is None:
            nets = nets_of(run)._replace(sizes=run.combined.sizes)
        mesh = run.mesh(core, combined)

        def on_better(found: Int32) -> None:
            run.keep(lambda team: checked(run, found, core, team))

        domains = None
        if run.constraints is not None:
            domains = run.constraints.domains(core, run.chip.cores)
        found = refine_trees(nets, core, mesh, run.context, on_better, domains)
        return checked(run, found, core, run.team)


def checked(run: MappingRun, found: Int32, placed: Int32, team: ThreadTeam) -> Int32:
    """Return the refined mapping, or the placed one if a core is above a limit."""
    if run.single_capacity:
        return found
    return unless_over_limits(run.job, found, placed, run.monitor, team)
