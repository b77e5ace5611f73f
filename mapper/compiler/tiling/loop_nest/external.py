"""Tiled layers as instructions of a core with external memory, for cycle simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.cycles import Timed, Timeline, run_queues
from chipsim.npu.timing import matrix_cycles
from hw.npu.isa.table import UNITS, Instruction
from mapper.compiler.program.steps import Step, Touch, with_tokens
from mapper.compiler.tiling.loop_nest.steps import steps_of
from mapper.compiler.tiling.loop_nest.traffic import LoopNest, Tiling

HALVES = {"INP": 2, "WM": 2, "ACC": 2, "OUT": 2}


def simulated(layers: Sequence[tuple[LoopNest, Tiling]], shape: NpuShape) -> Timeline:
    """Return the timeline of consecutive layers: loads, products, requantisation and stores, tile
    by tile, with tokens between the units and double-buffered memories. The input of a layer waits
    for all results of the previous one; its weights wait for a free buffer only.
    """
    program: list[Step] = []
    timed: list[Timed] = []
    turns = dict.fromkeys(HALVES, 1)

    def half(name: str, turn: bool = False) -> Touch:
        turns[name] ^= turn
        return Touch(name, np.array([turns[name]]))

    def add(unit: str, cycles: int, moved: int, reads: list[Touch], writes: list[Touch]) -> None:
        program.append(Step(unit, Instruction(unit, ""), 0, reads=reads, writes=writes))
        timed.append(Timed(UNITS.index(unit), 0, 0, cycles, moved))

    for number, (layer, tiling) in enumerate(layers):
        taken, made = (Touch("FM", np.array([number + more])) for more in (0, 1))
        steps = steps_of(layer, tiling, shape)
        both = steps.input.max() > shape.input_vectors // 2 * layer.input_bits

        def inputs_of(turn: bool = False, both: bool = bool(both)) -> Touch:
            return Touch("INP", np.arange(2)) if both else half("INP", turn)

        for at in range(steps.load.size):
            _, ow, oh, ic, oc = (int(size) for size in steps.sizes[:, at])
            inputs, words, sums = (
                int(bits[at]) for bits in (steps.input, steps.weights, steps.partial)
            )
            if words:
                add("LOAD", shape.latency.stream, words, [], [half("WM", turn=True)])
            if inputs:
                cycles = shape.latency.load + -(-inputs // shape.load_bits)
                add("LOAD", cycles, inputs, [taken], [inputs_of(turn=True)])
            entries = half("ACC", turn=bool(steps.fresh[at]))
            if sums:
                add("LOAD", shape.latency.load + -(-sums // shape.load_bits), sums, [], [entries])
            fields = {"n_out": min(ow, oh), "n_in": max(ow, oh), "wgt_out": 0, "wgt_in": 0}
            calls = ic * oc * layer.kernel[0] * layer.kernel[1] * int(steps.sizes[0, at])
            add(
                "GEMM", shape.latency.matrix + calls * matrix_cycles(fields, shape), 0,
                [inputs_of(), half("WM")], [entries],
            )  # fmt: skip
            if stored := int(steps.store[at]):
                source = entries
                if steps.whole[at]:
                    source = half("OUT", turn=True)
                    cycles = shape.latency.requantise + int(steps.alu[at])
                    add("ALU", cycles, 0, [entries], [entries, source])
                cycles = shape.latency.store + -(-stored // shape.load_bits)
                add("STORE", cycles, stored, [source], [made])
    tokens = with_tokens(program, HALVES | {"FM": len(layers) + 1})
    return run_queues(
        [one._replace(wait=t.wait, signal=t.signal) for one, t in zip(timed, tokens, strict=True)],
        shape,
    )
