"""Cycle-accurate simulation of a model: time per frame and stalls of each unit.

On one core the data is checked against the functional simulator. On several cores, cores, mesh and
host run many frames; data comes from the functional simulator, frame by frame, and is checked for
the first few frames.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.noc.mesh import Mesh
from chipsim.npu.core_run import CoreTimes, run_core
from chipsim.npu.cycles import CAUSES, DONE, FETCH, TOKEN, UNITS, WEIGHTS
from chipsim.npu.execute import NpuChip
from chipsim.npu.followed import units_of
from chipsim.npu.mesh.chip import HostStages, MeshChip, Place
from chipsim.npu.mesh.report import SIDES, ChipReport, chip_report
from chipsim.npu.mesh.run import Advance, CoreWork, MeshTimes, run_mesh
from chipsim.npu.records import Op
from chipsim.npu.replay import Bytes, in_turn, overlapped
from mapper.compiler.artifacts.layers import bars_of
from mapper.compiler.artifacts.manifest import CompiledFolder
from mapper.compiler.artifacts.simulate import FrameCores, Machine, programs_of
from mapper.compiler.multicore.meshed import HostSide, mesh_chip
from mapper.compiler.partition.hostrun import Data
from mapper.compiler.program.links import Brought, CoreLinks
from mapper.compiler.program.presets import Preloaded
from mapper.compiler.program.steps import unit_of
from mapper.compiler.tiling.units import timeline_of_functions, waits_of
from mapper.errors import CheckFailedError

SHOWN = [*range(TOKEN, TOKEN + len(UNITS)), WEIGHTS, FETCH]
"""Stall causes of `waits_of`, in its order."""


class CycleRun(NamedTuple):
    """Result for a frame of a compiled model.

    core : its place; times : times of each function, from its first instruction to its last
    bytes : compared bytes of the feature memory after each function, equal to the functional run; 0
        without a sample
    """

    core: tuple[int, int]
    times: list[CoreTimes]
    bytes: int


def run_cycles(folder: CompiledFolder, sample: NDArray[np.float32] | None) -> CycleRun:
    """Simulate a frame, and check its data against the functional run.

    sample : float32, shape (1, ...); without it only the times are computed, as they do not depend
        on data

    Raises `CheckFailedError` if the bytes differ, `ChipError` if units wait forever.
    """
    machine = Machine(folder)
    ((place, program),) = programs_of(folder).items()
    link = folder.link
    times = [
        run_core(machine.shape, program, link, one["spans"][0][0])
        if machine.shape.map_vectors
        else _external(folder, machine.shape, one)
        for one in machine.functions
    ]
    if sample is None:
        return CycleRun(place, times, 0)
    both = _Both(machine, times)
    machine.run(both, sample)
    return CycleRun(place, times, both.compared)


def _external(folder: CompiledFolder, shape: NpuShape, function: dict[str, Any]) -> CoreTimes:
    """Return the times of a function on a core with external memory, shared by loads and stores."""
    (image,) = folder.images.values()
    program = image.decoded(f"{folder.path}: ")
    before = Preloaded.of_image(image, f"{folder.path}: micro-ops")
    (span,) = map(tuple, function["spans"])
    timeline = timeline_of_functions(program, [span], shape, before, folder.link)
    program = program[slice(*span)]
    units = np.array([unit_of(one) for one in program], np.int64)
    waits = np.zeros((len(UNITS), len(CAUSES)), np.int64)
    for unit in range(len(UNITS)):
        found = waits_of(program, timeline)[units == unit].sum(0)
        waits[unit, SHOWN] = found
        waits[unit, DONE] = timeline.cycles - int(timeline.busy[unit]) - int(found.sum())
    return CoreTimes(timeline.cycles, timeline.start, timeline.end, timeline.busy, waits)


class _Both(FrameCores):
    """The cores in cycle-accurate order; others : the same in program order."""

    def __init__(self, machine: Machine, times: list[CoreTimes]) -> None:
        super().__init__(machine, machine.chip.frame())
        self.others = FrameCores(machine, machine.chip.frame())
        self.times, self.compared = times, 0

    def write(self, tensor: str, maps: Data) -> None:
        super().write(tensor, maps)
        self.others.write(tensor, maps)

    def start(self, function: int) -> None:
        order = self.times[function].order()
        (first, _) = self.machine.functions[function]["spans"][0]
        self.frame.run_in_order(np.zeros_like(order), order + first)
        self.others.start(function)
        for place in self.machine.chip.cores:
            mine, its = (one.frame.memory(place)["FM"] for one in (self, self.others))
            wrong = np.argwhere(mine != its)
            if wrong.size:
                raise CheckFailedError(
                    f"{self.machine.folder.path}: core ({place[0]}, {place[1]}): "
                    f"{len(wrong):,} bytes of the cycle-accurate run differ from the "
                    f"functional run, the first in vector {wrong[0][0]:,}; compile the model "
                    "again"
                )
            self.compared += mine.size

    def put(self, tensor: str, vectors: Data) -> None:
        super().put(tensor, vectors)
        self.others.put(tensor, vectors)


def cycle_rows(run: CycleRun) -> dict[str, Any]:
    """Return a simulation as a JSON object; functions run one after another."""
    busy = np.sum([one.busy for one in run.times], axis=0).tolist()
    waits = np.sum([one.waits for one in run.times], axis=0).tolist()
    core = {
        "core": list(run.core),
        "busy": dict(zip(UNITS, busy, strict=True)),
        "waits": {
            unit: dict(zip(CAUSES, row, strict=True))
            for unit, row in zip(UNITS, waits, strict=True)
        },
    }
    return {
        "cycles": sum(times.cycles for times in run.times),
        "functions": [times.cycles for times in run.times],
        "bytes_compared": run.bytes,
        "cores": [core],
    }


CHECKED = 3
"""Frames whose data is checked: from the third on, both slots are reused."""
FRAMES = 20
"""Default number of frames."""
DRAWN, MOST_BARS = 4, 200
"""Frames of a timeline, and its approximate maximum bars per unit."""


class FramesRun(NamedTuple):
    """Result of a simulation.

    times, report : times and report of all frames
    bytes : number of compared bytes: host results of the first frames and the maps after them,
        equal to the results of sequential frames; 0 without samples
    loading : flits that fill all memories before the first frame, one per cycle
    units : unit of each instruction, by core; -1 for instructions that wait for or send tokens
    """

    times: MeshTimes
    report: ChipReport
    bytes: int
    loading: int
    units: dict[Place, NDArray[np.int64]]


def run_frames(
    folder: CompiledFolder, samples: NDArray[np.float32] | None, frames: int,
    advance: Advance | None = None,
) -> FramesRun:  # fmt: skip
    """Simulate frames of a model on several cores.

    samples : float32, shape (1 or more, ...), the first few are checked; without samples only the
        times are computed, as they do not depend on data

    Raises `CheckFailedError` if bytes differ, `ChipError` if units wait forever.
    """
    chip = chip_of(folder)
    times = run_mesh(chip, frames, keep=range(min(frames, DRAWN)), advance=advance)
    compared = 0 if samples is None else _check(folder, chip, samples[: min(frames, CHECKED)])
    units = {
        place: np.where(program.op == Op.CTRL, -1, units_of(program))
        for place, program in chip.programs.items()
    }
    return FramesRun(times, chip_report(chip, times), compared, loading_flits(folder), units)


def chip_of(folder: CompiledFolder) -> MeshChip:
    """Return the cores of a compiled model, and the packets from the host."""
    mesh = Mesh(folder.chip.width, folder.chip.height)
    programs = programs_of(folder)
    feeds = {
        (one["x"], one["y"]): CoreLinks(
            brought=tuple(
                Brought(
                    each["stream"],
                    each["slots"],
                    tuple(map(tuple, each["runs"])),
                    each.get("function", 0),
                    waits=tuple(each.get("waits", ())),
                    credits=each.get("credits", 0),
                )
                for each in one["brought"]
            ),
            counts=dict(one["streams"]),
        )
        for one in folder.manifest["cores"]
    }
    ports = [(x, y) for x, y in folder.manifest["ports"]]
    host = HostSide(ports, folder.link, stages_of(folder.manifest["functions"]))
    return mesh_chip(folder.shape, mesh, programs, feeds, host)


def stages_of(functions: list[dict[str, Any]]) -> HostStages:
    """Return the work of the host between the functions of a manifest."""
    runs = [(at, *run) for at, one in enumerate(functions) for run in one.get("received", [])]
    results = np.zeros(max((first + count for _, first, count in runs), default=0), np.int64)
    for at, first, count in runs:
        results[first : first + count] = at
    return HostStages([one.get("host_cycles", 0) for one in functions], results)


def loading_flits(folder: CompiledFolder) -> int:
    """Return the flits that the host sends before the first frame.

    They fill memories, initialise stream counters, and start each core.
    """
    from hw.npu.flit import Loaded, word_bits

    shape = folder.shape
    bits = {memory: each for memory, (each, _) in word_bits(shape).items()}
    memories = (Loaded.IM, Loaded.UM, Loaded.WM, Loaded.PM, Loaded.HM, Loaded.FM)
    found = len(folder.images)
    for image in folder.images.values():
        words = zip(memories, image.counts.values(), strict=True)
        found += sum(count * -(-bits[one] // shape.payload_bits) for one, count in words)
    return found + sum(len(one["streams"]) for one in folder.manifest["cores"])


class _Sends(FrameCores):
    """Records the host's packets of a frame, by host port."""

    def __init__(self, machine: Machine, chip: MeshChip) -> None:
        super().__init__(machine, machine.chip.frame())
        self.ports = [one.inputs for one in chip.hosts]
        columns = machine.shape.columns
        self.sent = [np.zeros((one.vector.size, columns), np.int8) for one in self.ports]

    def start(self, function: int) -> None:
        for inputs, sent in zip(self.ports, self.sent, strict=True):
            for at in np.flatnonzero(inputs.stage == function).tolist():
                x, y = inputs.core[at].tolist()
                sent[at] = self.frame.read((x, y), int(inputs.vector[at]), (1,), (1,))[0]
            for one, vectors in self.sending:
                mine = (inputs.core == one.place).all(1) & (inputs.stream == one.stream)
                sent[mine] = one.in_order(vectors)[: int(mine.sum())]
        super().start(function)


