"""Placement for the presets `fast`, `default` and `strong`: several starts, the best annealed.

Dense group graphs are first split into outstanding connections and a background. Starts are the
order of the groups and a breadth-first order along curves; then, if whole classes of groups have
the same neighbours, the annealed classes; otherwise rotations of the eigenvectors, each refined by
quadratic placement, of the groups or, if there are many, of merged ones; and for `strong`, with few
groups, recursive bisection. The cheapest are annealed briefly, the best of these longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from mapper.graph.csr import Subgraph
from mapper.monitoring.callbacks import OnPlacement, ignore
from mapper.placement.annealing.classes import ClassPlacer
from mapper.placement.annealing.dense import AnnealingPlacer
from mapper.placement.annealing.schedule import Schedule
from mapper.placement.clock import ENDLESS, Clock, TimeUpError
from mapper.placement.curves import CurvePlacer
from mapper.placement.legalise import Places
from mapper.placement.multilevel import MultilevelPlacer
from mapper.placement.placer import Placed, Placer, Problem
from mapper.placement.region import Region
from mapper.placement.spectral import RotationSearch, SpectralPlacer
from mapper.placement.terminal_bisection import BisectionPlacer
from mapper.planning.processor_time import GROWTH, STANDARD
from storage.parallel import map_ordered

FEW_GROUPS = 2048  # groups below which the work of annealing is proportional to their number
LONG = 20e6  # nanoseconds of an annealing run from which several run in parallel
SMALL = 1100  # groups up to which several annealing runs are made
MOST_PROPOSALS = 1000.0  # proposals per group and temperature in these runs
MANY = 16384  # groups above which coarse groups are placed first
HOPELESS = 2  # starts above this ratio to the cheapest start are not tried


@dataclass(frozen=True, slots=True)
class PlacementEffort:
    """The work that a preset spends on a placement.

    work : annealing, nanoseconds of one core, for `FEW_GROUPS` to `STANDARD` groups
    least : the same for the smallest graphs
    search : of rotations of the eigenvectors
    tried : starts that are annealed briefly before one is chosen
    repeats : annealing runs of a small graph, in waves with these start temperatures
    rounds : temperatures of each run
    start : first temperature of the long annealing, in strengths
    sweeps : exact assignments within classes
    cut : groups up to which bisection with terminal propagation is another start
    """

    work: float
    least: float
    search: RotationSearch
    tried: int
    repeats: int
    start: float
    sweeps: int
    temperatures: tuple[float, ...] = (0.4, 0.8, 0.2, 0.8)
    rounds: int = 40
    cut: int = 0


EFFORTS = {
    # On 64 and 256 groups, eight annealing runs of 40 rounds take three times as long, mostly in
    # Python code between them, and do not end lower.
    "fast": PlacementEffort(
        0.4e9,
        0.02e9,
        RotationSearch(0, 1, 6, plane=4),
        tried=1,
        repeats=2,
        start=0.2,
        sweeps=1,
        temperatures=(0.2,),
        rounds=16,
    ),
    "default": PlacementEffort(
        0.8e9, 0.12e9, RotationSearch(0, 2, 10), tried=2, repeats=8, start=0.3, sweeps=1
    ),
    "strong": PlacementEffort(
        12e9, 4e9, RotationSearch(16, 4, 20), tried=4, repeats=32, start=0.5, sweeps=3, cut=STANDARD
    ),
}


def place(
    groups: Subgraph,
    region: Region,
    effort: Literal["fast", "default", "strong"],
    rng: np.random.Generator,
    threads: int = 1,
    memory: int = 1 << 28,
    clock: Clock = ENDLESS,
    on_better: OnPlacement = ignore,
) -> Places:
    """Place every group on a core of the region.

    memory : bytes that may be used in addition to the groups, approximately
    clock : time limit after which the best placement so far is returned; the result then depends
        on the machine. A first placement along a curve is always made.
    on_better : called with columns and rows of the first placement, and of each new best one

    Returns columns and rows on the chip, each shape (groups,).
    """
    problem = Problem(groups, region, threads, memory, clock)
    found: list[Placed] = []

    def on_chip(placed: Placed) -> Places:
        return placed.x + np.int32(region.x), placed.y + np.int32(region.y)

    with suppress(TimeUpError):
        for phase, stage in (
            ("first placements", _starts),
            ("short annealing", _tries),
            ("long annealing", _annealings),
            ("annealing of all traffic", _finish),
        ):
            clock.begin(phase)
            if found:
                clock.check()
            found.sort(key=lambda one: one.cost)
            for placed in stage(problem, EFFORTS[effort], found.copy(), rng):
                if all(placed.cost < one.cost for one in found):
                    on_better(*on_chip(placed))
                found.append(placed)
    return on_chip(min(found, key=lambda one: one.cost))


def _starts(
    problem: Problem, spend: PlacementEffort, _: list[Placed], rng: np.random.Generator
) -> Iterator[Placed]:
    """Yield start placements."""
    found = []
    for by_distance in (False, True):
        for placed in CurvePlacer(by_distance).place(problem, None, rng):
            found.append(placed)
            yield placed
        problem.clock.check()
    if problem.classes is None:
        searches = [spend.search]
        if problem.clock.limited and spend.search != EFFORTS["fast"].search:
            searches.insert(0, EFFORTS["fast"].search)  # a first result early
        for search in searches:
            yield from _spectral(problem, search).place(problem, None, rng)
        if problem.size <= spend.cut:
            yield from BisectionPlacer().place(problem, None, rng)
    else:
        start = min(found, key=lambda one: one.cost)
        yield from ClassPlacer(0.5 * _work(problem, spend), spend.sweeps).place(problem, start, rng)


def _spectral(problem: Problem, search: RotationSearch) -> Placer:
    if problem.size <= MANY:
        return SpectralPlacer(search)
    # the few coarse groups allow twice the effort
    return MultilevelPlacer(RotationSearch(search.searched, 2 * search.kept, 2 * search.rounds))


def _tries(
    problem: Problem, spend: PlacementEffort, found: list[Placed], rng: np.random.Generator
) -> Iterator[Placed]:
    """Yield the cheapest starts, annealed briefly."""
    if problem.classes is not None:
        return  # the annealed classes are far better than other starts
    work = 0.2 * _work(problem, spend) / spend.tried
    placer = AnnealingPlacer(Schedule(work, rounds=8, start=0.1, end=0.03))
    near = [start for start in found[: spend.tried] if start.cost <= HOPELESS * found[0].cost]
    yield from _annealed(problem, [(start, placer) for start in near], rng)


def _annealings(
    problem: Problem, spend: PlacementEffort, found: list[Placed], rng: np.random.Generator
) -> Iterator[Placed]:
    """Yield the best placement after long annealing; for small graphs, several runs of several."""
    repeats = spend.repeats if problem.size <= SMALL else 1
    schedule = Schedule(0.7 * _work(problem, spend) / repeats, start=spend.start)
    if repeats == 1:
        if problem.classes is not None:
            schedule = replace(schedule, rounds=10, start=0.05, near=0.1)
        yield from _annealed(problem, [(found[0], AnnealingPlacer(schedule))], rng)
        return
    # threads of shorter runs wait for the interpreter lock longer than they save
    threads = problem.threads if schedule.work > LONG else 1
    waves = max(2, repeats // len(spend.temperatures))
    schedule = replace(schedule, rounds=spend.rounds, most=MOST_PROPOSALS)
    for wave in range(waves):  # start from the best three, then from the best
        ranked = sorted(found, key=lambda one: one.cost)[: 3 if wave < waves - 1 else 1]
        tasks: list[tuple[Placed, Placer]] = [
            (
                ranked[k % len(ranked)],
                AnnealingPlacer(replace(schedule, start=temperature), threads=1),
            )
            for k, temperature in enumerate(spend.temperatures)
        ]
        for placed in _annealed(problem, tasks, rng, threads):
            found.append(placed)
            yield placed


def _finish(
    problem: Problem, spend: PlacementEffort, found: list[Placed], rng: np.random.Generator
) -> Iterator[Placed]:
    """If a background was split off, refine the best placement with all connections."""
    if problem.traffic.mass.any():
        schedule = Schedule(0.1 * _work(problem, spend), rounds=3, start=0.0)
        yield from _annealed(problem, [(found[0], AnnealingPlacer(schedule, whole=True))], rng)


def _work(problem: Problem, spend: PlacementEffort) -> float:
    """Return nanoseconds of annealing: linear in size up to FEW groups, a power above STANDARD."""
    work = max(spend.least, spend.work * min(1.0, problem.size / FEW_GROUPS))
    return work * max(1.0, problem.size / STANDARD) ** GROWTH


def _annealed(
    problem: Problem,
    tasks: list[tuple[Placed, Placer]],
    rng: np.random.Generator,
    threads: int = 1,
) -> Iterator[Placed]:
    """Run placers, `threads` at a time."""
    rngs = rng.spawn(len(tasks))

    def run(number: int) -> list[Placed]:
        start, placer = tasks[number]
        return list(placer.place(problem, start, rngs[number]))

    for made in map_ordered(run, range(len(tasks)), threads):
        yield from made
