"""Search for the distribution of a model over the cores of a chip.

Cuts of the layers are generated, placed and simulated for a few frames. The parts of the best ones
are then placed again, by a slower preset of the mapper.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from chipsim.chip.model import Chip
from chipsim.noc.mesh import Mesh
from chipsim.npu.cycles import CAUSES
from chipsim.npu.mesh.chip import MeshChip
from chipsim.npu.mesh.report import chip_report
from chipsim.npu.mesh.run import MeshTimes, run_mesh
from mapper.compiler.codegen.kernels import weight_words
from mapper.compiler.codegen.searches import CutSearches
from mapper.compiler.log import CompileLog
from mapper.compiler.multicore.costs import KnownCosts, PartCosts
from mapper.compiler.multicore.job import CompileJob, Made, Whole, ports_of
from mapper.compiler.multicore.meshed import HostSide, mesh_chip
from mapper.compiler.multicore.period import Grouped, Line, Way, taken_rows, turns
from mapper.compiler.multicore.placement import PRESETS, cores_of
from mapper.compiler.multicore.room import require_room_on_several
from mapper.compiler.multicore.spread import on_cores, usable_places
from mapper.compiler.multicore.tries import TRIES, Tried, best_of, each, earliest, tried
from mapper.compiler.multicore.vertices import vertices_of, with_own_nodes
from mapper.compiler.program.image import program_of
from mapper.compiler.program.links import Place
from mapper.compiler.settings import SearchEffort
from mapper.compiler.stages import stage
from mapper.compiler.tiling.onchip import Breadth
from mapper.errors import DoesNotFitError

WAYS = (Way(2, 0.1), Way(2, 0.2), Way(4, 0.1))
"""Ways to cut that are tried: early rows are more valuable on many cores than on few."""
MORE_WAYS = (Way(2, 0.05), Way(2, 0.4), Way(4, 0.2), Way(1, 0.1), Way(8, 0.1))
SHORT = (
    Way(2, 0.1, fills=True),
    Way(2, 0.1, streams=True),
    Way(2, 0.1, fills=True, streams=True, spills=True),
)
"""Ways to cut if memory is short; the first that fits is used. The last two are for cores that
cannot hold all weights."""
PACKED = 0.6
"""Part of a core that weights fill if all cores take an equal excess; the rest is for packing."""
FRAMES = 8
"""Simulated frames per cut."""


class SearchPlan(NamedTuple):
    """Extent of a search.

    ways : ways to cut; tries : maximum simulated cuts per way
    again : number of best cuts whose parts are placed again
    breadth : of the search for the tiles of a layer
    """

    ways: tuple[Way, ...]
    tries: int = TRIES
    again: int = 1
    breadth: Breadth = Breadth()


PLANS: dict[SearchEffort, list[SearchPlan]] = {
    "fast": [SearchPlan(WAYS[:1], 2, 0, Breadth(4, 1, 1))],
    "default": [SearchPlan(WAYS)],
    "strong": [SearchPlan(WAYS), SearchPlan(MORE_WAYS, 2 * TRIES, 3, Breadth(24, 8, 4))],
}
"""Searches by effort. A search never replaces the result of the previous one by a worse one."""


class Programs(NamedTuple):
    """Programs of a cut on some cores, the log of their generation, and their input.

    at_port : the port of a node is the bottleneck
    """

    made: Made
    log: CompileLog
    job: CompileJob
    places: list[Place]
    at_port: bool


Ran = list[Tried[Programs]]
"""Simulated cuts."""


def spread(job: CompileJob, chip: Chip, log: CompileLog) -> Made:
    """Distribute a model over all usable cores of a chip, for the shortest period.

    Raises `DoesNotFitError` with the resource that is missing in a core, or in all cores.
    """
    places, ports = usable_places(chip), ports_of(chip)
    if job.settings.cores is not None:
        chip = _fewer(chip, places[: job.settings.cores])
        ports = [port for port in ports if port in places[: job.settings.cores]]
    require_room_on_several(job, chip)
    search = _Search(job, chip, ports)
    best = search.best()
    made = best.made.made
    log.lines += best.made.log.lines
    log.add(
        f"{len(best.found.pieces)} parts of {len(job.partition.macros)} layers on "
        f"{len(made.codes)} cores: period {best.period:,.0f} cycles per frame, latency "
        f"{best.latency:,}; best of {len(search.ran)} simulated cuts"
    )
    if search.ended:
        log.notes.append(
            f"--time-limit ended the search over cores (simulated cuts: {len(search.ran)}); a "
            "longer limit may give a shorter period"
        )
    if host := sum(made.stages.cycles):
        bound = ", which bounds the period" if host > max(best.cycles) else ""
        log.add(f"host: {host:,} cycles per frame between functions{bound}")
    return made


class _Search:
    """Simulated cuts of a job.

    ran : all of them; ended : whether the time limit ended the search
    """

    def __init__(self, job: CompileJob, chip: Chip, ports: Sequence[Place]) -> None:
        self.job, self.chip, self.ports = job, chip, ports
        self.ran: Ran = []
        self.ended = False
        self._whole = Whole.of(job)
        self._costs = KnownCosts()
        self._known: dict[Hashable, Tried[Programs]] = {}

    def best(self) -> Tried[Programs]:
        """Return the best cut of all searches; raises `DoesNotFitError` if none fits."""
        found: Tried[Programs] | None = None
        for plan in PLANS[self.job.settings.effort]:
            if found is not None and self._over():
                break
            cuts = self._cut(plan)
            best = self._placed_again(cuts, plan.again)
            if found is None or self._rank(best) < self._rank(found):
                found = best
        assert found is not None
        return found

    def _rank(self, one: Tried[Programs]) -> tuple[float, float]:
        if self.job.settings.objective == "latency":
            return one.latency, one.period
        return one.period, one.latency

    def _over(self) -> bool:
        """Return whether the time is up; not before a cut fits."""
        self.ended = self.ended or (bool(self.ran) and self.job.clock.over())
        return self.ended

    def _cut(self, plan: SearchPlan) -> Ran:
        """Return the simulated cuts of a plan."""
        found: Ran = []
        self._costs = KnownCosts()
        self.job = self.job._replace(searches=CutSearches(plan.breadth))
        for way in plan.ways:
            if not self._over():
                with suppress(DoesNotFitError):  # the next way may need less
                    found += self._cuts(way, plan.tries)
        for number, way in enumerate(SHORT):
            try:
                found = found or self.ran or self._cuts(way, plan.tries)
            except DoesNotFitError:
                if number == len(SHORT) - 1:
                    raise
        return found

    def _placed_again(self, cuts: Ran, count: int) -> Tried[Programs]:
        """Return the best of some cuts, after the best ones are placed by a slower preset."""
        first = earliest if self.job.settings.objective == "latency" else best_of
        left: Ran = list(cuts)
        found: Ran = []
        for _ in range(count if self.job.settings.placement == "mapper" else 0):
            if not left or self._over():
                break
            one = first(left)
            left = [other for other in left if other is not one]
            preset = PRESETS[self.job.settings.effort]
            again = self._simulated(one.made.job, one.found, preset, one)
            found.append(again)
            left_over = self.chip.usable_count - len(self.ports)
            if again.made.at_port and max(one.found.groups) < left_over:
                # cores at the host's ports would share them with it
                found.append(self._simulated(one.made.job, one.found, preset, one, apart=True))
        found.append(first(cuts))
        return min(found, key=self._rank)

    def _cuts(self, way: Way, tries: int) -> Ran:
        """Return some cuts of a way, with their programs and simulated times."""
        job = self.job._replace(choices=replace(self.job.choices, lag=way.lag))
        excess = 1.0
        if way.spills:
            words = sum(weight_words(one, job.shape) for one in self._whole.macros)
            room = PACKED * self.chip.usable_count * job.shape.weight_words
            excess = max(1.0, words / room)
        costs = PartCosts(
            self._whole, job.shape, job.choices, job.searches, way.streams, excess, self._costs
        )
        rows = taken_rows(self._whole, costs.homes, job.shape.columns)

        def run(found: Grouped) -> Tried[Programs]:
            key = (*way[1:], job.searches, *(tuple(one) for one in found))
            if key not in self._known:
                self._known[key] = self._simulated(job, found, PRESETS["fast"])
                self.ran.append(self._known[key])
            return self._known[key]

        before = list(self.ran)
        with stage("tiles and cores"):
            line = Line(costs, rows, self.chip.usable_count, way)
            # in turns each core would compute parts of all functions, and wait for the host
            if job.settings.objective == "latency" and len(job.partition.functions) == 1:
                found = each(turns(line, line.cores), run, self._over)
                return found + tried(line, run, tries=tries, over=self._over)
            return tried(line, run, before, tries, self._over)

    def _simulated(
        self, job: CompileJob, found: Grouped, preset: str, same: Tried[Programs] | None = None,
        apart: bool = False,
    ) -> Tried[Programs]:  # fmt: skip
        """Place a cut, generate its programs, and run some frames.

        preset, apart : of the placement; same : result of the cut with another placement
        """
        chip, ports, shape, log = self.chip, self.ports, job.shape, CompileLog()
        vertices = vertices_of(self._whole, *found, shape)
        vertices = with_own_nodes(vertices) if apart else vertices
        cores = cores_of(vertices, chip, ports, job.settings.placement, preset)
        at = [(int(core) % chip.width, int(core) // chip.width) for core in cores]
        if same is not None and at == same.made.places:
            return same
        made = on_cores(job, list(zip(found.pieces, at, strict=True)), ports, log)
        with stage("cycles"):
            chip_run = _run(made, chip, job)
            ran = chip_report(*chip_run)
        groups = dict(zip(at, found.groups, strict=True))
        cycles = [0.0] * len(groups)
        for core, work in chip_run[1].cores.items():
            late = work.waits[:, CAUSES.index("router")].max() / FRAMES
            cycles[groups[core]] = ran.cores[core].cycles + float(late)
        assert ran.mean is not None
        programs = Programs(made, log, job, at, ran.bound.where.startswith("port"))
        return Tried(found, programs, cycles, ran.mean, ran.latency)


def _run(made: Made, chip: Chip, job: CompileJob) -> tuple[MeshChip, MeshTimes]:
    """Simulate a few frames on the chip."""
    programs = {code.place: program_of(code.image(), f"core {code.place}") for code in made.codes}
    feeds = {code.place: code.links for code in made.codes}
    mesh, host = Mesh(chip.width, chip.height), HostSide(made.ports, job.link, made.stages)
    meshed = mesh_chip(job.shape, mesh, programs, feeds, host)
    return meshed, run_mesh(meshed, FRAMES)


def _fewer(chip: Chip, places: list[Place]) -> Chip:
    """Return a chip on which only some cores are usable."""
    kept = {y * chip.width + x for x, y in places}
    return replace(chip, unavailable=tuple(set(range(chip.cores)) - kept), host=None)
