"""Run compiled models on one core, or on a small chip, in Amaranth's simulator.

Every byte and cycle is compared with the simulators.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chipsim.npu.arrivals import FINEST
from chipsim.npu.core_run import CoreTimes, run_core
from chipsim.npu.cycles import UNITS
from chipsim.npu.execute import Frame, NpuChip
from chipsim.npu.followed import units_of
from chipsim.npu.mesh.chip import MeshChip, Place, say
from chipsim.npu.mesh.run import MeshTimes, run_mesh
from chipsim.npu.records import STREAMS
from chipsim.npu.replay import Bytes, in_turn
from hw.npu.chip import ChipParts, MixedChip
from hw.npu.core_run import Begin, CoreRun, CoreSimulator, Link
from hw.npu.flit import SIDE_BITS, Kind
from hw.npu.host import HostSide, Input, StagedWork
from hw.npu.isa.table import INSTRUCTION_BYTES, MICRO_OP_BYTES
from hw.npu.memories.memories import Contents, NpuMemories
from hw.npu.run import PATIENCE, Delivered, NpuRun, NpuSimulator
from mapper.compiler.artifacts.cycles import chip_of, inputs_of
from mapper.compiler.artifacts.manifest import CompiledFolder
from mapper.compiler.artifacts.simulate import FrameCores, Machine, programs_of
from mapper.compiler.program.image import Image
from mapper.errors import CheckFailedError, DoesNotFitError

MOST_NODES = 4


class HardwareRun(NamedTuple):
    """Amounts that were compared and are equal.

    cycles : cycles until the last frame was done; for one core, the total of all frames
    bytes : bytes of results; for one core, bytes of its maps after each function
    """

    frames: int
    cycles: int
    instructions: int
    flits: int
    bytes: int


def check_hardware(folder: CompiledFolder, samples: NDArray[np.float32]) -> HardwareRun:
    """Run the frames of a model on several cores one by one in Amaranth's simulator.

    samples : float32, shape (frames, ...)

    Raises `DoesNotFitError` for chips that would take too long, and `CheckFailedError` that names
    the first difference from the simulators.
    """
    chip = chip_of(folder)
    if chip.mesh.nodes > MOST_NODES:
        raise DoesNotFitError(
            f"{folder.path}: {chip.mesh.width}x{chip.mesh.height} cores; at most {MOST_NODES} run "
            "in Amaranth's simulator"
        )
    inputs = inputs_of(folder, chip, samples)
    frames = len(inputs)
    wanted = run_mesh(chip, frames, keep=range(frames), flits=True)
    contents = {
        place: contents_of(image, chip.streams.get(place, np.zeros(STREAMS, np.int64)))
        for place, image in folder.images.items()
    }
    hardware = NpuSimulator(hardware_of(chip, contents))
    sides = sides_of(chip, inputs, folder.weights)
    functional = NpuChip(chip.shape, chip.programs, chip.streams, folder.weights)
    results = in_turn(chip, functional, inputs)[0]
    found = hardware.run(
        sides, frames, chip.begins, patience=PATIENCE + wanted.cycles,
        work=work_of(chip, results[0].address),
    )  # fmt: skip
    if difference := first_difference(chip, found, wanted):
        raise CheckFailedError(f"{folder.path}: hardware: {difference}")
    compared = 0
    for number, one in enumerate(results):
        bytes_of = dict(zip(one.address.tolist(), one.vectors.tolist(), strict=True))
        mine = {address: lanes.tolist() for address, lanes in found.results[number].items()}
        if mine != bytes_of:
            raise CheckFailedError(f"{folder.path}: hardware: results of frame {number} differ")
        compared += one.vectors.size
    started = sum(len(times) for units in found.started.values() for times in units)
    return HardwareRun(frames, max(found.completed), started, len(found.deliveries), compared)


def contents_of(image: Image, streams: ArrayLike) -> Contents:
    """Return the memory contents of a core before the first frame."""
    return Contents(
        _numbers(image.instructions, INSTRUCTION_BYTES),
        _numbers(image.micro_ops, MICRO_OP_BYTES),
        np.frombuffer(image.headers, "<u8").tolist(),
        image.parameters,
        image.weights,
        image.filled(),
        np.asarray(streams).tolist(),
    )


def _numbers(data: bytes, size: int) -> list[int]:
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


def hardware_of(chip: MeshChip, contents: dict[Place, Contents]) -> MixedChip:
    """Return the chip in Amaranth."""
    parts = ChipParts(contents, [port.place for port in chip.hosts], chip.ports)
    return MixedChip(chip.mesh.width, chip.mesh.height, chip.shape, parts, chip.mesh.depth)


def work_of(chip: MeshChip, results: NDArray[np.int64]) -> StagedWork:
    """Return the work of the host within a frame. results : addresses of the results of a frame"""
    stages, parts = chip.stages, -(-8 * chip.shape.columns // chip.shape.payload_bits)
    known = np.zeros(max(stages.results.size, int(results.max(initial=0)) + 1), np.int64)
    known[: stages.results.size] = stages.results
    wanted = parts * np.bincount(known[results], minlength=len(stages.cycles))
    return StagedWork(stages.cycles, known.tolist(), wanted.tolist())


def sides_of(
    chip: MeshChip, inputs: list[list[Bytes]], weights: NDArray[np.int8] | None
) -> list[HostSide]:
    """Return the state of each host port. inputs : by frame and port, shape (vectors, columns)"""
    rate = Fraction(chip.link.flits).limit_denominator(FINEST)
    found = []
    for number, port in enumerate(chip.hosts):
        given = port.inputs._replace(waits=port.inputs.consumed)
        columns = zip(*(column.tolist() for column in given if column is not None), strict=True)
        vectors = [Input((one[0][0], one[0][1]), *one[1:]) for one in columns]
        data = np.stack([frame[number] for frame in inputs]).view(np.uint8)
        found.append(HostSide(vectors, data, weights, chip.link.latency, rate))
    return found


def first_difference(chip: MeshChip, found: NpuRun, wanted: MeshTimes) -> str | None:
    """Return the first difference between hardware and simulator, None if there is none.

    Compared are the start and end of all instructions, ends of frames, and deliveries of all flits.
    """
    for place, work in wanted.cores.items():
        begin, count = chip.begins.get(place, 0), work.start.shape[1]
        units = units_of(chip.programs[place])[begin : begin + count]
        for name, times, seen in (
            ("start", work.start, found.started[place]), ("end", work.end, found.ended[place]),
        ):  # fmt: skip
            if difference := different_times(place, name, times, seen, units):
                return difference
        if found.idle[place] != work.ended.tolist():
            return f"core {say(place)}: frames end in cycles {found.idle[place]}"
    d = wanted.deliveries
    rows = np.zeros((0, 5), np.int64)
    if d is not None:
        rows = np.stack([d.cycle, d.target, d.kind, d.stream, d.value], 1)
    flits = sorted(map(_row, found.deliveries))
    simulated = sorted(map(tuple, rows.tolist()))
    if flits != simulated:
        one, other = next(
            (each for each in zip(flits, simulated, strict=False) if each[0] != each[1]),
            ("an end", "an end"),
        )
        return f"flits (cycle, node, kind, stream, value): {one}, in the simulator {other}"
    if found.completed != wanted.completed.tolist():
        return f"frames complete in cycles {found.completed}"
    return None


def different_times(
    place: Place, name: str, times: NDArray[np.int64], seen: list[list[int]],
    units: NDArray[np.int64],
) -> str | None:  # fmt: skip
    """Return the first instruction start or end in another cycle than in the simulator.

    name : "start" or "end"; times : simulated times, shape (frames, instructions)
    seen : hardware times, by unit; units : unit of each instruction
    """
    for unit, cycles in enumerate(seen):
        mine = times[:, units == unit].ravel().tolist()
        if mine != cycles:
            at = next((n for n, both in enumerate(zip(mine, cycles, strict=False))
                       if both[0] != both[1]), min(len(mine), len(cycles)))  # fmt: skip
            return (
                f"core {say(place)}: {name} of instruction {at} of {UNITS[unit]}: cycle "
                f"{cycles[at : at + 1]}, in the simulator {mine[at : at + 1]}"
            )
    return None


def _row(one: Delivered) -> tuple[int, ...]:
    """Return a delivery in the form of the simulator: tokens and credits have a count, not an
    address.
    """
    cycle, node, flit = one
    value = flit.address
    if flit.kind == Kind.TOKEN:
        value = flit.data
    if flit.kind == Kind.REQUEST and not flit.address:
        value = flit.data >> 2 * SIDE_BITS
    return cycle, node, flit.kind, flit.stream, value


Advance = Callable[[float], None]
"""Called with the completed share of all cycles."""


def check_core(
    folder: CompiledFolder, samples: NDArray[np.float32], advance: Advance | None = None
) -> HardwareRun:
    """Run the frames of a model on one core one by one in Amaranth's simulator.

    samples : float32, shape (frames, ...)

    Raises `NotBuiltError` for cores that exist only in simulators, and `CheckFailedError` that
    names the first difference from the simulators.
    """
    machine = Machine(folder)
    work = _Work(folder, machine, len(samples), advance)
    for at in range(len(samples)):
        work.begin()
        machine.run(_Both(work, machine, machine.chip.frame()), samples[at : at + 1])
    return HardwareRun(len(samples), work.cycles, work.instructions, 0, work.compared)


class _Work:
    """Hardware, expected times of each function, and amounts compared so far."""

    def __init__(
        self, folder: CompiledFolder, machine: Machine, frames: int, advance: Advance | None
    ) -> None:
        self.hardware = CoreSimulator(machine.shape)
        ((self.place, program),) = programs_of(folder).items()
        (image,) = folder.images.values()
        self.path, self.shape, self.advance = folder.path, machine.shape, advance
        self.before = NpuMemories(machine.shape, contents_of(image, ())).words()
        self.words = self.before
        host = folder.link
        rate = Fraction(host.flits).limit_denominator(FINEST)
        self.link = Link(host.latency, rate, weights=folder.weights)
        self.units = units_of(program)
        self.begins = [int(one["spans"][0][0]) for one in machine.functions]
        self.times = [run_core(machine.shape, program, host, begin) for begin in self.begins]
        self.whole = frames * sum(times.cycles for times in self.times)
        self.cycles = self.instructions = self.compared = 0

    def begin(self) -> None:
        """Begin a frame: reset all memories to the contents of the program."""
        self.words = self.before

    def run(self, function: int, maps: NDArray[np.int64]) -> CoreRun:
        """Run a function, after the host may have changed maps."""
        times, begin = self.times[function], self.begins[function]
        bytes_ = maps.astype(np.int8).view(np.uint8)
        words = NpuMemories(self.shape, Contents(maps=bytes_)).words()
        banks = {name: of for name, of in words.items() if name.startswith("fm")}
        found = self.hardware.run(
            self.words | banks, times.cycles, Begin(begin), self.link, self._advance
        )
        self._require_equal_times(found, times, begin)
        self.words = found.words
        self.cycles += times.cycles
        self.instructions += times.start.size
        return found

    def _advance(self, cycles: int) -> None:
        if self.advance is not None:
            self.advance((self.cycles + cycles) / self.whole)

    def _require_equal_times(self, found: CoreRun, times: CoreTimes, begin: int) -> None:
        units = self.units[begin : begin + times.start.size]
        for name, wanted, seen in (
            ("start", times.start, found.started), ("end", times.end, found.ended),
        ):  # fmt: skip
            if difference := different_times(self.place, name, wanted[None], seen, units):
                raise CheckFailedError(f"{self.path}: hardware: {difference}")


class _Both(FrameCores):
    """Runs the functional simulator and the hardware together."""

    def __init__(self, work: _Work, machine: Machine, frame: Frame) -> None:
        super().__init__(machine, frame)
        self.work = work

    def start(self, function: int) -> None:
        work, frame = self.work, self.frame
        found = work.run(function, frame.memory(work.place)["FM"])
        super().start(function)
        wanted = frame.memory(work.place)
        for name, values in wanted.items():
            wrong = np.argwhere(found.lanes[name] != values)
            if wrong.size:
                raise CheckFailedError(
                    f"{work.path}: hardware: {name} differs in {len(wrong):,} lanes, the first in "
                    f"word {wrong[0][0]:,}"
                )
            work.compared += values.size if name == "FM" else 0
