"""Registry of placers: single methods that the setting `placer` selects instead of the portfolio.

Other packages add theirs as entry points `mapper.placers`; the object is a `Placer`.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from mapper.errors import UsageError
from mapper.graph.csr import Subgraph
from mapper.monitoring.callbacks import OnPlacement, ignore
from mapper.placement.clock import ENDLESS, Clock, TimeUpError
from mapper.placement.curves import CurvePlacer
from mapper.placement.legalise import Places
from mapper.placement.multilevel import MultilevelPlacer
from mapper.placement.placer import Placed, Placer, Problem
from mapper.placement.region import Region
from mapper.placement.spectral import RotationSearch, SpectralPlacer
from mapper.placement.terminal_bisection import BisectionPlacer
from storage.plugins import PLACERS as ADDED
from storage.plugins import Plugin, PluginError, blaming, find_plugin, known_names

PLACERS: dict[str, Placer] = {
    "curves": CurvePlacer(by_distance=True),
    "spectral": SpectralPlacer(RotationSearch(0, 2, 10)),
    "multilevel": MultilevelPlacer(RotationSearch(0, 4, 20)),
    "bisection": BisectionPlacer(),
}
"""Built-in placers by name."""


def find_placer(name: str) -> tuple[Placer, str]:
    """Return a placer, and the package that adds it, "" for a built-in one.

    Raises `UsageError` if there is none, `PluginError` if the package is broken.
    """
    if name in PLACERS:
        return PLACERS[name], ""
    plugin = find_plugin(ADDED, name)
    if plugin is None:
        raise UsageError(f"placer is {name!r}; give portfolio, {known_names(ADDED, PLACERS)}")
    return added_placer(plugin), plugin.package


def added_placer(plugin: Plugin) -> Placer:
    """Return the placer of an entry point; raise `PluginError` if it is not one."""
    return plugin.load(Placer)  # type: ignore[type-abstract]  # an instance


def place_by(
    name: str,
    groups: Subgraph,
    region: Region,
    rng: np.random.Generator,
    threads: int = 1,
    memory: int = 1 << 28,
    clock: Clock = ENDLESS,
    on_better: OnPlacement = ignore,
) -> Places:
    """Place every group on a core of the region with a single placer, see `find_placer`.

    Arguments and result are as for `portfolio.place`. The result is the placement with the fewest
    hops that the placer yields, or one along a curve if it yields none in time.
    """
    placer, package = find_placer(name)
    problem = Problem(groups, region, threads, memory, clock)
    start = next(CurvePlacer(by_distance=False).place(problem, None, rng))
    best: Placed | None = None

    def on_chip(placed: Placed) -> Places:
        return placed.x + np.int32(region.x), placed.y + np.int32(region.y)

    on_better(*on_chip(start))
    clock.begin(name)
    with suppress(TimeUpError), blaming(package, f"placer {name}"):
        for placed in placer.place(problem, start, rng):
            found = _checked(problem, placed, f"placer {name} of the package {package}")
            if best is None or found.cost < best.cost:
                best = found
                on_better(*on_chip(best))
            if clock.over():
                break
    return on_chip(start if best is None else best)


def _checked(problem: Problem, placed: Placed, who: str) -> Placed:
    """Return a copy of a placement with its cost; raise `PluginError` if it is not valid."""
    fault = fault_of_placement(problem, placed)
    if fault:
        raise PluginError(f"{who} {fault}; report it to its authors")
    return problem.placed(placed.x.astype(np.int32), placed.y.astype(np.int32))


def fault_of_placement(problem: Problem, placed: Placed) -> str:
    """Return why a placement is invalid; "" if each group has a separate usable core."""
    region = problem.region
    for axis, end in ((placed.x, region.width), (placed.y, region.height)):
        if not isinstance(axis, np.ndarray) or not np.issubdtype(axis.dtype, np.integer):
            return "yields places that are not arrays of integers"
        if axis.shape != (problem.size,):
            return f"yields {axis.size:,} places for {problem.size:,} groups"
        if axis.size and (axis.min() < 0 or axis.max() >= end):
            return "places groups outside of the region"
    core = placed.y.astype(np.int64) * region.width + placed.x
    if not region.usable.reshape(-1)[core].all():
        return "places groups on unusable cores"
    if np.unique(core).size != core.size:
        return "places two groups on one core"
    return ""
