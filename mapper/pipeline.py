"""The mapping pipeline: from a network on disk to a scored placement in nine steps.

step                 classic (published)    default, fast, strong        core, multicast
1 store              blocks on disk         the same                     the same
2 coarsen            heavy-edge pairs       label propagation            neurons of the same nets
3 initial partition  bisection, min-queue   deep multilevel bisection    recursive bisection of nets
4 refine             cut                    cut; exchanges, annealing    k-way FM by connectivity
5 groups             traffic between parts  the same                     once per core reached
6 region             compact rectangle      the same                     the same
7 initial placement  region bisection       curves, spectral, springs    as default
8 refine placement   force-directed swaps   annealing                    as default
  move neurons       -                      fewer hops                   fewer links of packets
9 result             core of every neuron   the same                     the same

A `Method` implements steps 2 to 5 and the moves of neurons after step 8: `Classic`, `Streamed` or
`Nets` in `mapper.methods`; docs/method.md explains them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.limits import violations
from chipsim.chip.model import Chip
from chipsim.traffic.arrays import Traffic
from chipsim.traffic.metrics import summarise
from mapper.concurrency.interrupts import Stop
from mapper.concurrency.stop_flag import StoppedError
from mapper.concurrency.threads import ThreadTeam
from mapper.errors import DoesNotFitError, UsageError
from mapper.executors.worker_interface import Workers
from mapper.graph.contraction import contract
from mapper.graph.csr import Subgraph
from mapper.hypergraph.tick_refinement import require_time
from mapper.limits.axons import make_job
from mapper.limits.capacity import demands, require_fit
from mapper.limits.combined import combine_capacity
from mapper.limits.combined_constraints import Constraints, item_sizes
from mapper.limits.exact_search import ITEMS, search_places
from mapper.limits.fill_bounds import below_least, bounded_chip, limited_chip, on_cores
from mapper.limits.in_order import fill_in_order
from mapper.methods.classic import Classic
from mapper.methods.nets import Nets
from mapper.methods.placing import place_groups, require_placer
from mapper.methods.steps import MappingRun, Method
from mapper.methods.streamed import Streamed
from mapper.monitoring.monitor import Monitor
from mapper.planning.plan import Plan, megabytes
from mapper.planning.processor_time import processor_seconds
from mapper.planning.strategy import make_plan
from mapper.results.mapping import Mapping
from mapper.resume.checkpoint import Arrays, Checkpoint
from mapper.scoring.baselines import measure_baselines
from mapper.scoring.measure import Measurements
from mapper.scoring.populations import PopulationTraffic, population_traffic
from mapper.scoring.worked import sweep_on
from mapper.settings import Settings
from storage.graph import Graph
from storage.scratch.scratch import Scratch
from storage.store.network import NetworkFile
from storage.store.populations import called, has_populations

NOTHING_YET = "no mapping within all limits had been found"


def map_network(
    network: NetworkFile,
    chip: Chip,
    settings: Settings,
    scratch: Scratch,
    monitor: Monitor,
    constraints: Constraints | None = None,
    plan: Plan | None = None,
    workers: Workers | None = None,
    time_limit: float | None = None,
) -> Mapping:
    """Map a stored network (step 1) onto a chip.

    constraints : where neurons must be, and which must be together or apart
    plan : memory plan, if it exists already
    workers : scan the rows of the network if the plan streams them (see `looked_at_here`), and
        score its synapses at the end
    time_limit : seconds after which the best mapping so far is scored; without one, the first
    Raises `DoesNotFitError` if a limit of the chip cannot be met. Once all neurons have cores
    within the limits, Ctrl-C ends the run with the best mapping so far; before, it is raised.
    """
    settings = settings.resolved(chip.delivery)
    _require_possible(chip, settings)
    settings = on_cores(settings, chip.usable_count)
    limited = limited_chip(chip, settings, item_sizes(network, constraints, settings))
    tables = 0 if constraints is None else constraints.bytes
    plan = plan or make_plan(network, limited, settings, tables)
    _announce(network, limited, settings, plan, monitor)
    here = plan if workers is None else plan.on_workers()
    here.require(None if scratch.names() else scratch.path)  # earlier scratch counts as used
    task = _Task(
        network, limited, settings, scratch, monitor, constraints, plan, workers,
        Measurements(network, limited, plan.threads, scratch), time_limit is not None, chip,
    )  # fmt: skip
    core, stage = None, ""
    monitor.stop.limit(time_limit)
    try:
        core = monitor.stop.run(task.map_neurons)
    except KeyboardInterrupt:
        if monitor.stop.kept is None:
            raise
        stage = monitor.at_work["name"]
    monitor.stop.limit(None)
    monitor.finishing = True
    core, traffic = monitor.stop.run(lambda: task.score(core), patient=True)
    if monitor.stop.asked and not stage:
        stage = monitor.at_work["name"]
    populations = monitor.stop.run(lambda: task.populations(core), patient=True)
    baselines = monitor.stop.run(lambda: task.baselines(core), patient=True)
    return Mapping(core, summarise(chip, traffic), traffic, stage, populations, baselines)


def _require_possible(chip: Chip, settings: Settings) -> None:
    """Raise `UsageError` for settings that the chip cannot have."""
    require_placer(settings)
    if settings.objective == "time":
        require_time(chip)
    if settings.cores > chip.usable_count:
        raise UsageError(
            f"cores is {settings.cores:,}, but chip {chip.name} has {chip.usable_count:,} usable "
            "cores; give fewer"
        )


def _announce(
    network: NetworkFile, chip: Chip, settings: Settings, plan: Plan, monitor: Monitor
) -> None:
    """Write the plan to the log, and give the monitor the estimated work of each stage."""
    monitor.connections = network.connections
    estimates = processor_seconds(network, chip, settings, plan)
    monitor.estimates = {stage: seconds / plan.threads for stage, seconds in estimates.items()}
    monitor.write(f"plan: {plan.strategy}")
    for name, need in plan.stages.items():
        monitor.write(f"planned for {name}: {megabytes(need)} of {megabytes(plan.budget)}")


@dataclass(frozen=True, slots=True)
class _Task:
    """The two tasks of a run, each run in a separate thread: mapping, and scoring the result.

    chip, given : the chip with and without the limits that `fill` and `spread` lower
    limited : the time is limited, so a first mapping is kept at once
    """

    network: NetworkFile
    chip: Chip
    settings: Settings
    scratch: Scratch
    monitor: Monitor
    constraints: Constraints | None
    plan: Plan
    workers: Workers | None
    measurements: Measurements
    limited: bool
    given: Chip

    def map_neurons(self) -> NDArray[np.int32]:
        """Return the core of every neuron."""
        with ThreadTeam(self.plan.threads, self.monitor.stop) as team:
            core = self._tiled()
            if core is None:
                run = self._checked(team)
                if self.limited:
                    run = _with_first(run)
                doubtful = self.limited and run.searched and run.first is None
                core = _map_all(run, doubtful)[run.job.items.item]
        with self.monitor.stage("result"):  # step 9
            self.scratch.put_array("core", core)
        return core

    def _tiled(self) -> NDArray[np.int32] | None:
        """Return the core of every neuron, mapped as tiles that share synapse lists.

        None if the chip shares no lists, or if a mapping that counts synapses is as good.
        """
        chip, settings = self.chip, self.settings
        bound = self.constraints is not None or settings.bounds_fill
        if chip.sharing == "none" or bound or chip.core_limits:
            return None
        from mapper.populations.stored import tiled_cores

        with self.monitor.stage("check"):
            found = demands(self.network, replace(chip, sharing="none"), self.plan.threads)
        fits = all(each.fits for each in found)
        least = max(-(-each.needed // each.per_core) for each in found)
        if fits and (settings.cores or settings.objective == "time"):
            return None
        try:
            with self.monitor.stage("limits"):
                return tiled_cores(
                    self.network, chip, settings.memory_bytes // 2, settings.seed_of(7),
                    least if fits else chip.usable_count + 1, settings.placer,
                )  # fmt: skip
        except DoesNotFitError:
            if fits:
                return None
            raise

    def _checked(self, team: ThreadTeam) -> MappingRun:
        """Return the run of a network that may fit; raises `DoesNotFitError` if it cannot."""
        network, chip, settings, plan = self.network, self.chip, self.settings, self.plan
        with self.monitor.stage("check"):
            # Synapses, counted one by one, bound the words of shared lists.
            chip = replace(chip, sharing="none")
            sizes = item_sizes(network, self.constraints, settings)
            few = sizes.size <= ITEMS  # a search considers all cores
            few |= self.constraints is not None and self.constraints.restricts_cores
            chip, bounds = bounded_chip(self.given, chip, settings, sizes, not few)
            job = replace(make_job(network, chip, plan.threads, self.constraints), bounds=bounds)
            require_fit(network, chip, plan.threads, job.fans)
            graph: Graph = network
            if self.constraints is not None:
                named = partial(called, network)
                self.constraints.require_fit(chip, job.load.sizes, job.fans, named)
                graph = contract(
                    network, job.items.item, job.items.count, self.scratch, "together",
                    settings.memory_bytes // 4, plan.threads,
                )  # fmt: skip
        combined = combine_capacity(job.demands(), job.load.limits, np.zeros(2), chip.usable_count)
        run = MappingRun(
            network, graph, chip, self.constraints, job, combined, settings, plan,
            Checkpoint(self.scratch), self.scratch, self.monitor, team, self.measurements,
            self.workers, wide=settings.method == "classic",
        )  # fmt: skip
        # moves of neurons need spare capacity
        return run if plan.nets_held else replace(run, combined=run.spread(combined))

    def score(self, core: NDArray[np.int32] | None) -> tuple[NDArray[np.int32], Traffic]:
        """Return the core of every neuron, and the traffic.

        core : finished mapping; None for the best mapping of an interrupted run
        """
        monitor, network = self.monitor, self.network
        found = _kept(monitor.stop, self.plan.threads) if core is None else core
        with monitor.stage("score"):
            monitor.expect(network.connections)
            swept = None
            if self.workers is not None and self.measurements.known(found) is None:
                swept = sweep_on(self.workers, network, self.chip, found, monitor)
            traffic = self.measurements.measure(found, self.scratch.path, monitor.advance, swept)
            monitor.observer.settle(traffic)
            broken = list(map(str, violations(self.chip, traffic.usage)))
            broken += below_least(self.given, self.settings.min_fill, traffic.usage)
        if broken and core is None:
            raise StoppedError(NOTHING_YET)
        if broken:
            more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
            raise DoesNotFitError(
                f"no mapping met all limits of chip {self.chip.name}: {broken[0]}{more}; "
                "lower --neurons-per-core or use a larger chip"
            )
        return found, traffic

    def populations(self, core: NDArray[np.int32]) -> PopulationTraffic | None:
        """Return the traffic of the populations; None after Ctrl-C, and without populations."""
        monitor, network = self.monitor, self.network

        def advance(done: int) -> None:
            self.require_time()
            monitor.advance(done)

        if monitor.stop.asked or not has_populations(network):
            return None
        with suppress(StoppedError), monitor.stage("populations"):
            monitor.expect(network.connections)
            some = self.chip, core, self.plan.threads, self.scratch.path
            return population_traffic(network, *some, advance)
        return None

    def baselines(self, core: NDArray[np.int32]) -> dict[str, float] | None:
        """Return the hops of simple mappings, to compare with; None after Ctrl-C."""
        if self.monitor.stop.asked:
            return None
        with suppress(StoppedError), self.monitor.stage("baselines"):
            return measure_baselines(
                self.network, self.chip, core, self.settings.seed_of(8), self.plan.threads,
                self.scratch.path, self.require_time,
            )  # fmt: skip
        return None

    def require_time(self) -> None:
        """Raise `StoppedError` after Ctrl-C: the mapping is complete, and the rest is optional."""
        if self.monitor.stop.asked:
            raise StoppedError


def _map_all(run: MappingRun, doubtful: bool) -> NDArray[np.int32]:
    """Return the core of every item, by an exact search if heuristics find none for a few."""
    try:
        return _map_items(run, _method(run), doubtful)
    except DoesNotFitError:
        if not run.searched:
            raise
        core = search_places(run.job, run.constraints, run.settings.cores, run.team)
        if core is not None:
            return core
        if run.job.bounds is None:
            raise
        run.monitor.levels.clear()
        wide = replace(run, wide=not run.wide, steps=run.steps.nested("more cores"))
        return _map_items(wide, _method(wide), doubtful)


def _map_items(run: MappingRun, method: Method, doubtful: bool) -> NDArray[np.int32]:
    """Run steps 2 to 8; return the core of every item.

    doubtful : a placement may break constraints, and a limit of time would end the run with it: it
        is kept only if it can be repaired
    """
    chip, monitor = run.chip, run.monitor
    part, groups = method.partition()  # steps 2 to 5

    def on_better(x: NDArray[np.int32], y: NDArray[np.int32]) -> None:
        cell = (y * chip.width + x).astype(np.int32)

        def make(team: ThreadTeam) -> NDArray[np.int32]:
            return method.unrefined(run.place_items(cell, part, team))

        if not doubtful:
            run.keep(make)
            return
        with suppress(DoesNotFitError), ThreadTeam(1) as team:
            core = run.filled(make(team), None, team)
            run.keep(lambda _: core)

    def placed(groups: Subgraph = groups) -> Arrays:
        def on_stage(x: NDArray[np.int32], y: NDArray[np.int32]) -> None:
            method.placed(part, groups, x, y)

        x, y = place_groups(
            groups, run.places(groups.members.size), run.settings, monitor, on_stage=on_stage,
            on_better=on_better,
        )  # fmt: skip
        return {"x": x, "y": y}

    before = len(monitor.stages)
    places = run.steps.run_once("place", placed)  # steps 6 to 8
    on_better(places["x"], places["y"])
    del groups
    cell = (places["y"] * chip.width + places["x"]).astype(np.int32)
    core = run.filled(run.place_items(cell, part, rows=method.rows), method.rows)
    core = method.refine(core)
    core = run.filled(core, method.rows)
    run.keep(lambda _: core)
    stage = monitor.at_work if len(monitor.stages) > before else None
    method.costs.finish(core, chip.width, stage)
    return core


def _with_first(run: MappingRun) -> MappingRun:
    """Return the run with a first mapping of neurons in order, if one was found; it is kept.

    One capacity must represent all limits. Constraints move some of the neurons.
    """
    if not run.combined.exact or run.job.axon_limited:
        return run
    free = np.flatnonzero(run.chip.usable)[: run.cores]
    core = fill_in_order(run.combined.sizes, run.combined.capacity, free)
    if core is None:
        return run
    try:
        place = run.place_items(np.arange(run.chip.cores, dtype=np.int32), core)
        first = run.filled(place)
    except DoesNotFitError:
        return run
    run = replace(run, first=first)
    run.keep(lambda _: first)
    return run


def _kept(stop: Stop, threads: int) -> NDArray[np.int32]:
    """Return the core of every neuron of the best mapping kept.

    Raises `StoppedError` if the mapping exceeds a limit and cannot be repaired.
    """
    assert stop.kept is not None
    try:
        with ThreadTeam(threads) as team:
            return stop.kept(team)
    except DoesNotFitError as error:
        raise StoppedError(NOTHING_YET) from error


def _method(run: MappingRun) -> Method:
    if run.settings.method == "classic":
        return Classic(run)
    if run.plan.nets_held:
        return Nets(run)
    return Streamed(run)
