"""The job, top to bottom: from a network on disk to a scored placement in nine steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip import Chip
from chipsim.limits import violations
from chipsim.metrics import summarise
from chipsim.traffic import Traffic, measure
from mapper.capacity import require_fit, with_one_capacity
from mapper.errors import DoesNotFitError
from mapper.monitor import Monitor
from mapper.partition.bisection import bisect, whole
from mapper.partition.contraction import contract
from mapper.partition.growing import Subgraph
from mapper.partition.hierarchy import coarsen, uncoarsen
from mapper.placement.force import refine_by_forces
from mapper.placement.region import choose_region
from mapper.placement.region_bisection import place_by_bisection
from mapper.settings import Settings
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
    network: NetworkFile, chip: Chip, settings: Settings, scratch: Scratch, monitor: Monitor
) -> Mapping:
    """Map a stored network (step 1) onto a chip.

    Raises `DoesNotFitError` if a limit of the chip cannot be kept.
    """
    threads = settings.threads
    with monitor.stage("check"):
        require_fit(network, chip, threads)
        graph, capacity = with_one_capacity(network, chip, threads)

    with monitor.stage("coarsen"):  # step 2
        rng = _random(settings, step=2)
        levels = coarsen(graph, capacity, settings, rng, scratch, monitor)

    with monitor.stage("initial partition"):  # step 3
        part, parts = bisect(
            whole(levels[-1].graph, threads),
            capacity,
            chip.usable_count,
            settings.bisection_repeats,
            _random(settings, step=3),
            threads,
        )
        monitor.note(f"{parts:,} parts")

    with monitor.stage("uncoarsen and refine"):  # step 4
        part, parts = uncoarsen(
            levels,
            part,
            parts,
            capacity,
            chip.usable_count,
            settings,
            _random(settings, step=4),
            scratch,
            monitor,
        )
        scratch.put_array("part", part)

    with monitor.stage("groups"):  # step 5
        memory = settings.memory_bytes // 4
        groups = whole(contract(graph, part, parts, scratch, "groups", memory, threads), threads)

    x, y, interrupted = place_groups(groups, chip, settings, monitor)

    with monitor.stage("result"):  # step 9
        core = (y * chip.width + x).astype(np.int32)[part]
        scratch.put_array("core", core)

    with monitor.stage("score"):
        traffic = measure_network(network, chip, core, threads)
        broken = violations(chip, traffic.usage)
        if broken:
            more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
            raise DoesNotFitError(
                f"no mapping found within all limits of chip {chip.name}: {broken[0]}{more}; "
                "lower --neurons-per-core or take a larger chip"
            )
    return Mapping(core, summarise(chip, traffic), traffic, interrupted)


def place_groups(
    groups: Subgraph, chip: Chip, settings: Settings, monitor: Monitor
) -> tuple[NDArray[np.int32], NDArray[np.int32], bool]:
    """Steps 6 to 8: one core for each group.

    Returns column and row of every group, each shape (groups,), and whether it was interrupted.
    Raises `DoesNotFitError` if there are more groups than usable cores.
    """
    threads = settings.threads
    with monitor.stage("region"):  # step 6
        region = choose_region(chip.usable.reshape(chip.height, chip.width), groups.members.size)
        monitor.note(f"{region.width}x{region.height} cores at column {region.x}, row {region.y}")

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
    network: NetworkFile, chip: Chip, core: NDArray[np.int32], threads: int = 1
) -> Traffic:
    """Traffic of a stored network under a mapping, in one pass."""
    rate = network.attribute(RATE) if RATE in network.meta.attributes else None
    return measure(
        chip,
        core,
        network.blocks(threads=threads),
        sizes=network.vertex_sizes(),
        rates=rate.stored if rate else None,
        undirected=network.undirected,
        weight_unit=network.meta.weight_unit,
        rate_unit=rate.unit if rate else network.meta.weight_unit,
    )


def _random(settings: Settings, step: int) -> np.random.Generator:
    """Every step draws from a stream of its own: a change in one leaves the others alone."""
    return np.random.default_rng([settings.seed, step])
