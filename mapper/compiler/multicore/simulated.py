"""Cuts on the simulated chip: their programs, and the times of a few frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from chipsim.chip.model import Chip
from chipsim.noc.mesh import Mesh
from chipsim.npu.cycles import CAUSES
from chipsim.npu.mesh.chip import MeshChip
from chipsim.npu.mesh.report import chip_report
from chipsim.npu.mesh.run import MeshTimes, run_mesh
from mapper.compiler.codegen.program import Tiling
from mapper.compiler.log import CompileLog
from mapper.compiler.multicore.cuts.period import Grouped
from mapper.compiler.multicore.cuts.tries import Tried
from mapper.compiler.multicore.job import CompileJob, Made, Whole
from mapper.compiler.multicore.line_buffers.lines import Lines
from mapper.compiler.multicore.meshed import HostSide, mesh_chip
from mapper.compiler.multicore.placement import cores_of
from mapper.compiler.multicore.spread import on_cores
from mapper.compiler.multicore.vertices import vertices_of, with_own_nodes
from mapper.compiler.program.image import program_of
from mapper.compiler.program.links import Place
from mapper.compiler.stages import stage

FRAMES = 8
"""Simulated frames per cut."""


class Site(NamedTuple):
    """A chip, the nodes of its host ports, and the model that its cores share."""

    chip: Chip
    ports: Sequence[Place]
    whole: Whole


class Programs(NamedTuple):
    """Programs of a cut on some cores, the log of their generation, and their input.

    made : None if another process generated them
    bound : the bottleneck
    hops : flit-hops per frame
    lines : line buffers, if the cores keep some columns of each map
    tilings : results of the search for the tiles of the cores, by group
    """

    made: Made | None
    log: CompileLog
    job: CompileJob
    places: list[Place]
    bound: str
    hops: float
    lines: Lines | None = None
    tilings: Mapping[int, Tiling] = MappingProxyType({})

    @property
    def at_port(self) -> bool:
        """Whether the port of a node is the bottleneck."""
        return self.bound.startswith("port")

    @property
    def at_host(self) -> bool:
        """Whether the host is the bottleneck."""
        return self.bound == "host"

    @property
    def instructions(self) -> int:
        """Instructions of all cores; 0 if another process generated them."""
        return sum(len(code.program) for code in self.made.codes) if self.made else 0


def simulated(
    site: Site, job: CompileJob, found: Grouped, preset: str, same: Tried[Programs] | None = None,
    apart: bool = False, lines: Lines | None = None,
) -> Tried[Programs]:  # fmt: skip
    """Place a cut, generate its programs, and run some frames.

    preset, apart : of the placement; same : result of the cut with another placement
    lines : line buffers; ignored if `same` is given, which has the same ones
    Raises `DoesNotFitError` if a part does not fit in its core.
    """
    chip, ports, whole = site
    vertices = vertices_of(whole, *found, job.shape)
    vertices = with_own_nodes(vertices) if apart else vertices
    cores = cores_of(vertices, chip, ports, job.settings.placement, preset)
    at = [(int(core) % chip.width, int(core) // chip.width) for core in cores]
    if same is not None and at == same.made.places:
        return same
    before = Programs(None, CompileLog(), job, at, "", 0, lines) if same is None else same.made
    programs = _generated(site, found, before._replace(job=job, places=at))
    made = programs.made
    assert made is not None
    with stage("cycles"):
        chip_run = _run(made, chip, job)
        ran = chip_report(*chip_run)
    groups = dict(zip(at, found.groups, strict=True))
    cycles = [0.0] * len(groups)
    for core, work in chip_run[1].cores.items():
        late = work.waits[:, CAUSES.index("router")].max() / FRAMES
        cycles[groups[core]] = ran.cores[core].cycles + float(late)
    assert ran.mean is not None
    programs = programs._replace(bound=ran.bound.where, hops=float(ran.links.sum()))
    return Tried(found, programs, cycles, ran.mean, ran.latency)


def generated(site: Site, one: Tried[Programs]) -> Tried[Programs]:
    """Return a cut with its programs; generate them if another process, or an earlier one, has
    simulated it."""
    if one.made.made is not None:
        return one
    return one._replace(made=_generated(site, one.found, one.made))


def _generated(site: Site, found: Grouped, programs: Programs) -> Programs:
    """Generate the programs of a cut for its places; the tiles are searched unless they are known.

    Raises `DoesNotFitError` if a part does not fit in its core.
    """
    _, log, job, at, *_, lines, known = programs
    groups = dict(zip(at, found.groups, strict=True))
    tilings = {place: known[group] for place, group in groups.items() if group in known}
    log = log if known else CompileLog()
    made = on_cores(
        job, list(zip(found.pieces, at, strict=True)), site.ports,
        CompileLog() if known else log, lines, tilings,
    )  # fmt: skip
    known = {groups[code.place]: code.tiling for code in made.codes if code.tiling is not None}
    return programs._replace(made=made, log=log, tilings=known)


def _run(made: Made, chip: Chip, job: CompileJob) -> tuple[MeshChip, MeshTimes]:
    """Simulate a few frames on the chip."""
    programs = {code.place: program_of(code.image(), f"core {code.place}") for code in made.codes}
    feeds = {code.place: code.links for code in made.codes}
    mesh, host = Mesh(chip.width, chip.height), HostSide(made.ports, job.link, made.stages)
    meshed = mesh_chip(job.shape, mesh, programs, feeds, host)
    return meshed, run_mesh(meshed, FRAMES)
