"""A tiled layer as instructions of a core with external memory, for the cycle simulator."""

from __future__ import annotations

import numpy as np

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.cycles import Timed, Timeline, run_queues
from chipsim.npu.timing import LATENCY, matrix_cycles
from hw.npu.isa import UNITS, Instruction
from mapper.compiler.codegen.steps import Step, Touch, with_tokens
from mapper.compiler.schedule.steps import steps_of
from mapper.compiler.schedule.traffic import Layer, Tiling

HALVES = {"INP": 2, "WM": 2, "ACC": 2, "OUT": 2}


def simulated(layer: Layer, tiling: Tiling, shape: NpuShape) -> Timeline:
    """When the instructions of a layer work: loads, products, requantisation and stores, tile by
    tile, with tokens between the units and halves of the buffers in turn."""
    program: list[Step] = []
    timed: list[Timed] = []
    turns = dict.fromkeys(HALVES, 1)
    steps = steps_of(layer, tiling, shape)

    def half(name: str, turn: bool = False) -> Touch:
        turns[name] ^= turn
        return Touch(name, np.array([turns[name]]))

    def add(unit: str, cycles: int, moved: int, reads: list[Touch], writes: list[Touch]) -> None:
        program.append(Step(unit, Instruction(unit, ""), 0, reads=reads, writes=writes))
        timed.append(Timed(UNITS.index(unit), 0, 0, cycles, moved))

    for at in range(steps.load.size):
        _, ow, oh, ic, oc = (int(size) for size in steps.sizes[:, at])
        inputs, words, sums = (
            int(bits[at]) for bits in (steps.input, steps.weights, steps.partial)
        )
        if inputs:
            cycles = LATENCY.load + -(-inputs // shape.load_bits)
            add("LOAD", cycles, inputs, [], [half("INP", turn=True)])
        if words:
            add("LOAD", LATENCY.stream, words, [], [half("WM", turn=True)])
        entries = half("ACC", turn=bool(steps.fresh[at]))
        if sums:
            add("LOAD", LATENCY.load + -(-sums // shape.load_bits), sums, [], [entries])
        fields = {"n_out": min(ow, oh), "n_in": max(ow, oh), "wgt_out": 0, "wgt_in": 0}
        calls = ic * oc * layer.kernel[0] * layer.kernel[1] * int(steps.sizes[0, at])
        add(
            "GEMM", LATENCY.matrix + calls * matrix_cycles(fields, shape), 0,
            [half("INP"), half("WM")], [entries],
        )  # fmt: skip
        if stored := int(steps.store[at]):
            source = entries
            if steps.whole[at]:
                source = half("OUT", turn=True)
                add("ALU", LATENCY.requantise + int(steps.alu[at]), 0, [entries], [entries, source])
            add("STORE", LATENCY.store + -(-stored // shape.load_bits), stored, [source], [])
    tokens = with_tokens(program, HALVES)
    return run_queues(
        [one._replace(wait=t.wait, signal=t.signal) for one, t in zip(timed, tokens, strict=True)],
        shape,
    )
