"""Steps 6 to 8 of the pipeline: each group of neurons gets a core."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from mapper.graph.csr import Subgraph
from mapper.monitoring.callbacks import OnPlacement, ignore
from mapper.monitoring.monitor import Monitor
from mapper.placement.clock import Clock
from mapper.placement.force import refine_by_forces
from mapper.placement.placers import find_placer, place_by
from mapper.placement.portfolio import place
from mapper.placement.region import choose_region
from mapper.placement.region_bisection import place_by_bisection
from mapper.settings import PORTFOLIO, Settings


def require_placer(settings: Settings) -> None:
    """Raise an error if the placer cannot be loaded: a run uses it only after a long time."""
    if settings.reads("placer") and settings.placer != PORTFOLIO:
        find_placer(settings.placer)


def place_groups(
    groups: Subgraph,
    chip: Chip,
    settings: Settings,
    monitor: Monitor,
    time_limit: float | None = None,
    on_stage: OnPlacement = ignore,
    on_better: OnPlacement = ignore,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Run steps 6 to 8: one core for each group.

    time_limit : seconds after which the best placement so far is returned; not for classic
    on_stage : called with columns and rows after each stage that changes them
    on_better : called with columns and rows that are better than the previous ones

    Returns column and row of every group, each shape (groups,). Raises `DoesNotFitError` if there
    are more groups than usable cores.
    """
    threads, stop = settings.threads, monitor.stop
    with monitor.stage("region"):  # step 6
        usable = chip.usable.reshape(chip.height, chip.width)
        region = choose_region(usable, groups.members.size, chip.axes)
        monitor.note(f"{region.width}x{region.height} cores at column {region.x}, row {region.y}")

    if settings.method != "classic":
        with monitor.stage("placement"):  # steps 7 and 8
            rest = _random(settings, step=7), threads, settings.memory_bytes // 4
            given = (*rest, Clock(time_limit, stop), on_better)
            if settings.placer == PORTFOLIO:
                x, y = place(groups, region, settings.placement, *given)
            else:
                x, y = place_by(settings.placer, groups, region, *given)
            stop.check()
            on_stage(x, y)
            return x, y

    with monitor.stage("initial placement"):  # step 7
        rng = _random(settings, step=7)
        x, y = place_by_bisection(groups, region, settings.bisection_repeats, rng, threads, stop)
        on_better(x.copy(), y.copy())
        on_stage(x, y)

    with monitor.stage("force-directed refinement"):  # step 8
        iterations = refine_by_forces(
            groups,
            x,
            y,
            chip.axes,
            settings.force_share,
            settings.force_iterations,
            settings.memory_bytes // 4,
            clock=Clock(stop=stop),
        )
        on_better(x, y)
        monitor.note(f"{iterations} iterations")
        on_stage(x, y)
    return x, y


def _random(settings: Settings, step: int) -> np.random.Generator:
    """Return the random generator of a step: steps use independent streams."""
    return np.random.default_rng([settings.seed, step])
