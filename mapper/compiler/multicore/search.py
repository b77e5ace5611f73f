"""Search for the distribution of a model over the cores of a chip.

Cuts of the layers are generated, placed and simulated for a few frames. The parts of the best ones
are then placed again, by a slower preset of the mapper.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import replace
from operator import le
from typing import Any, NamedTuple, TypeVar

from chipsim.chip.model import Chip
from mapper.compiler.codegen.kernels import weight_words
from mapper.compiler.codegen.searches import CutSearches
from mapper.compiler.log import CompileLog
from mapper.compiler.multicore.areas import taken_rows
from mapper.compiler.multicore.costs import PartCosts
from mapper.compiler.multicore.cuts.period import Grouped, Line
from mapper.compiler.multicore.cuts.tries import (
    Tried,
    best_of,
    each,
    earliest,
    is_hopeless,
    tried,
)
from mapper.compiler.multicore.cuts.turns import turns
from mapper.compiler.multicore.cuts.ways import LINES, MORE_LINES, PLANS, SHORT, SearchPlan, Way
from mapper.compiler.multicore.job import CompileJob, Made, Whole, ports_of
from mapper.compiler.multicore.kept import Chosen, keep, recalled
from mapper.compiler.multicore.known_costs import KnownCosts
from mapper.compiler.multicore.line_buffers.lines import lines_of
from mapper.compiler.multicore.placement import PRESETS
from mapper.compiler.multicore.room import require_room_on_several
from mapper.compiler.multicore.simulated import Programs, Site, generated, simulated
from mapper.compiler.multicore.spread import usable_places
from mapper.compiler.program.links import Place
from mapper.compiler.stages import stage
from mapper.concurrency.processes import Calls
from mapper.errors import DoesNotFitError
from mapper.monitoring.resources import all_cores, available_bytes, peak_rss_bytes

PACKED = 0.6
"""Part of a core that weights fill if all cores take an equal excess; the rest is for packing."""
ALMOST = 1.01
"""Maximum period and latency of a placement with fewer flit-hops, as a multiple of the best one."""
LARGE = 30_000
"""Instructions of all cores above which one way to cut is tried, unless the effort is strong: each
cut takes half a minute."""
WORTH = 5.0
"""Seconds of the first way after which the others run in several processes, which need about two
to start."""


M = TypeVar("M")
Ran = list[Tried[Programs]]
"""Simulated cuts."""


class Task(NamedTuple):
    """Ways to cut that another process tries.

    costs : known costs of parts
    """

    job: CompileJob
    chip: Chip
    ports: Sequence[Place]
    costs: KnownCosts
    ways: tuple[Way, ...]
    tries: int


Placed = tuple[list[Place], str, float]
"""`places`, `bound` and `hops` of `Programs`; other processes return no objects of the graph."""


def try_ways(task: Task) -> list[list[Tried[Placed]]]:
    """Return the simulated cuts of each way of a task."""
    search = _Search(task.job, task.chip, task.ports, task.costs)
    found = [search.cuts_or_none(way, task.tries) for way in task.ways]
    task.costs.keep()
    return [
        [_with(one, (one.made.places, one.made.bound, one.made.hops)) for one in ran]
        for ran in found
    ]


def _with(one: Tried[Any], made: M) -> Tried[M]:
    return Tried(one.found, made, one.cycles, one.period, one.latency)


def spread(job: CompileJob, chip: Chip, log: CompileLog) -> Made:
    """Distribute a model over all usable cores of a chip, for the shortest period.

    Raises `DoesNotFitError` with the resource that is missing in a core, or in all cores.
    """
    places, ports = usable_places(chip), ports_of(chip)
    if job.settings.cores is not None:
        chip = _fewer(chip, places[: job.settings.cores])
        ports = [port for port in ports if port in places[: job.settings.cores]]
    # all placements use the same cut
    by_mapper = job._replace(settings=replace(job.settings, placement="mapper"))
    site = Site(chip, ports, Whole.of(job))
    found = recalled(job.kept, by_mapper, site)
    if found is None:
        search = _Search(by_mapper, chip, ports)
        found = Chosen(search.best(), len(search.ran), search.ended)
        keep(job.kept, found)
    best = found.best
    if job.settings.placement != "mapper":
        placed = best.made.job._replace(settings=job.settings)
        best = simulated(site, placed, best.found, PRESETS["fast"], best)
    best = generated(site, best)
    made = best.made.made
    assert made is not None
    log.lines += best.made.log.lines
    log.add(
        f"{len(best.found.pieces)} parts of {len(job.partition.macros)} layers on "
        f"{len(made.codes)} cores: period {best.period:,.0f} cycles per frame, latency "
        f"{best.latency:,}; best of {found.tries} simulated cuts"
    )
    if found.ended:
        log.notes.append(
            f"--time-limit ended the search over cores (simulated cuts: {found.tries}); a "
            "longer limit may give a shorter period"
        )
    if host := sum(made.stages.cycles):
        bound = ", which bounds the period" if host > max(best.cycles) else ""
        log.add(f"host: {host:,} cycles per frame between functions{bound}")
    return made


class _Search:
    """Simulated cuts of a job.

    ran : all of them; ended : whether the time limit ended the search
    costs : known costs of parts
    """

    def __init__(
        self, job: CompileJob, chip: Chip, ports: Sequence[Place], costs: KnownCosts | None = None
    ) -> None:
        self.job, self.chip, self.ports = job, chip, ports
        self.ran: Ran = []
        self.ended = False
        self._whole = Whole.of(job)
        self._site = Site(chip, ports, self._whole)
        self._costs = costs or KnownCosts(job.kept.cache)
        self._known: dict[Hashable, Tried[Programs]] = {}
        self._refusal = ""  # of the last way that did not fit

    def best(self) -> Tried[Programs]:
        """Return the best cut of all searches; raises `DoesNotFitError` if none fits."""
        found: Tried[Programs] | None = None
        for plan in PLANS[self.job.settings.effort]:
            if found is not None and self._over():
                break
            cuts = self._cut(plan)
            for some in (cuts, self._on_fewer_cores(cuts, plan.ways[0])):
                best = self._placed_again(some, plan.again) if some else None
                if best and (found is None or self._rank(best) < self._rank(found)):
                    found = best
            self._costs.keep()
        assert found is not None
        return generated(self._site, found)

    def _rank(self, one: Tried[Programs]) -> tuple[float, float]:
        if self.job.settings.objective == "latency":
            return one.latency, one.period
        return one.period, one.latency

    def _over(self) -> bool:
        """Return whether the time is up; not before a cut fits."""
        self.ended = self.ended or (bool(self._known) and self.job.clock.over())
        return self.ended

    def _cut(self, plan: SearchPlan) -> Ran:
        """Return the simulated cuts of a plan."""
        self._costs = KnownCosts(self.job.kept.cache)
        self.job = self.job._replace(searches=CutSearches(plan.breadth))
        found: Ran = []
        short: DoesNotFitError | None = None
        try:
            require_room_on_several(self.job, self.chip)
        except DoesNotFitError:
            pass
        else:
            try:
                found = self._of_whole_maps(plan)
            except DoesNotFitError as error:
                short = error
        if not found and not self.ran:
            for way in LINES:
                found += self._kept(self.cuts_or_none(way, plan.tries))
        for way in MORE_LINES:
            found = found or self.ran or self._kept(self.cuts_or_none(way, plan.tries))
        if not found:
            raise short or DoesNotFitError(f"with line buffers, {self._refusal}")
        return found

    def _of_whole_maps(self, plan: SearchPlan) -> Ran:
        """Return the simulated cuts for cores that store whole maps.

        Raises `DoesNotFitError` if none fits.
        """
        first, *others = plan.ways
        begin = time.monotonic()
        found = self._kept(self.cuts_or_none(first, plan.tries))
        thorough = self.job.settings.effort == "strong"
        large = any(one.made.instructions > LARGE for one in found)
        if (large and not thorough) or any(map(self._is_enough, found)):
            return found
        if others and time.monotonic() - begin > WORTH:
            count = min(len(others), all_cores(), max(1, available_bytes() // peak_rss_bytes()))
            found += self._at_once(others, plan.tries, count)
        else:
            for way in others:
                found += self._kept(self.cuts_or_none(way, plan.tries))
        *short, last = SHORT
        for way in short:
            found = found or self.ran or self._kept(self.cuts_or_none(way, plan.tries))
        return found or self.ran or self._kept(self._cuts(last, plan.tries))

    def _on_fewer_cores(self, cuts: Ran, way: Way) -> Ran:
        """Return cuts for half of the cores, repeatedly, while a port of the host is the bottleneck
        and the period decreases: fewer parts read fewer rows of the input twice."""
        found: Ran = []
        best = min(cuts, key=self._rank, default=None)
        while best is not None and best.made.at_port and not self._over():
            cores = (1 + max(best.found.groups)) // 2
            some = self._kept(self.cuts_or_none(way, 1, cores)) if cores > 1 else []
            found += some
            best = next((one for one in some if self._rank(one) < self._rank(best)), None)
        return found

    def _at_once(self, ways: Sequence[Way], tries: int, count: int) -> Ran:
        """Return the simulated cuts of some ways, tried in this and in other processes; they do not
        depend on the number of processes, `count`."""
        tasks = [
            Task(self.job, self.chip, self.ports, self._costs, tuple(ways[at::count]), tries)
            for at in range(1, count)
        ]
        by_way: dict[Way, Ran] = {}
        with Calls(try_ways, tasks) as calls:
            for way in ways[::count]:
                by_way[way] = self.cuts_or_none(way, tries)
            with stage("tiles and cores"):
                results = calls.results()
        for task, result in zip(tasks, results, strict=True):
            for at, way in enumerate(task.ways):
                if result is None:  # the process has failed
                    by_way[way] = self.cuts_or_none(way, tries)
                else:
                    by_way[way] = [self._of_process(way, one) for one in result[at]]
        return [one for way in ways for one in self._kept(by_way[way])]

    def _of_process(self, way: Way, one: Tried[Placed]) -> Tried[Programs]:
        made = Programs(None, CompileLog(), self._job_of(way), *one.made)
        return self._known.setdefault(self._key(way, one.found), _with(one, made))

    def _kept(self, cuts: Ran) -> Ran:
        """Return the cuts of a way up to the first one that is hopeless, and record them."""
        found: Ran = []
        for one in cuts:
            found.append(one)
            if not self._in_turns and is_hopeless(one, self.ran):
                break
        self.ran += [one for one in found if not any(one is other for other in self.ran)]
        return found

    def _placed_again(self, cuts: Ran, count: int) -> Tried[Programs]:
        """Return the best of some cuts, after the best ones are placed by a slower preset; all, if
        a port is the bottleneck, because its flits depend more on the placement than on the cut."""
        first = earliest if self.job.settings.objective == "latency" else best_of
        if count and first(cuts).made.at_port:
            count = len(cuts)
        left: Ran = list(cuts)
        found: Ran = []
        for _ in range(count):
            if not left or self._over():
                break
            one = first(left)
            left = [other for other in left if other is not one]
            preset = PRESETS[self.job.settings.effort]
            again = simulated(self._site, one.made.job, one.found, preset, one)
            found.append(again)
            left_over = self.chip.usable_count - len(self.ports)
            if again.made.at_port and max(one.found.groups) < left_over:
                # cores at the host's ports would share them with it
                found.append(
                    simulated(self._site, one.made.job, one.found, preset, one, apart=True)
                )
        found.append(first(cuts))
        best = min(found, key=self._rank)
        limits = [ALMOST * one for one in self._rank(best)]
        near = [one for one in found if all(map(le, self._rank(one), limits))]
        return min(near, key=lambda one: (one.made.hops, *self._rank(one)))

    def cuts_or_none(self, way: Way, tries: int, cores: int | None = None) -> Ran:
        """Return some cuts of a way; none if the cores have too little memory for it, or if the
        time is up."""
        if self._over():
            return []
        try:
            return self._cuts(way, tries, cores)
        except DoesNotFitError as error:  # the next way may need less
            self._refusal = str(error)
            return []

    @property
    def _in_turns(self) -> bool:
        """Whether all cores may share each layer, for a short latency; with several functions each
        core would wait for the host."""
        one = len(self.job.partition.functions) == 1
        return one and self.job.settings.objective == "latency"

    def _is_enough(self, one: Tried[Programs]) -> bool:
        """Return whether no cut has a shorter period, because the host is the bottleneck."""
        return one.made.at_host and self.job.settings.objective == "throughput"

    def _job_of(self, way: Way) -> CompileJob:
        return self.job._replace(choices=replace(self.job.choices, lag=way.lag))

    def _key(self, way: Way, found: Grouped) -> Hashable:
        """Return all input of a cut's simulation."""
        return (*way[1:], self.job.searches, *(tuple(one) for one in found))

    def _cuts(self, way: Way, tries: int, cores: int | None = None) -> Ran:
        """Return some cuts of a way, with their programs and simulated times.

        cores : maximum number of cores; None for all

        Raises `DoesNotFitError` if none fits.
        """
        job = self._job_of(way)
        excess = 1.0
        if way.spills:
            words = sum(weight_words(one, job.shape) for one in self._whole.macros)
            room = PACKED * self.chip.usable_count * job.shape.weight_words
            excess = max(1.0, words / room)
        lines = None
        if way.lines:
            usable = self.chip.usable_count
            lines = lines_of(self._whole, job.shape, usable, way.lines, way.tight)
        costs = PartCosts(
            self._whole, job.shape, job.choices, job.searches, way.streams, excess, self._costs,
            lines,
        )  # fmt: skip
        rows = taken_rows(self._whole, costs.homes, job.shape.columns)

        def run(found: Grouped) -> Tried[Programs]:
            key = self._key(way, found)
            if key not in self._known:
                self._known[key] = simulated(self._site, job, found, PRESETS["fast"], lines=lines)
            return self._known[key]

        before = list(self.ran)
        with stage("tiles and cores"):
            line = Line(costs, rows, cores or self.chip.usable_count, way)
            if self._in_turns:
                found = each(turns(line, line.cores), run, self._over)
                return found + tried(line, run, tries=tries, over=self._over)
            return tried(line, run, before, tries, self._over, self._is_enough)


def _fewer(chip: Chip, places: list[Place]) -> Chip:
    """Return a chip on which only some cores are usable."""
    kept = {y * chip.width + x for x, y in places}
    return replace(chip, unavailable=tuple(set(range(chip.cores)) - kept), host=None)
