"""Steps 2 to 4 as published: pairwise coarsening, bisection, and refinement while uncoarsening."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mapper.monitoring.monitor import Monitor
from mapper.partitioning.bisection import bisect, whole
from mapper.partitioning.block_refinement import cut_weight
from mapper.partitioning.hierarchy import coarsen, uncoarsen
from mapper.resume.checkpoint import Arrays, Checkpoint
from mapper.settings import Settings
from storage.graph import Graph
from storage.scratch.scratch import Scratch


def partition_classic(
    graph: Graph,
    capacity: int,
    cores: int,
    settings: Settings,
    steps: Checkpoint,
    scratch: Scratch,
    monitor: Monitor,
) -> tuple[NDArray[np.int32], int]:
    """Return at most `cores` parts, each of total size at most `capacity`.

    Returns (part, count): part : ndarray[int32], shape (vertices,), and the number of parts. Raises
    `DoesNotFitError` if the vertices cannot be packed.
    """
    threads = settings.threads

    def partition() -> Arrays:
        with monitor.stage("coarsen"):  # step 2
            rng = np.random.default_rng([settings.seed, 2])
            levels = coarsen(graph, capacity, settings, rng, scratch, monitor)

        with monitor.stage("initial partition"):  # step 3
            rng = np.random.default_rng([settings.seed, 3])
            held = whole(levels[-1].graph, threads)
            part, parts = bisect(
                held, capacity, cores, settings.bisection_repeats, rng, threads, monitor.stop
            )
            monitor.note(f"{parts:,} parts")
            monitor.at_work["cut_weight"] = cut_weight(levels[-1].graph, part, threads)

        with monitor.stage("uncoarsen and refine"):  # step 4
            rng = np.random.default_rng([settings.seed, 4])
            part, _ = uncoarsen(
                levels, part, parts, capacity, cores, settings, rng, scratch, monitor
            )
            monitor.at_work["cut_weight"] = monitor.levels[0]["cut_weight"]
        levels_found = [list(level.values()) for level in monitor.levels]
        return {"part": part, "levels": np.array(levels_found, np.int64).ravel()}

    arrays = steps.run_once("partition", partition)
    if not monitor.levels:  # the step was done in an earlier run
        monitor.restore_levels(arrays["levels"].reshape(-1, 3).tolist())
    part: NDArray[np.int32] = arrays["part"]
    return part, int(part.max(initial=-1)) + 1