def inputs_of(
    folder: CompiledFolder, chip: MeshChip, samples: NDArray[np.float32]
) -> list[list[Bytes]]:
    """Return the host's data of each frame by port, int8, shape (vectors, columns)."""
    machine = Machine(folder)
    inputs = []
    for at in range(len(samples)):
        cores = _Sends(machine, chip)
        machine.run(cores, samples[at : at + 1])
        inputs.append(cores.sent)
    return inputs


def _check(folder: CompiledFolder, chip: MeshChip, samples: NDArray[np.float32]) -> int:
    """Check that overlapping frames give the data of sequential frames, and these the results of
    single frames; return the compared bytes."""
    inputs = inputs_of(folder, chip, samples)
    frames = len(inputs)
    times = run_mesh(chip, frames, keep=range(frames), flits=True)
    functional = NpuChip(chip.shape, chip.programs, chip.streams, folder.weights)
    wanted, stop = in_turn(chip, functional, inputs)
    alone = [in_turn(chip, functional, [one])[0][0] for one in inputs]
    found, after = overlapped(chip, functional, inputs, times)
    compared = 0
    for number, one in enumerate(wanted):
        for other, how in (
            (alone[number], "its results alone"), (found[number], "sequential execution"),
        ):  # fmt: skip
            same = np.array_equal(one.address, other.address)
            if not (same and np.array_equal(one.vectors, other.vectors)):
                raise CheckFailedError(
                    f"{folder.path}: results of frame {number} differ from {how}; compile the "
                    "model again"
                )
        compared += one.vectors.size
    for place in chip.programs:
        maps = stop.memory(place)["FM"]
        wrong = np.argwhere(maps != after.memory(place)["FM"])
        if wrong.size:
            raise CheckFailedError(
                f"{folder.path}: core ({place[0]}, {place[1]}): {len(wrong):,} bytes differ "
                f"from sequential execution, the first in vector {wrong[0][0]:,}; compile the "
                "model again"
            )
        compared += maps.size
    return compared


