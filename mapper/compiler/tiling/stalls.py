"""Stalls: causes of the waiting times of a core's units, from a timeline."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chipsim.npu.cycles import UNITS, Timeline
from hw.npu.isa.table import Instruction
from mapper.compiler.tiling.units import UNIT_OF

CAUSES = (*UNITS, "weights", "fetch")
"""Units whose tokens are waited for, weights of the host, and instructions that are not fetched
yet."""
WEIGHTS = len(UNITS)


def unit_of(one: Instruction) -> int:
    """Return the index of the unit that runs an instruction."""
    return UNIT_OF.get(one.op, one.fields.get("queue", 0))


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
