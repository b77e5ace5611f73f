"""Cost of packing bits: in the ALU of a core, in parallel to its products, or on the host.

On a core thresholds pack bits; a frame is longer only if the ALU is the bottleneck. A host would
receive each feature map as bytes, in chunks, and send the bits of each chunk back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.cycles import run_queues
from hw.npu.isa.table import Instruction
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.program.presets import Preloaded
from mapper.compiler.tiling.streams import HOST_LATENCY
from mapper.compiler.tiling.units import NOTHING, timed_program


class PackingCycles(NamedTuple):
    """Cycles of a frame.

    frame : total with bits packed on the core; core : share of it that is due to packing
    host : additional cycles if the host packed; transfers : chunks of feature maps
    """

    frame: int
    core: int
    host: int
    transfers: int

    @property
    def by_host(self) -> int:
        """Cycles of a frame with packing on the host."""
        return self.frame - self.core + self.host


def packing_cost(
    functions: Sequence[Sequence[Instruction]], macros: Sequence[Macro], shape: NpuShape,
    chunk: int, before: Preloaded = NOTHING,
) -> PackingCycles:  # fmt: skip
    """Return the cost of packing in the functions of a program.

    chunk : bytes per transfer to the host, each with its latency
    before : initial contents of the core
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
    return PackingCycles(frame, frame - without, host, transfers)


def packs(one: Instruction) -> bool:
    """Return whether an instruction packs bits: thresholds, and moves that clear their padding."""
    return one.kind == "THRESHOLD" or (one.kind == "MOV" and not one.fields.get("source"))


def _bytes(tensor: Tensor, columns: int) -> int:
    return tensor.height * tensor.width * -(-tensor.channels // columns) * columns
