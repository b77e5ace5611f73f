"""The steps of a whole core: which cut each macro node gets, and how products are paired."""

from __future__ import annotations

from dataclasses import replace

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa import Instruction
from mapper.compiler.codegen.builder import DUAL, Choices, Dual
from mapper.compiler.codegen.emitter import Emitter
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.planner import Region
from mapper.compiler.partition.functions import Partition
from mapper.compiler.schedule.onchip import Limits, chosen, fixed_cut
from mapper.compiler.schedule.tiles import Cut
from mapper.errors import DoesNotFitError

END = Instruction("CTRL", "END", fields={"drain": 1})
UNLIMITED = 1 << 30
"""Instructions in external memory."""


def emitted(
    partition: Partition, shape: NpuShape, regions: dict[Tensor, Region], options: Choices,
    log: list[str],
) -> tuple[Emitter, list[int]]:  # fmt: skip
    """The steps of a core for all functions, and how many there are behind each macro node; that of
    the end of a function belongs to the last one in it.

    Pairs of products take micro-ops: the fastest way to pair them that fits is taken.
    """
    auto = options.dual == "auto" and shape.multiplier == "dual"
    ways: tuple[Dual, ...] = DUAL if auto else (options.dual,)
    last = {one.behind for one in partition.functions}
    for way in ways:
        emitter = Emitter(shape, regions, replace(options, dual=way))
        ends = []
        try:
            for number, cut in enumerate(chosen_cuts(emitter, partition.macros)):
                emitter.emit(partition.macros[number], cut)
                if number + 1 in last:
                    emitter.step("LOAD", END, [], [])
                ends.append(len(emitter.steps))
        except DoesNotFitError as error:
            if way == ways[-1]:
                raise
            log.append(f"--dual {way} is not taken: {error}")
        else:
            return emitter, ends
    raise AssertionError


def chosen_cuts(emitter: Emitter, macros: list[Macro]) -> list[Cut]:
    """Cuts by search, or by a fixed rule; that of the first layer as it is given."""
    shape, options = emitter.shape, emitter.options
    plane = options.first_tile
    if options.schedule == "search":
        ways = [
            emitter.ways(macro, plane[::-1] if plane and not number else None)
            for number, macro in enumerate(macros)
        ]
        limits = Limits(shape.instructions or UNLIMITED, shape.micro_ops)
        return [one.cut for one in chosen(macros, ways, limits, not shape.map_vectors)]
    cuts = [fixed_cut(options.schedule, macro, shape) for macro in macros]
    if plane and macros:
        cuts[0] = emitter.ways(macros[0], plane[::-1])[0].cut
    return cuts
