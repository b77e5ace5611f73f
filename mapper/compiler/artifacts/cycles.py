"""Cycle-accurate simulation of a model on one core: time per frame and stalls of each unit.

The data is checked against the functional simulator. For several cores see
`mapper.compiler.artifacts.chip_cycles`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.causes import CAUSES, DONE, FETCH, TOKEN, WEIGHTS
from chipsim.npu.core_run import CoreTimes, run_core
from chipsim.npu.cycles import UNITS
from mapper.compiler.artifacts.manifest import CompiledFolder
from mapper.compiler.artifacts.simulate import FrameCores, Machine, programs_of
from mapper.compiler.partition.hostrun import Data
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
