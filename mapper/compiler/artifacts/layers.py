"""Cost of each layer on its core: tiles, cycles, stalls and traffic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.cycles import UNITS, Timeline
from hw.npu.isa.table import Instruction
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import Conv
from mapper.compiler.memory.planner import Region, blocks_of
from mapper.compiler.program.steps import Step, unit_of
from mapper.compiler.tiling.units import CAUSES, vectors_of, waits_of

MOST_BARS = 400  # per unit in the timeline; shorter gaps are closed


class ProgramRun(NamedTuple):
    """A program and its timeline.

    units : unit number of each instruction; waits : stalls in the format of `waits_of`
    """

    steps: Sequence[Step]
    program: Sequence[Instruction]
    timeline: Timeline
    units: NDArray[np.int64]
    waits: NDArray[np.int64]
    shape: NpuShape

    @classmethod
    def of(
        cls, steps: Sequence[Step], program: Sequence[Instruction], timeline: Timeline,
        shape: NpuShape,
    ) -> ProgramRun:  # fmt: skip
        units = np.array([unit_of(one) for one in program], np.int64)
        return cls(steps, program, timeline, units, waits_of(program, timeline), shape)


def parts_of(steps: Sequence[Step], layers: int) -> list[NDArray[np.int64]]:
    """Return the indices of the instructions of each layer of a core."""
    numbers = np.array([step.macro for step in steps], np.int64)
    return [np.flatnonzero(numbers == layer) for layer in range(layers)]


def layer_row(
    macro: Macro, own: NDArray[np.int64], region: Region | None, run: ProgramRun
) -> dict[str, Any]:
    """Return the report row of a layer: description, result and cost.

    own : indices of its instructions; region : region of its result, if that stays on the core

    Cycles and busy shares count from the end of the previous layers to its own end; stalls are
    before its own instructions.
    """
    steps, program = ([some[at] for at in own.tolist()] for some in (run.steps, run.program))
    start, end = (getattr(run.timeline, name)[own] for name in ("start", "end"))
    units = run.units[own]
    first, last = int(start.min(initial=0)), int(end.max(initial=0))
    before = int(run.timeline.end[: own[0] if own.size else 0].max(initial=0))
    output = macro.output
    return {
        "nodes": list(macro.sources),
        "operators": [node.kind for node in macro.nodes],
        "shape": list(output.shape),
        "bits": macro.bits,
        "scale": output.scale,
        "zero_point": output.zero_point,
        "products": products(macro),
        "matrix_calls": matrix_calls(macro, run.shape),
        "start": first,
        "end": last,
        "cycles": max(0, last - before),
        "tile": tile_row(steps, region),
        "busy": {
            name: _busy(run, unit, before, last) for unit, name in enumerate(UNITS)
        },
        "waits": {
            name: {
                cause: int(waited)
                for cause, waited in zip(CAUSES, run.waits[own][units == unit].sum(0), strict=True)
                if waited
            }
            for unit, name in enumerate(UNITS)
        },
        "bytes_loaded": run.shape.columns * _vectors(program, "LOAD", run.shape),
        "bytes_stored": run.shape.columns * _vectors(program, "STORE", run.shape),
        "vectors": 0 if region is None else region.vectors,
        "instructions": {name: int((units == unit).sum()) for unit, name in enumerate(UNITS)},
    }  # fmt: skip


def _busy(run: ProgramRun, unit: int, first: int, last: int) -> float:
    """Return the busy share of a unit in a range of cycles, for any layer."""
    own = run.units == unit
    start, end = run.timeline.start[own], run.timeline.end[own]
    worked = np.clip(end, first, last) - np.clip(start, first, last)
    worked -= np.minimum(worked, run.timeline.late[own])  # it waits for weights
    return float(worked.sum()) / max(1, last - first)


def tile_row(steps: Sequence[Step], region: Region | None) -> dict[str, Any]:
    """Return the tiling of a map from its stores: number of tiles, largest size, and loop order.

    The order names the axes along which tiles follow each other, the slowest first.
    """
    stores = [
        (step.tile, step.instruction.fields) for step in steps if step.instruction.op == "STORE"
    ]
    sizes = [(f["y_size"], f["x_size"], f["c_size"]) for _, f in stores]
    rows, columns, blocks = np.array(sizes, np.int64).reshape(-1, 3).max(0, initial=0).tolist()
    places = []
    for _, fields in stores:
        offset = fields.get("dst", 0) - (region.first if region else 0)
        row, rest = divmod(offset, max(1, region.row if region else fields["y_stride"]))
        places.append((row, *divmod(rest, max(1, region.pixel if region else fields["x_stride"]))))
    found = np.array(places, np.int64).reshape(-1, 3)
    steps_along = (np.diff(found, axis=0) != 0).sum(0)
    names = ("rows", "columns", "blocks")
    order = [names[axis] for axis in np.argsort(steps_along, kind="stable") if steps_along[axis]]
    return {
        "count": len({tile for tile, _ in stores}),
        "rows": rows,
        "columns": columns,
        "blocks": blocks,
        "order": order,
    }


def products(macro: Macro) -> int:
    """Return the multiplications of a frame in the model."""
    conv = macro.conv
    if conv is None:
        return 0
    outputs, kh, kw, inputs = conv.inputs[1].shape
    return conv.output.height * conv.output.width * outputs * kh * kw * inputs


def matrix_calls(macro: Macro, shape: NpuShape) -> int:
    """Return the calls of the matrix unit per frame, without recomputation in tiles."""
    conv = macro.conv
    if conv is None or not isinstance(conv.operator, Conv):
        return 0
    outputs, kh, kw, inputs = conv.inputs[1].shape
    blocks = blocks_of(outputs, shape.rows) * blocks_of(inputs, shape.columns)
    return conv.output.height * conv.output.width * kh * kw * blocks


def timeline_rows(program: Sequence[Instruction], timeline: Timeline) -> dict[str, list[list[int]]]:
    """Return the busy times of each unit as starts and ends, with invisible gaps closed."""
    gap = timeline.cycles // MOST_BARS
    units = np.array([unit_of(one) for one in program])
    return {
        name: bars_of(timeline.start[units == unit], timeline.end[units == unit], gap)
        for unit, name in enumerate(UNITS)
    }


def bars_of(start: NDArray[np.int64], end: NDArray[np.int64], gap: int) -> list[list[int]]:
    """Merge consecutive starts and ends whose gap is at most `gap` cycles."""
    bars: list[list[int]] = []
    for begins, ends in zip(start.tolist(), end.tolist(), strict=True):
        if bars and begins - bars[-1][1] <= gap:
            bars[-1][1] = max(bars[-1][1], ends)
        else:
            bars.append([begins, ends])
    return bars


def _vectors(program: Sequence[Instruction], op: str, shape: NpuShape) -> int:
    """Return the vectors moved by loads or stores, including padding of loads."""
    return sum(vectors_of(one, shape) for one in program if one.op == op)
