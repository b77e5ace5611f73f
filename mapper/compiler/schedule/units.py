"""The timeline of a program: when each of its instructions works."""

from __future__ import annotations

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.cycles import UNITS, Timed, Timeline, run_queues
from chipsim.npu.timing import cycles_of, matrix_cycles
from hw.npu.isa import Instruction, form_of

UNIT_OF = {"LOAD": 0, "GEMM": 1, "ALU": 2, "RQ": 2, "STORE": 3}


def timeline_of(program: list[Instruction], shape: NpuShape) -> Timeline:
    """Starts and ends of the instructions of a frame, on a core that nothing outside delays."""
    return run_queues([_timed(one, shape) for one in program], shape)


def _timed(one: Instruction, shape: NpuShape) -> Timed:
    fields = dict.fromkeys((field.name for field in form_of(one.op, one.kind).fields), 0)
    fields |= one.fields
    weights = [matrix_cycles(fields, shape)] * fields["uops"] if one.op == "GEMM" else []
    cycles = cycles_of(one.op, one.kind, fields, weights, shape)
    unit = UNIT_OF.get(one.op, fields.get("queue", 0))
    return Timed(unit, one.wait, one.signal, cycles)


def busy_shares(timeline: Timeline) -> dict[str, float]:
    """The share of a frame's cycles that each unit works."""
    whole = max(1, timeline.cycles)
    return {name: int(busy) / whole for name, busy in zip(UNITS, timeline.busy, strict=True)}
