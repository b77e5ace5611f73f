"""A model over the cores of a chip: pieces of layers, placed, and a program for each core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chipsim.chip.model import Chip
from chipsim.npu.arrivals import HostLink
from mapper.compiler.codegen.code import CoreCode, Lying
from mapper.compiler.codegen.links import Place
from mapper.compiler.cores.costs import Costs
from mapper.compiler.cores.job import Job, Made
from mapper.compiler.cores.period import Grouped, Line, taken_rows
from mapper.compiler.cores.placement import cores_of
from mapper.compiler.cores.plan import ChipPlan, Part, Piece, Whole, plan_cores
from mapper.compiler.cores.ports import ports_of
from mapper.compiler.cores.programs import ChipPrograms, chip_programs
from mapper.compiler.cores.vertices import vertices_of
from mapper.compiler.stages import stage
from mapper.errors import DoesNotFitError

TRIES, REFUSED = 5, 3
"""Cuts that are tried, and of them so many that memories or streams of cores do not hold."""
LONGER = 1.1  # periods, behind a cut that does not fit


def refusal(job: Job) -> str:
    """Why a model runs on one core alone; nothing if several can share it."""
    if not job.shape.map_vectors:
        return f"the maps of {job.shape.name} are in external memory"
    if len(job.partition.functions) > 1:
        return f"the host works between its {len(job.partition.functions)} functions"
    if job.settings.padding == "stored":
        return "--padding stored is made for one"
    return ""


def spread(job: Job, chip: Chip, log: list[str]) -> Made:
    """A model over all cores of a chip that may be used, for the shortest period.

    Raises `DoesNotFitError` that names what no core, or no number of them, holds.
    """
    places = usable_places(chip)
    ports = ports_of(chip)
    if job.settings.cores is not None:
        chip = _fewer(chip, places[: job.settings.cores])
        places = places[: job.settings.cores]
        ports = [port for port in ports if port in places]
    macros, shape = job.partition.macros, job.shape
    function = job.partition.functions[0]
    whole = Whole(macros, job.places, function.inputs, function.results)
    with stage("tiles and cores"):
        costs = Costs(whole, shape, job.choices)
        rows = taken_rows(whole, costs.homes, shape.columns)
        found = _cut(job, Line(costs, rows, len(places)), places, ports, log)
        vertices = vertices_of(whole, *found, shape)
        cores = cores_of(vertices, chip, ports, job.settings.placement)
    placed = [
        (piece, (int(at) % chip.width, int(at) // chip.width))
        for piece, at in zip(found.pieces, cores, strict=True)
    ]
    return on_cores(job, placed, ports, log)


def _cut(job: Job, line: Line, places: list[Place], ports: list[Place], log: list[str]) -> Grouped:
    """The parts with which the core that works longest has the fewest cycles, of some tries.

    What parts really take is known when their programs are made: what they send depends on how
    other layers are cut. Where they lie makes no difference to that.
    """
    best: tuple[int, Grouped] | None = None
    least, refused = 0.0, 0
    for _ in range(TRIES):
        period, found = line.shortest(least)
        trial = [
            (piece, places[group]) for piece, group in zip(found.pieces, found.groups, strict=True)
        ]
        try:
            made = on_cores(job, trial, ports, [])
        except DoesNotFitError:
            refused += 1
            if refused > REFUSED:
                raise
            least = LONGER * period
            continue
        cycles = {code.place: code.timeline.cycles for code in made.codes}
        worst = max(cycles.values())
        if best is None or worst < best[0]:
            best = worst, found
        line.learn(found, [cycles[places[group]] for group in range(max(found.groups) + 1)])
    if best is None:
        raise DoesNotFitError("no cut of the layers was tried that fits the cores")
    worst, found = best
    log.append(
        f"{len(found.pieces)} parts of {len(job.partition.macros)} layers on "
        f"{max(found.groups) + 1} cores, {worst:,} cycles on the core that works longest"
    )
    return found


def _fewer(chip: Chip, places: list[Place]) -> Chip:
    """A chip of which only some cores may be used."""
    kept = {y * chip.width + x for x, y in places}
    return replace(chip, unavailable=tuple(set(range(chip.cores)) - kept), host=None)


def on_cores(
    job: Job, placed: list[tuple[Piece, Place]], ports: Sequence[Place], log: list[str]
) -> Made:
    """Programs of pieces that have their cores. ports : the nodes of the host's ports

    Raises `DoesNotFitError` that names core, memory and layer.
    """
    function = job.partition.functions[0]
    whole = Whole(job.partition.macros, job.places, function.inputs, function.results)
    with stage("feature memory"):
        plan = plan_cores(whole, placed, job.shape, ports)
    with stage("instructions"):
        programs = chip_programs(plan, job.shape, job.choices, job.settings.weights, log)
    with stage("cycles"):
        codes = _codes(plan, programs, job.link)
    return Made(codes, [_lying(one) for one in plan.results], programs.host_words, ports)


def _codes(plan: ChipPlan, programs: ChipPrograms, link: HostLink) -> list[CoreCode]:
    return [
        CoreCode.of(
            place, ([piece.macro for piece in one.plan.pieces], one.plan.macros),
            ([_lying(part) for part in one.plan.parts], one.plan.used),
            one.static_words, one.made, (one.program, [(0, len(one.program))]),
            plan.cores[place].links, link,
        )
        for place, one in programs.cores.items()
    ]  # fmt: skip


def _lying(part: Part) -> Lying:
    one = part.one
    return Lying(one.whole, part.region, one.held.rows, one.held.channels)


def usable_places(chip: Chip) -> list[Place]:
    """The cores of a chip that may be used: those with a port of the host, then row by row."""
    cores = dict.fromkeys([*chip.host_ports, *np.flatnonzero(chip.usable).tolist()])
    return [(core % chip.width, core // chip.width) for core in cores]
