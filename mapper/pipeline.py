"""The job, top to bottom: from a network on disk to a scored placement in nine steps.

Steps 2 to 5, and the refinement of single neurons, differ by method: `mapper.methods`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip import Chip
from chipsim.limits import violations
from chipsim.metrics import summarise
from chipsim.traffic import Traffic
from mapper.capacity import require_fit
from mapper.checkpoint import Arrays, Steps
from mapper.constraints import Constraints
from mapper.errors import DoesNotFitError
from mapper.limits.fold import fold
from mapper.limits.search import make_job
from mapper.measure import measure_network
from mapper.methods.classic import Classic
from mapper.methods.nets import Nets
from mapper.methods.run import Method, Run
from mapper.methods.streamed import Streamed
from mapper.monitor import Monitor
from mapper.partition.contraction import contract
from mapper.partition.growing import Subgraph
from mapper.placement.force import refine_by_forces
from mapper.placement.portfolio import place
from mapper.placement.region import choose_region
from mapper.placement.region_bisection import place_by_bisection
from mapper.plan import make_plan, megabytes
from mapper.settings import Settings
from mapper.team import Team
from storage.graph import Graph
from storage.network import NetworkFile
from storage.scratch import Scratch

Told = Callable[[NDArray[np.int32], NDArray[np.int32]], None]


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
    steps, threads = Steps(scratch), plan.threads
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
        folded = fold(job.demands(), job.load.limits, np.zeros(2), chip.usable_count)
        run = Run(
            network, graph, chip, constraints, job, folded, settings, plan, steps, scratch,
            monitor, team,
        )  # fmt: skip
        method = _method(run)
        part, groups = method.partition()  # steps 2 to 5

        def placed(groups: Subgraph = groups, method: Method = method) -> Arrays:
            def told(x: NDArray[np.int32], y: NDArray[np.int32]) -> None:
                method.placed(part, groups, x, y)

            x, y, interrupted = place_groups(groups, chip, settings, monitor, told=told)
            return {"x": x, "y": y, "interrupted": np.array([interrupted], np.int32)}

        before = len(monitor.stages)
        places = steps.once("place", placed)  # steps 6 to 8
        del groups
        cell = (places["y"] * chip.width + places["x"]).astype(np.int32)
        place = method.refine(run.place_items(cell, part))
        costs = method.costs
        costs.finish(place, chip.width, monitor.at_work if len(monitor.stages) > before else None)
        del method

    with monitor.stage("result"):  # step 9
        core = place[job.items.item]
        scratch.put_array("core", core)

    with monitor.stage("score"):
        monitor.expect(network.connections)
        traffic = measure_network(network, chip, core, threads, scratch.path, monitor.advance)
        costs.settle(traffic, multicast=settings.objective == "multicast")
        broken = violations(chip, traffic.usage)
        if broken:
            more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
            raise DoesNotFitError(
                f"no mapping found within all limits of chip {chip.name}: {broken[0]}{more}; "
                "lower --neurons-per-core or take a larger chip"
            )
    return Mapping(core, summarise(chip, traffic), traffic, bool(places["interrupted"][0]))


def _method(run: Run) -> Method:
    if run.settings.method == "classic":
        return Classic(run)
    if run.settings.objective == "multicast" and run.plan.nets_held:
        return Nets(run)
    return Streamed(run)


def _silent(x: NDArray[np.int32], y: NDArray[np.int32]) -> None:
    pass


def place_groups(
    groups: Subgraph,
    chip: Chip,
    settings: Settings,
    monitor: Monitor,
    time_limit: float | None = None,
    told: Told = _silent,
) -> tuple[NDArray[np.int32], NDArray[np.int32], bool]:
    """Steps 6 to 8: one core for each group.

    time_limit : seconds after which the best so far is taken; not of the classic method
    told : gets columns and rows after each stage that changes them

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
            found = place(
                groups, region, settings.placement, rng, threads, memory, time_limit=time_limit
            )
            told(found[0], found[1])
            return found

    with monitor.stage("initial placement"):  # step 7
        rng = _random(settings, step=7)
        x, y = place_by_bisection(groups, region, settings.bisection_repeats, rng, threads)
        told(x, y)

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
        told(x, y)
    return x, y, interrupted


def _random(settings: Settings, step: int) -> np.random.Generator:
    """Every step draws from a stream of its own: a change in one leaves the others alone."""
    return np.random.default_rng([settings.seed, step])
