"""The job, top to bottom: from a network on disk to a scored placement in nine steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip import Chip
from chipsim.limits import violations
from chipsim.metrics import summarise
from chipsim.traffic import Traffic, measure
from mapper.capacity import require_fit
from mapper.checkpoint import Arrays, Steps
from mapper.constraints import Constraints
from mapper.errors import DoesNotFitError
from mapper.limits.fold import Folded, Resized, fold
from mapper.limits.pins import core_of_items
from mapper.limits.search import ATTEMPTS, make_job, partition_within
from mapper.mapping.mesh import Mesh
from mapper.mapping.multilevel import Levels, coarsen, first_parts
from mapper.mapping.refine import Mapped, level_effort, refine_mapping
from mapper.mapping.within import refine_within, within_limits
from mapper.monitor import Monitor
from mapper.multicast.hypergraph import contract as contract_nets
from mapper.multicast.job import NetTask, partition_nets, refine_streamed_nets, refine_trees
from mapper.multicast.nets import net_traffic, read_nets
from mapper.partition.bisection import whole
from mapper.partition.classic import partition_classic
from mapper.partition.contraction import contract
from mapper.partition.groups import group_traffic
from mapper.partition.growing import Subgraph
from mapper.partition.rows import weight_shift
from mapper.partition.streamed import (
    Task,
    balanced,
    numbered,
    open_rows,
    partition_streamed,
)
from mapper.partition.thinning import thin
from mapper.placement.force import refine_by_forces
from mapper.placement.portfolio import place
from mapper.placement.region import choose_region
from mapper.placement.region_bisection import place_by_bisection
from mapper.plan import Plan, make_plan, megabytes
from mapper.settings import Settings
from mapper.team import Team
from storage.graph import Csr, Graph
from storage.network import RATE, NetworkFile
from storage.scratch import Scratch


@dataclass(frozen=True, slots=True)
class Mapping:
    """What a run ends with.

    core : ndarray[int32], shape (neurons,), core id of every neuron
    metrics : the numbers of the report; traffic : the arrays behind them
    interrupted : Ctrl-C ended the refinement of the placement early
    """

    core: NDArray[np.int32]
    metrics: dict[str, Any]
    traffic: Traffic
    interrupted: bool


def map_network(
    network: NetworkFile,
    chip: Chip,
    settings: Settings,
    scratch: Scratch,
    monitor: Monitor,
    constraints: Constraints | None = None,
) -> Mapping:
    """Map a stored network (step 1) onto a chip.

    constraints : neurons that are pinned to a core or kept together
    Raises `DoesNotFitError` if a limit of the chip cannot be kept.
    """
    monitor.connections = network.connections
    plan = make_plan(network, chip, settings)
    for name, need in plan.stages.items():
        monitor.write(f"planned for {name}: {megabytes(need)} of {megabytes(plan.budget)}")
    plan.require(None if scratch.names() else scratch.path)  # scratch of before counts as used
    steps = Steps(scratch)
    threads = plan.threads
    with Team(threads) as team:
        with monitor.stage("check"):
            job = make_job(network, chip, threads, constraints)
            require_fit(network, chip, threads, job.fans)
            graph: Graph = network
            if constraints is not None:
                constraints.require_fit(chip, job.load.sizes, job.fans)
                graph = contract(
                    network, job.items.item, job.items.count, scratch, "together",
                    settings.memory_bytes // 4, threads,
                )  # fmt: skip

        cores = chip.usable_count
        seed, spare = settings.seed_of(9), plan.grouped or settings.memory_bytes // 4
        folded = fold(job.demands(), job.load.limits, np.zeros(2), cores)
        # One capacity stands for all limits, and nothing has a place before it is placed.
        pinned = constraints is not None and bool((constraints.core >= 0).any())
        plain = folded.exact and not job.watched and not pinned
        # Where nets are streamed, parts within limits that do not add up stay as they are.
        by_nets = settings.objective == "multicast" and plain and constraints is None
        nets_held = settings.objective == "multicast" and plan.nets_held
        if settings.method == "classic":  # steps 2 to 5

            def paired(folded: Folded, number: int) -> tuple[NDArray[np.int32], int]:
                sized = Resized(graph, folded.sizes)
                tried = steps.within(f"attempt {number}") if number else steps
                return partition_classic(
                    sized, folded.capacity, cores, settings, tried, scratch, monitor
                )

            part, parts, folded = partition_within(
                job, paired, ATTEMPTS, spare, seed, team, monitor
            )
            with monitor.stage("groups"):
                memory = settings.memory_bytes // 4
                contracted = contract(graph, part, parts, scratch, "groups", memory, threads)
                groups = whole(contracted, threads)
        elif nets_held:
            with monitor.stage("read"):
                monitor.expect(network.meta.synapses)
                nets = read_nets(network, network.vertex_sizes(), team, monitor.advance)
                if constraints is not None:
                    item = job.items.item.astype(np.int32)
                    nets = contract_nets(nets, item, job.items.count, directed=True)

            def netted(folded: Folded, number: int) -> tuple[NDArray[np.int32], int]:
                sized = replace(nets, sizes=folded.sizes)
                tried = steps.within(f"attempt {number}") if number else steps
                task = NetTask(sized, graph, folded.capacity, cores, strict=not job.watched)
                return partition_nets(task, settings, plan.gathered, tried, monitor, team)

            part, parts, folded = partition_within(
                job, netted, ATTEMPTS, spare, seed, team, monitor
            )
            nets = replace(nets, sizes=folded.sizes)
            with monitor.stage("groups"):
                groups = net_traffic(nets, part, parts)
        else:
            shift = weight_shift(network.meta.total_weight, network.meta.synapses)
            with monitor.stage("read"):
                seen = thin(graph, settings.degree, shift, team)
                rows = open_rows(seen, shift, plan.held, scratch, monitor, team)
            rows.sizes = folded.sizes
            task = Task(Resized(graph, folded.sizes), rows, folded.capacity, cores)
            levels = Levels([rows], [])

            def streamed(folded: Folded, number: int) -> tuple[NDArray[np.int32], int]:
                rows.sizes = folded.sizes
                sized = Resized(graph, folded.sizes)
                task = Task(sized, rows, folded.capacity, cores, strict=not job.watched)
                tried = steps.within(f"attempt {number}") if number else steps
                return partition_streamed(task, settings, plan, tried, monitor, team)

            if plan.levels and plain:  # the coarsest level in parts, refined when they have places
                levels, part, parts = _first_partition(task, settings, plan, steps, monitor, team)
            else:
                part, parts, folded = partition_within(
                    job, streamed, ATTEMPTS, spare, seed, team, monitor
                )

            def refined(
                core: NDArray[np.int32], mesh: Mesh, usable: NDArray[np.bool_]
            ) -> NDArray[np.int32]:
                mapped = Mapped(levels, core, mesh, plan)
                core = refine_mapping(mapped, settings, steps, monitor, team)
                return balanced(task, core, usable, threads)

            if settings.objective == "cut" and plain:
                with monitor.stage("refine by cut"):
                    every = np.ones(cores, np.bool_)
                    part = refined(
                        part, Mesh.flat(np.full(parts, folded.capacity, np.int64)), every
                    )
                    part, parts = numbered(part, cores)
                    levels = Levels([rows], [])
            if by_nets:
                part, groups = refine_streamed_nets(
                    network, rows, part, parts, folded.capacity, settings, plan.grouped, steps,
                    scratch.path, monitor, team,
                )  # fmt: skip
            else:
                with monitor.stage("groups"):
                    seen_rows = levels.coarsest
                    monitor.expect(seen_rows.entries)
                    groups = group_traffic(
                        seen_rows, part, parts, plan.grouped, scratch.path, team, monitor.advance
                    )
        scratch.evict()

        def placed(groups: Subgraph = groups) -> Arrays:
            x, y, interrupted = place_groups(groups, chip, settings, monitor)
            return {"x": x, "y": y, "interrupted": np.array([interrupted], np.int32)}

        places = steps.once("place", placed)  # steps 6 to 8
        del groups
        cell = (places["y"] * chip.width + places["x"]).astype(np.int32)
        if plain:
            place = cell[part]
        else:
            place = core_of_items(cell, part, constraints, job, spare, seed, team)
        if nets_held:
            with monitor.stage("refine by trees"):
                if pinned:
                    monitor.note("left as placed: some neurons are pinned")
                else:
                    mesh = Mesh(chip.width, chip.height, _room(chip, place, folded.capacity))
                    found = refine_trees(nets, place, mesh, settings, steps, monitor)
                    place = found if plain else within_limits(job, found, place, monitor, team)
            del nets
        elif settings.method != "classic" and settings.objective != "cut" and not by_nets:
            with monitor.stage("refine by hops"):
                if plain:
                    mesh = Mesh(chip.width, chip.height, _room(chip, place, folded.capacity))
                    place = refined(place, mesh, chip.usable.ravel())
                else:
                    place = refine_within(
                        job, folded, rows, place, constraints, settings, plan, steps, monitor, team
                    )
            del rows, levels, task
            scratch.evict()

    with monitor.stage("result"):  # step 9
        core = place[job.items.item]
        scratch.put_array("core", core)

    with monitor.stage("score"):
        monitor.expect(network.connections)
        traffic = measure_network(network, chip, core, threads, scratch.path, monitor.advance)
        if monitor.levels:
            monitor.levels[0]["cut_weight"] = traffic.totals.cut
        broken = violations(chip, traffic.usage)
        if broken:
            more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
            raise DoesNotFitError(
                f"no mapping found within all limits of chip {chip.name}: {broken[0]}{more}; "
                "lower --neurons-per-core or take a larger chip"
            )
    return Mapping(core, summarise(chip, traffic), traffic, bool(places["interrupted"][0]))


def _first_partition(
    task: Task, settings: Settings, plan: Plan, steps: Steps, monitor: Monitor, team: Team
) -> tuple[Levels, NDArray[np.int32], int]:
    """Steps 2 and 3 for networks in memory: levels, and the coarsest one in parts.

    Returns the levels, the part of every vertex of the coarsest, and the number of parts.
    """
    with monitor.stage("coarsen"):
        seed = settings.seed_of(2)
        levels = coarsen(task.rows, task.wanted, task.capacity, seed, team)
        for graph in levels.graphs:
            monitor.level(graph.vertices, graph.entries)
    with monitor.stage("initial partition"):

        def first() -> Arrays:
            part = first_parts(
                levels.coarsest, task.wanted, task.capacity, settings.starts,
                level_effort(settings, plan, task.rows.vertices), settings.seed_of(3), team,
            )  # fmt: skip
            return {"part": part}

        part = steps.once("first parts", first)["part"]
    return levels, *numbered(part, task.cores)


def _room(chip: Chip, core: NDArray[np.int32], capacity: int) -> NDArray[np.int64]:
    """What each core may hold, 0 for those that are not in use."""
    used = np.bincount(core, minlength=chip.cores) > 0
    return np.where(used, capacity, 0).astype(np.int64)


def place_groups(
    groups: Subgraph,
    chip: Chip,
    settings: Settings,
    monitor: Monitor,
    time_limit: float | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int32], bool]:
    """Steps 6 to 8: one core for each group.

    time_limit : seconds after which the best so far is taken; not of the classic method

    Returns column and row of every group, each shape (groups,), and whether it was interrupted.
    Raises `DoesNotFitError` if there are more groups than usable cores.
    """
    threads = settings.threads
    with monitor.stage("region"):  # step 6
        region = choose_region(chip.usable.reshape(chip.height, chip.width), groups.members.size)
        monitor.note(f"{region.width}x{region.height} cores at column {region.x}, row {region.y}")

    if settings.method != "classic":
        with monitor.stage("placement"):  # steps 7 and 8
            memory = settings.memory_bytes // 4
            rng = _random(settings, step=7)
            return place(
                groups, region, settings.placement, rng, threads, memory, time_limit=time_limit
            )

    with monitor.stage("initial placement"):  # step 7
        rng = _random(settings, step=7)
        x, y = place_by_bisection(groups, region, settings.bisection_repeats, rng, threads)

    with monitor.stage("force-directed refinement"):  # step 8
        iterations, interrupted = refine_by_forces(
            groups,
            x,
            y,
            (chip.height, chip.width),
            settings.force_share,
            settings.force_iterations,
            settings.memory_bytes // 4,
        )
        monitor.note(f"{iterations} iterations")
    return x, y, interrupted


def measure_network(
    network: NetworkFile,
    chip: Chip,
    core: NDArray[np.int32],
    threads: int = 1,
    scratch: Path | None = None,
    advance: Callable[[int], None] = lambda done: None,
) -> Traffic:
    """Traffic of a stored network under a mapping, in one pass.

    scratch : folder for sums that outgrow the memory meant for them
    advance : called with the connections of each block
    """
    rate = network.attribute(RATE) if RATE in network.meta.attributes else None
    return measure(
        chip,
        core,
        _Told(network, advance),
        sizes=network.vertex_sizes(),
        rates=rate.stored if rate else None,
        undirected=network.undirected,
        weight_unit=network.meta.weight_unit,
        rate_unit=rate.unit if rate else network.meta.weight_unit,
        threads=threads,
        scratch=scratch,
    )


@dataclass(frozen=True, slots=True)
class _Synapses:
    """The outgoing synapses of some consecutive vertices."""

    first: int
    lists: Csr

    def outgoing(self) -> Csr:
        return self.lists


@dataclass(frozen=True, slots=True)
class _Told:
    """The blocks of a network, each of them told to a progress display when it is read."""

    network: NetworkFile
    advance: Callable[[int], None]

    @property
    def block_count(self) -> int:
        return self.network.block_count

    def read_block(self, index: int) -> _Synapses:
        lists = self.network.read_outgoing(index)
        self.advance(lists[1].size * (1 if self.network.undirected else 2))
        return _Synapses(self.network.block_bounds(index)[0], lists)


def _random(settings: Settings, step: int) -> np.random.Generator:
    """Every step draws from a stream of its own: a change in one leaves the others alone."""
    return np.random.default_rng([settings.seed, step])
