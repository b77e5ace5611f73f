"""Placement for the presets `fast` and `default`: several starts, the best of them annealed.

Dense group graphs are split into outstanding connections and a background first. Starts are the
order of the groups and a breadth-first order along curves, and rotations of the eigenvectors, each
pulled together. The cheapest of them are annealed a little, the best of these for long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.partition.growing import Subgraph
from mapper.placement.annealing import Schedule, anneal
from mapper.placement.areas import Area, split_areas
from mapper.placement.curves import breadth_first, walk_best
from mapper.placement.force import hop_cost
from mapper.placement.legalise import split_cells
from mapper.placement.quadratic import pull_together
from mapper.placement.region import Region
from mapper.placement.spectral import place_by_spectrum
from mapper.placement.traffic import Traffic, sampled, split_traffic
from storage.parallel import map_ordered

Places = tuple[NDArray[np.int32], NDArray[np.int32]]

FEW = 2048  # groups below which the work of the annealing shrinks with them
LEAST = 0.05  # of the work, however few they are
STANDARD = 16384  # groups; for more the work of the annealing grows as their square root
SMALL = 1100  # groups up to which several annealings are run, from these start temperatures
HEATS = (0.4, 0.8, 0.2, 0.8)
MOST = 1000.0  # proposals per group and temperature, then
HOPELESS = 2  # times the cost of the cheapest start: not worth a try
SPECTRAL_BYTES = 40  # for each connection, at most; eigenvectors need them
SAMPLE = 1_000_000  # connections that tell which curve is the best


@dataclass(frozen=True, slots=True)
class Effort:
    """What a preset spends on a placement.

    work : of the annealing, nanoseconds of one core, for up to `STANDARD` groups
    spectra : rotations of the eigenvectors that are pulled together, in `rounds` rounds
    tried : starts that get a short annealing before one is chosen
    repeats : annealings of a small graph
    """

    work: float
    spectra: int
    rounds: int
    tried: int
    repeats: int


EFFORTS = {
    "fast": Effort(work=0.8e9, spectra=1, rounds=12, tried=2, repeats=4),
    "default": Effort(work=5.0e9, spectra=2, rounds=20, tried=3, repeats=8),
}


class _Placed(NamedTuple):
    """A placement and what it costs; columns and rows within the region."""

    cost: int
    x: NDArray[np.int32]
    y: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Job:
    """What all steps need."""

    groups: Subgraph
    traffic: Traffic
    region: Region
    spend: Effort
    rng: np.random.Generator
    threads: int
    memory: int
    hint: NDArray[np.int64]

    def placed(self, x: NDArray[np.int32], y: NDArray[np.int32]) -> _Placed:
        return _Placed(hop_cost(self.groups, x, y), x, y)


def place(
    groups: Subgraph,
    region: Region,
    effort: Literal["fast", "default"],
    rng: np.random.Generator,
    threads: int = 1,
    memory: int = 1 << 28,
    hint: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int32], bool]:
    """Give every group a core of the region.

    memory : bytes that may be used beside the groups, about
    hint : ndarray[int64], shape (groups,), rank of each group in an order in which groups that
        talk to each other are near; without it, their numbers

    Returns columns and rows on the chip, each shape (groups,), and whether it was interrupted
    (Ctrl-C keeps the best so far; before there is any placement it is raised).
    """
    traffic = split_traffic(groups)
    rank = np.arange(traffic.size) if hint is None else hint
    job = _Job(groups, traffic, region, EFFORTS[effort], rng, threads, memory, rank)
    found: list[_Placed] = []
    interrupted = False
    try:
        for stage in (_starts, _tries, _annealings, _finish):
            found.sort(key=lambda one: one.cost)
            for placed in stage(job, found.copy()):
                found.append(placed)  # noqa: PERF402 what is found before an interrupt stays
    except KeyboardInterrupt:
        if not found:
            raise
        interrupted = True
    best = min(found, key=lambda one: one.cost)
    return best.x + np.int32(region.x), best.y + np.int32(region.y), interrupted


def _starts(job: _Job, _: list[_Placed]) -> Iterator[_Placed]:
    """Placements to begin with."""
    areas = split_areas(job.traffic, job.region)

    def everywhere(place_area: Callable[[Area], list[Places]]) -> Iterator[_Placed]:
        made = [place_area(area) for area in areas]
        for k in range(max(len(places) for places in made)):
            x, y = np.empty(job.traffic.size, np.int32), np.empty(job.traffic.size, np.int32)
            for area, places in zip(areas, made, strict=True):
                x[area.members], y[area.members] = places[min(k, len(places) - 1)]
            yield job.placed(x, y)

    def along_hint(area: Area) -> list[Places]:
        sample = sampled(area.traffic, SAMPLE, job.rng)
        order = np.argsort(job.hint[area.members], kind="stable")
        return [walk_best(sample, area.cells, order, job.threads)]

    def along_distance(area: Area) -> list[Places]:
        sample = sampled(area.traffic, SAMPLE, job.rng)
        return [walk_best(sample, area.cells, breadth_first(area.traffic), job.threads)]

    def spectral(area: Area) -> list[Places]:
        if not area.connected or area.members.size < 4:
            return along_distance(area)
        splits = split_cells(area.cells)
        turned = place_by_spectrum(area.traffic, splits, job.spend.spectra, job.rng, job.threads)

        def pulled(places: Places) -> Places:
            return pull_together(area.traffic, splits, *places, job.spend.rounds)

        return list(map_ordered(pulled, turned, job.threads))

    yield from everywhere(along_hint)
    yield from everywhere(along_distance)
    if SPECTRAL_BYTES * job.traffic.ids.size <= job.memory:
        yield from everywhere(spectral)


def _tries(job: _Job, found: list[_Placed]) -> Iterator[_Placed]:
    """The cheapest starts, annealed a little."""
    work = 0.2 * _work(job) / job.spend.tried
    schedule = Schedule(work, rounds=8, start=0.1, end=0.03)
    near = [start for start in found[: job.spend.tried] if start.cost <= HOPELESS * found[0].cost]
    yield from _annealed(job, [(start, schedule) for start in near])


def _annealings(job: _Job, found: list[_Placed]) -> Iterator[_Placed]:
    """The best so far, annealed for long; of a small graph several of the best, several times."""
    repeats = job.spend.repeats if job.traffic.size <= SMALL else 1
    schedule = Schedule(0.7 * _work(job) / repeats)
    if repeats == 1:
        yield from _annealed(job, [(found[0], schedule)])
        return
    for wave in (3, 1):  # the best three in turn, then the best of all that
        ranked = sorted(found, key=lambda one: one.cost)
        for placed in _annealed(
            job,
            [
                (ranked[k % wave % len(ranked)], replace(schedule, start=heat, most=MOST))
                for k, heat in enumerate(HEATS[: repeats // 2])
            ],
        ):
            found.append(placed)
            yield placed


def _finish(job: _Job, found: list[_Placed]) -> Iterator[_Placed]:
    """If a background was split off: the best so far, improved by what all connections say."""
    if job.traffic.mass.any():
        groups = job.groups
        whole = Traffic(groups.indptr, groups.ids, groups.weights, np.zeros(job.traffic.size))
        schedule = Schedule(0.1 * _work(job), rounds=3, start=0.0)
        yield from _annealed(replace(job, traffic=whole), [(found[0], schedule)])


def _work(job: _Job) -> float:
    """Nanoseconds of annealing: by the size up to FEW groups, by its root above STANDARD."""
    few = min(1.0, max(LEAST, job.traffic.size / FEW))
    return job.spend.work * few * max(1.0, job.traffic.size / STANDARD) ** 0.5


def _annealed(job: _Job, tasks: list[tuple[_Placed, Schedule]]) -> Iterator[_Placed]:
    """Annealings side by side if the graph is small, one after the other if it is not."""
    side_by_side = job.traffic.size <= SMALL
    shape = job.region.usable.shape
    rngs = job.rng.spawn(len(tasks))

    def run(number: int) -> tuple[_Placed, bool]:
        (_, x, y), schedule = tasks[number]
        x, y = x.copy(), y.copy()
        interrupted = anneal(
            job.traffic, x, y, (shape[0], shape[1]), schedule, rngs[number],
            1 if side_by_side else job.threads, job.memory,
        )  # fmt: skip
        return job.placed(x, y), interrupted

    for placed, interrupted in map_ordered(
        run, range(len(tasks)), job.threads if side_by_side else 1
    ):
        yield placed
        if interrupted:
            raise KeyboardInterrupt
