"""One partition, from a `PartitionRequest` to the part of every vertex and its exact cut."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mapper.concurrency.threads import ThreadTeam
from mapper.distributed.start import start_workers
from mapper.errors import DoesNotFitError
from mapper.graph.disk import with_disk
from mapper.graph.rows import weight_shift
from mapper.graph.sparsification import thin
from mapper.inputs.listener import Listener
from mapper.inputs.objects import names_of
from mapper.inputs.opening import open_source
from mapper.kernels.warmup import compile_kernels, load_kernels, works_of_partition
from mapper.methods.cut import read_rows
from mapper.methods.cut_search import partition_graph
from mapper.monitoring.context import Context
from mapper.monitoring.monitor import Monitor
from mapper.partitioning.streamed import Task
from mapper.partitions.empty_parts import fill_empty_parts
from mapper.partitions.request import PartitionRequest, part_limits, settings_for
from mapper.partitions.score import PartitionScore, score_partition
from mapper.planning.core_limits import PartLimits
from mapper.planning.plan import Plan
from mapper.planning.strategy import make_plan
from mapper.results.output import SCRATCH
from mapper.resume.checkpoint import Checkpoint
from mapper.session import Workspace, open_scratch, require_workers
from storage.arrays import Int32
from storage.scratch.scratch import Scratch
from storage.store.network import NetworkFile

if TYPE_CHECKING:
    from mapper.distributed.dask import DaskWorkers
    from mapper.settings import Settings


@dataclass(frozen=True, slots=True, eq=False)
class Partitioned:
    """A finished partition.

    part : ndarray[int32], shape (vertices,), in the order of the input
    score : exact cut, and weights of the parts; capacity : largest weight allowed
    graph : facts of the graph: vertices, edges, whether it is undirected
    settings : settings of the run
    names : see `mapper.inputs.objects.names_of`
    """

    part: Int32
    score: PartitionScore
    capacity: int
    graph: dict[str, Any]
    settings: Settings
    names: Any


def run_partition(
    request: PartitionRequest, place: Workspace, monitor: Monitor, listener: Listener
) -> Partitioned:
    """Open or import the graph, plan, partition, and measure the result.

    Raises `DoesNotFitError` if the graph has too few vertices, a vertex is too heavy, or memory is
    too small. Ctrl-C is raised; finished steps remain in the folder.
    """
    with monitor.stop.holding() as held:
        network = held.enter_context(
            open_source(request.source, request.effort, listener, place.folder, place.resumed)
        )
        sizes = network.vertex_sizes()
        limits = part_limits(sizes, request)
        _tell_unused(network, listener)
        settings = settings_for(request, sizes.size)
        monitor.connections = network.connections
        if limits.cores == 1:
            part = np.zeros(sizes.size, np.int32)
        elif limits.cores == sizes.size:
            part = np.arange(sizes.size, dtype=np.int32)
        else:
            search = _Search(network, limits, settings, request, place, monitor, listener, held)
            part = search.run()
        monitor.finishing = True
        with monitor.stage("score"), ThreadTeam(settings.threads) as team:
            monitor.expect(network.connections)
            score = score_partition(network, part, limits.cores, team, monitor.advance)
        names = names_of(request.source.network, network)
        facts = graph_facts(network)
        return Partitioned(part, score, limits.neurons, facts, request.settings, names)


def graph_facts(network: NetworkFile) -> dict[str, Any]:
    """Return the counts of a graph for a report."""
    meta = network.meta
    return {
        "vertices": meta.neurons,
        "edges": meta.synapses,
        "undirected": meta.undirected,
        "self_loops": meta.self_loops,
        "repeated": meta.repeated,
        "weight": meta.total_size,
    }


def _tell_unused(network: NetworkFile, listener: Listener) -> None:
    """Report vertex weights that do not take part in the balance."""
    if "weight2" in network.meta.attributes:
        listener.note("note: only the first weight of each vertex is balanced")


def _without_placement(plan: Plan) -> Plan:
    """Return the plan without the stages of a chip; scoring a partition takes less than others."""
    names = {name: name for name in plan.stages if name not in ("groups", "placement", "score")}
    names["hop refinement"] = "cut refinement"
    return replace(plan, stages={new: plan.stages[old] for old, new in names.items()})


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for a partition, with scratch, workers and a memory plan.

    held : closes scratch and workers after the run
    """

    network: NetworkFile
    limits: PartLimits
    settings: Settings
    request: PartitionRequest
    place: Workspace
    monitor: Monitor
    listener: Listener
    held: ExitStack

    def run(self) -> Int32:
        """Return the part of every vertex; raises `DoesNotFitError`."""
        network, limits, settings = self.network, self.limits, self.settings
        scratch = self.held.enter_context(open_scratch(self.place))
        plan = with_disk(make_plan(network, limits, settings), network, limits, settings)
        here = _without_placement(plan)
        self.listener.planned(here)
        works = works_of_partition(settings, plan)
        with self.monitor.untimed():
            self.listener.compile(works, settings.threads)
            load_kernels(works)
        workers = self._workers(plan, works)
        here = here if workers is None else here.on_workers()
        here.require(None if scratch.names() else scratch.path)
        self.monitor.write(f"plan: {plan.strategy}")
        return self.monitor.stop.run(lambda: self._partition(plan, scratch, workers))

    def _workers(self, plan: Plan, works: list[str]) -> DaskWorkers | None:
        """Start the workers of a streamed graph, if any are asked for."""
        asked, settings = self.request.workers, self.settings
        if asked is None:
            return None
        if plan.levels or plan.held:
            self.listener.note("note: --workers is not used: the graph is held in memory")
            return None
        folder = self.place.folder / SCRATCH
        workers = self.held.enter_context(start_workers(asked, folder, self.monitor.stop.check))
        require_workers(asked, workers, self.network, self.limits, settings, plan)
        if workers.note:
            self.listener.note(workers.note)
        with self.monitor.untimed():
            workers.prepare(compile_kernels, works, workers.threads())
        return workers

    def _partition(self, plan: Plan, scratch: Scratch, workers: DaskWorkers | None) -> Int32:
        network, limits, settings, monitor = self.network, self.limits, self.settings, self.monitor
        meta = network.meta
        with ThreadTeam(plan.threads, monitor.stop) as team:
            context = Context(settings, plan, Checkpoint(scratch), monitor, team)
            shift = weight_shift(meta.total_weight, meta.synapses)
            with monitor.stage("read"):
                seen = thin(network, settings.degree, shift, team)
                rows = read_rows(seen, shift, context, scratch, workers)
            rows = rows.with_sizes(network.vertex_sizes())
            task = Task(network, rows, limits.neurons, limits.cores, parts=limits.cores)
            try:
                part = partition_graph(task, context)
            except DoesNotFitError as error:
                raise DoesNotFitError(
                    f"no {limits.cores:,} parts of at most {limits.neurons:,} were found: the "
                    "vertex weights leave too little slack; give a larger imbalance"
                ) from error
            return fill_empty_parts(rows, part, limits.cores, team)
