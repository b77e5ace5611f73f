"""Run compiled models on one core in Amaranth; compare every byte and cycle with the simulators.

See `mapper.compiler.artifacts.chip_hardware` for several cores.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from chipsim.npu.arrivals import FINEST
from chipsim.npu.core_run import CoreTimes, run_core
from chipsim.npu.execute import Frame
from chipsim.npu.followed import units_of
from hw.npu.core_run import Begin, CoreRun, CoreSimulator, Link
from hw.npu.memories.memories import Contents, NpuMemories
from mapper.compiler.artifacts.chip_hardware import HardwareRun, contents_of, different_times
from mapper.compiler.artifacts.manifest import CompiledFolder
from mapper.compiler.artifacts.simulate import FrameCores, Machine, programs_of
from mapper.errors import CheckFailedError

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
