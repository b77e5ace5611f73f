"""What packing bits costs: in the ALU of a core, beside its products, or on the host.

On a core the thresholds pack; a frame takes longer only where the ALU is what others wait for. A
host would get each map in bytes, some at a time, and send the bits of each of these pieces back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.cycles import run_queues
from hw.npu.isa import Instruction
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.schedule.preloaded import Preloaded
from mapper.compiler.schedule.units import NOTHING, timed_program

HOST_LATENCY = 32  # cycles until the host answers


class Packing(NamedTuple):
    """Cycles of a frame.

    frame : with bits packed on the core; core : of these, by which a frame is longer
    host : by which one would be longer if the host packed; transfers : pieces of maps
    """

    frame: int
    core: int
    host: int
    transfers: int

    @property
    def by_host(self) -> int:
        """Cycles of a frame whose bits the host packs."""
        return self.frame - self.core + self.host


def packing_cost(
    functions: Sequence[Sequence[Instruction]], macros: Sequence[Macro], shape: NpuShape,
    chunk: int, before: Preloaded = NOTHING,
) -> Packing:  # fmt: skip
    """What packing costs in the functions of a program.

    chunk : bytes that the host gets at once, each time with its latency
    before : what is in the core
    """
    frame = without = 0
    whole = timed_program([one for program in functions for one in program], shape, before)
    for program in functions:
        all_, whole = whole[: len(program)], whole[len(program) :]
        frame += run_queues(all_, shape).cycles
        rest_ = [
            each._replace(cycles=0) if packs(one) else each
            for each, one in zip(all_, program, strict=True)
        ]
        without += run_queues(rest_, shape).cycles
    flit = shape.payload_bits
    host = transfers = 0
    for tensor in [one for macro in macros for one in macro.outputs if one.type == "bits"]:
        pieces, rest = divmod(_bytes(tensor, shape.columns), chunk)
        for size, count in ((chunk, pieces), (rest, min(rest, 1))):
            host += count * (HOST_LATENCY + -(-8 * size // flit) + -(-size // flit))
            transfers += count
    return Packing(frame, frame - without, host, transfers)


def packs(one: Instruction) -> bool:
    """Whether an instruction makes packed vectors: thresholds, and what clears the last ones."""
    return one.kind == "THRESHOLD" or (one.kind == "MOV" and not one.fields.get("source"))


def _bytes(tensor: Tensor, columns: int) -> int:
    return tensor.height * tensor.width * -(-tensor.channels // columns) * columns