def frames_rows(run: FramesRun, megahertz: float) -> dict[str, Any]:
    """Return a simulation as a JSON object. megahertz : clock frequency"""
    times, report = run.times, run.report
    busiest = float(report.links.max(initial=0))
    cores = []
    for place, work in times.cores.items():
        waits = zip(UNITS, work.waits.tolist(), strict=True)
        cores.append(
            {
                "core": list(place),
                "alone": report.cores[place].cycles,
                "busy": dict(zip(UNITS, work.busy.tolist(), strict=True)),
                "waits": {unit: dict(zip(CAUSES, row, strict=True)) for unit, row in waits},
            }
        )
    return {
        "cycles": times.cycles,
        "bytes_compared": run.bytes,
        "cores": cores,
        "frames": report.frames,
        "loading": run.loading,
        "latency": report.latency,
        "period": report.period,
        "mean_period": report.mean,
        "clock_mhz": megahertz,
        "frames_per_second": report.frames_per_second(megahertz),
        "bound": report.bound._asdict(),
        "busiest_link": busiest,
        "flit_hops": float(report.links.sum()),
        "links": [
            {"at": [x, y], "to": SIDES[side], "flits": float(report.links[side, y, x])}
            for side, y, x in np.argwhere(report.links).tolist()
        ],
        "timeline": _timeline(run),
    }


def _timeline(run: FramesRun) -> dict[str, Any]:
    """Return the busy times of the units in the first frames, as bars by unit and frame.

    Cores are sorted by their start.
    """
    kept = {place: work for place, work in run.times.cores.items() if work.start.size}
    cycles = max((int(work.end.max()) for work in kept.values()), default=0)
    cores = []
    for place, work in sorted(kept.items(), key=lambda one: _first_product(run, *one)):
        units = run.units[place][: work.start.shape[1]]
        cores.append(
            {
                "core": list(place),
                "units": {
                    name: [
                        bars_of(start[units == unit], end[units == unit], cycles // MOST_BARS)
                        for start, end in zip(work.start, work.end, strict=True)
                    ]
                    for unit, name in enumerate(UNITS)
                },
            }
        )
    drawn = min(DRAWN, len(run.times.completed))
    return {"cycles": cycles, "completed": run.times.completed[:drawn].tolist(), "cores": cores}


def _first_product(run: FramesRun, place: Place, work: CoreWork) -> int:
    """Return the first cycle of the matrix unit, or of any unit if the matrix unit is idle."""
    starts = work.start[0]
    mine = starts[run.units[place][: starts.size] == UNITS.index("GEMM")]
    return int(min(mine if mine.size else starts))
