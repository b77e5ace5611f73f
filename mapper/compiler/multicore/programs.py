"""Programs of all cores of a chip: generated from each core's layers, then linked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa.table import Instruction
from mapper.compiler.codegen.builder import Choices, MemoryPlan
from mapper.compiler.codegen.placement import plan_weights
from mapper.compiler.codegen.program import CoreTarget, Emitted, emitted, require_instructions
from mapper.compiler.log import CompileLog
from mapper.compiler.multicore.pieces import ChipPlan, CorePlan
from mapper.compiler.program.links import Others, Place, freed_for, sent_to
from mapper.compiler.program.presets import Preset
from mapper.compiler.settings import WeightRule
from mapper.errors import DoesNotFitError


class CoreProgram(NamedTuple):
    """Program of a core. static_words : weight words that stay in the core"""

    plan: CorePlan
    made: Emitted
    program: list[Instruction]
    static_words: int


class ChipPrograms(NamedTuple):
    """Programs of all cores. host_words : streamed weights, shape (rows, columns) each"""

    cores: dict[Place, CoreProgram]
    host_words: list[NDArray[np.int64]]


def chip_programs(
    plan: ChipPlan, shape: NpuShape, choices: Choices, rule: WeightRule, log: CompileLog
) -> ChipPrograms:
    """Generate the programs of all cores.

    Raises `DoesNotFitError` that names the core, the memory and the layer.
    """
    words: list[NDArray[np.int64]] = []
    unlinked: dict[Place, tuple[Emitted, int]] = {}
    for place, one in plan.cores.items():
        try:
            weights = plan_weights(one.macros, shape, rule)
            memory = MemoryPlan(weights, stop=one.used, host_first=len(words), targets=one.targets)
            preset = Preset.filled(one.filled, shape.columns)
            core = CoreTarget(shape, one.regions, memory, one.links, place, preset)
            made = emitted(one.macros, [(0, len(one.macros))], core, choices, log)
        except DoesNotFitError as error:
            raise DoesNotFitError(f"core ({place[0]}, {place[1]}): {error}") from error
        words += made.emitter.streams.words
        unlinked[place] = made, weights.static
    steps = [made.emitter.steps for made, _ in unlinked.values()]
    all_ = list(zip(steps, [plan.cores[place].links for place in unlinked], strict=True))
    others = {
        place: Others(sent_to(place, steps) | one.links.comes, freed_for(place, all_))
        for place, one in plan.cores.items()
    }
    cores = {}
    for place, (made, static) in unlinked.items():
        whole, plan.cores[place].links = made.linked(plan.cores[place].links, others[place])
        program = whole.program([(0, len(whole.emitter.steps))])
        require_instructions(program, whole.emitter.steps, plan.cores[place].macros, shape)
        cores[place] = CoreProgram(plan.cores[place], whole, program, static)
    return ChipPrograms(cores, words)
