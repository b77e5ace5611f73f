"""The timeline of a program: start and end of each instruction, and causes of stalls."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.arrivals import HostLink, WordOrder
from chipsim.npu.cycles import UNITS, Timed, Timeline, run_queues
from chipsim.npu.timing import (
    cycles_of,
    matrix_cycles,
    moved_bits,
    stores_pairs,
    vectors_of_entry,
)
from hw.npu.isa.table import Instruction, form_of
from mapper.compiler.program.presets import Preloaded
from mapper.compiler.program.steps import Step, unit_of
from mapper.compiler.tiling.tile_pipeline import TileCost

NOTHING = Preloaded()


def timeline_of_functions(
    program: Sequence[Instruction], spans: Sequence[tuple[int, int]], shape: NpuShape,
    before: Preloaded = NOTHING, host: HostLink | None = None,
) -> Timeline:  # fmt: skip
    """Return the timeline of a frame of consecutive functions, between which all units are idle.
    Apart from the weights of the host, nothing outside the core delays it.

    spans : first instruction and end of each function
    before : initial contents of the core
    """
    all_ = timed_program(program, shape, before)
    parts = []
    cycles = 0
    for begin, end in spans:
        one = run_queues(all_[begin:end], shape, host)
        parts.append(one._replace(start=one.start + cycles, end=one.end + cycles))
        cycles += one.cycles
    return Timeline(
        np.concatenate([one.start for one in parts]),
        np.concatenate([one.end for one in parts]),
        np.sum([one.busy for one in parts], axis=0),
        np.concatenate([one.late for one in parts]),
    )


def timed_program(
    program: Sequence[Instruction], shape: NpuShape, before: Preloaded = NOTHING
) -> list[Timed]:
    """Return instructions of consecutive functions with their timing."""
    order = WordOrder(shape, before.words, before.vectors)
    return [
        timed(one, shape, before.headers, pairs)._replace(
            words=order.follow(one.op, one.kind, _fields(one))
        )
        for one, pairs in zip(program, _pairs(program, shape), strict=True)
    ]


def _pairs(program: Iterable[Instruction], shape: NpuShape) -> Iterator[bool]:
    """Yield whether each instruction stores 16-bit results (see CTRL.DIST)."""
    distance = 0
    for one in program:
        if one.op == "STORE":
            yield stores_pairs(one.kind, _fields(one), distance, shape)
            continue
        if (one.op, one.kind) == ("CTRL", "DIST") and UNITS[one.fields["queue"]] == "STORE":
            distance = one.fields.get("src", 0)
        yield False


def timed(
    one: Instruction, shape: NpuShape, headers: Sequence[int] = (), pairs: bool = False
) -> Timed:
    """Return an instruction with its timing, without weights of the host.

    headers : packet headers of the window unit; pairs : it stores 16-bit results
    """
    fields = _fields(one)
    weights = [matrix_cycles(fields, shape)] * fields["uops"] if one.op == "GEMM" else []
    cycles = cycles_of(one.op, one.kind, fields, weights, shape, headers, pairs)
    moved = moved_bits(one.op, one.kind, fields, shape, pairs)
    return Timed(unit_of(one), one.wait, one.signal, cycles, moved)


def _fields(one: Instruction) -> dict[str, int]:
    """Return all fields of an instruction; missing fields are 0."""
    return {**_no_fields(one.op, one.kind), **one.fields}


@cache
def _no_fields(op: str, kind: str) -> dict[str, int]:
    return dict.fromkeys((field.name for field in form_of(op, kind).fields), 0)


def vectors_of(one: Instruction, shape: NpuShape) -> int:
    """Return the vectors that an instruction moves from or to a feature map, including padding."""
    f = one.fields
    if "y_size" in f:
        whole = one.kind in ("ACC32", "PARTIAL", "PARTIAL_HOST")
        moved = f["c_size"] * f["x_size"] * f["y_size"] * (1 + 3 * f.get("up", 0))
        return moved * (vectors_of_entry(shape) if whole else 1)
    return f["vectors"] if one.kind == "TABLE" else 0


def tile_cost(
    steps: list[Step], micro_ops: int, shape: NpuShape, headers: Sequence[int]
) -> TileCost:
    """Return the cost of a tile from its instructions."""
    busy = dict.fromkeys(UNITS, 0)
    program = [step.instruction for step in steps]
    for step, pairs in zip(steps, _pairs(program, shape), strict=True):
        busy[step.unit] += timed(step.instruction, shape, headers, pairs).cycles
    loads = sum(step.instruction.kind == "INP" for step in steps)
    load, matrix, alu, store = (busy[name] for name in UNITS)
    return TileCost(load, matrix, alu, store, loads, len(steps), micro_ops)


def busy_shares(timeline: Timeline) -> dict[str, float]:
    """Return the utilisation of each unit: its share of busy cycles in a frame."""
    whole = max(1, timeline.cycles)
    return {name: int(busy) / whole for name, busy in zip(UNITS, timeline.busy, strict=True)}


CAUSES = (*UNITS, "weights", "fetch")
"""Units whose tokens are waited for, weights of the host, and instructions that are not fetched
yet."""
WEIGHTS = len(UNITS)


def waits_of(program: Sequence[Instruction], timeline: Timeline) -> NDArray[np.int64]:
    """Return the stall cycles of each instruction's unit before it (for weights: during it), by
    cause, shape (instructions, len(CAUSES)).

    Time up to the last token that it consumes is due to the unit that sends it; the rest is fetch.
    """
    found = np.zeros((len(program), len(CAUSES)), np.int64)
    found[:, WEIGHTS] = timeline.late
    free = [0] * len(UNITS)
    tokens: dict[tuple[int, int], deque[int]] = {}
    for at, one in enumerate(program):
        unit, start, end = unit_of(one), int(timeline.start[at]), int(timeline.end[at])
        taken = [
            (tokens[other, unit].popleft(), other)
            for other in range(len(UNITS))
            if one.wait >> other & 1 and tokens.get((other, unit))
        ]
        last, whose = max(taken, default=(0, 0))
        given = max(0, min(last, start) - free[unit])
        found[at, whose] += given
        found[at, -1] += max(0, start - free[unit]) - given
        free[unit] = max(free[unit], end)
        for other in range(len(UNITS)):
            if one.signal >> other & 1:
                tokens.setdefault((unit, other), deque()).append(end)
    return found
