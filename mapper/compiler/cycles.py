"""Cycle-true runs of a compiled model: how long a frame takes on each core, and what units wait
for. The bytes are those of the functional run, which is checked."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.chip_run import CAUSES, ChipTimes, run_chip
from chipsim.npu.cycles import UNITS
from chipsim.npu.execute import NpuChip
from mapper.compiler.manifest import CompiledFolder
from mapper.compiler.partition.hostplan import run_host
from mapper.compiler.simulate import Maps, program_of, read_map, write_map
from mapper.errors import CheckFailedError


class CycleRun(NamedTuple):
    """A frame of a compiled model.

    times : of the cores, from their first instruction to their last
    bytes : of all feature memories, equal to those of the functional run; 0 without a sample
    """

    times: ChipTimes
    bytes: int


def run_cycles(folder: CompiledFolder, sample: NDArray[np.float32] | None) -> CycleRun:
    """A frame, and that its bytes are those of the functional run.

    sample : float32, shape (1, ...); without it only the times are worked out: they depend on no
        data

    Raises `CheckFailedError` if the bytes differ, `ChipError` if units wait for ever.
    """
    shape = NpuShape(**folder.manifest["shape"])
    programs = {
        place: program_of(image, f"core_{place[0]}_{place[1]}.npc")
        for place, image in folder.images.items()
    }
    times = run_chip(shape, programs)
    if sample is None:
        return CycleRun(times, 0)
    chip, maps = NpuChip(shape, programs), {one["name"]: one for one in folder.manifest["maps"]}
    order, compared = times.order(), 0

    def cores(stored: Maps) -> Maps:
        nonlocal compared
        ours, others = chip.frame(), chip.frame()
        for frame in (ours, others):
            for name, data in stored.items():
                write_map(frame, maps[name], data[0], shape.columns)
        ours.run_in_order(*order)
        others.run()
        for place in programs:
            mine, its = (frame.memory(place)["FM"] for frame in (ours, others))
            wrong = np.argwhere(mine != its)
            if wrong.size:
                raise CheckFailedError(
                    f"{folder.path}: core ({place[0]}, {place[1]}): {len(wrong):,} bytes of the "
                    "cycle-true run differ from those of the functional run, the first in vector "
                    f"{wrong[0][0]:,}; compile the model again"
                )
            compared += mine.size
        results = next(step["results"] for step in folder.host if step["do"] == "cores")
        return {name: read_map(ours, maps[name], shape.columns)[None] for name in results}

    run_host(folder.host, {next(iter(folder.graph.inputs)): sample}, cores)
    return CycleRun(times, compared)


def cycle_rows(run: CycleRun) -> dict[str, Any]:
    """A cycle-true run as an object for JSON."""
    return {
        "cycles": run.times.cycles,
        "bytes_compared": run.bytes,
        "cores": [
            {
                "core": list(place),
                "busy": {
                    unit: int(busy) for unit, busy in zip(UNITS, times.busy, strict=True)
                },
                "waits": {
                    unit: dict(zip(CAUSES, row.tolist(), strict=True))
                    for unit, row in zip(UNITS, times.waits, strict=True)
                },
            }
            for place, times in run.times.cores.items()
        ],
    }  # fmt: skip
