"""Random programs with tokens, for the core in Amaranth and the cycle simulator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.npu.records import FIELDS, KINDS, Op, Program
from hw.npu.isa.table import UNITS, Instruction, form_of
from mapper.compiler.codegen.program import memory_sizes
from mapper.compiler.program.steps import Step, Touch, with_tokens
from tests.chipsim.npu.programs import Case, program_of
from tests.reference.npu import Cells

NPU, DUAL = NPU_SHAPES["npu"], NPU_SHAPES["npu-dual"]
SMALL: dict[str, Any] = {
    "map_vectors": 128, "input_vectors": 64, "weight_words": 20, "entries": 64,
    "parameter_words": 32, "micro_ops": 64, "instructions": 64, "headers": 16,
}  # fmt: skip
SHAPES: dict[str, NpuShape] = {
    "tiny": replace(NPU_SHAPES["tiny"], **SMALL),
    "4x4": replace(NPU_SHAPES["tiny"], weight_port="row", multiply_lanes=2, load_bits=32, **SMALL),
    "4x4-dual": replace(NPU_SHAPES["tiny"], multiplier="dual", binary=False, **SMALL),
    "8x8": replace(NPU, name="8x8", rows=8, columns=8, multiply_lanes=4, load_bits=256, **SMALL),
    "8x8-dual": replace(
        DUAL, name="8x8", rows=8, columns=8, multiply_lanes=8, load_bits=128, weight_port="row",
        **SMALL,
    ),
    "16x16": replace(NPU, name="16x16", **SMALL),
    "16x16-dual": replace(DUAL, name="16x16", **SMALL),
}  # fmt: skip
"""Arrays of three sizes, ports of both kinds, loads of one to four vectors, one to four phases
of the ALU."""
MEMORIES = {
    "maps": "FM", "inputs": "INP", "sums": "ACC", "results": "OUT", "weights": "WM",
    "parameters": "PM", "micro_ops": "UM", "headers": "HM",
}  # fmt: skip
END = Instruction("CTRL", "END", 0, 0, {"queue": UNITS.index("STORE"), "drain": 1})


class Traced(Cells):
    """A memory that records reads and writes."""

    def __init__(self, values: Iterable[Any]) -> None:
        super().__init__(values)
        self.read: set[int] = set()
        self.written: set[int] = set()

    def __getitem__(self, at: Any) -> Any:
        self.read.add(at)
        return super().__getitem__(at)

    def __setitem__(self, at: Any, value: Any) -> None:
        self.written.add(at)
        super().__setitem__(at, value)


def unit_of(instruction: Instruction) -> int:
    if instruction.op == "CTRL":
        return int(instruction.fields.get("queue", 0))
    return UNITS.index({"RQ": "ALU"}.get(instruction.op, instruction.op))


def with_products(case: Case, seed: int) -> Case:
    """Let all products wait for weights of the host, in the upper half of the memory.

    After each request one product uses all words up to the last one, before the next request.
    """
    half, last = case.shape.weight_words // 2, case.shape.micro_ops - 1
    case.table["micro_ops"][last] = [seed % 8, seed % 5, half, seed % 4, 0, 0]
    steps: list[Any] = [("CTRL", "BASE", {"queue": seed % 4, "space": 2, "value": half})]
    for op, kind, fields in case.steps:
        steps.append((op, kind, {**fields, "dyn": 1} if op == "GEMM" else fields))
        if kind == "WSTREAM" and fields["words"]:
            words = fields["dst"] + fields["words"] - half
            products = {"uop": last, "uops": 1, "n_out": words, "n_in": 1, "wgt_out": 1, "dyn": 1}
            steps.append(("GEMM", "INT8", products))
    return replace(case, steps=steps)


def one_by_one(case: Case) -> list[Instruction]:
    """Return the instructions of a case, each waiting for the previous one."""
    found = [Instruction(op, kind, 0, 0, fields) for op, kind, fields in case.steps]
    found.append(END)
    units = [unit_of(each) for each in found]
    before, behind = [units[0], *units], [*units[1:], units[-1]]
    return [
        each._replace(wait=(last != unit) << last, signal=(after != unit) << after)
        for each, last, unit, after in zip(found, before, units, behind, strict=False)
    ]


def side_by_side(case: Case, odd: bool) -> list[Instruction]:
    """Return the instructions of a case, each waiting only for its dependencies."""
    twin = case.twin()
    twin.odd = odd
    for name in MEMORIES:
        setattr(twin, name, Traced(getattr(twin, name)))
    steps = []
    for op, kind, fields in case.steps:
        memories = {name: getattr(twin, name) for name in MEMORIES}
        for memory in memories.values():
            memory.read, memory.written = set(), set()
        twin.step(op, kind, lambda name, fields=fields: fields.get(name, 0))
        instruction = Instruction(op, kind, 0, 0, fields)
        if op == "GEMM" or kind in ("BASE", "WSTREAM"):  # the pointer of received words
            dynamic = range(case.shape.weight_words // 2, case.shape.weight_words)
            (twin.weights.read if op == "GEMM" else twin.weights.written).update(dynamic)
        steps.append(
            Step(
                UNITS[unit_of(instruction)], instruction, 0,
                [_touch(name, memory.read) for name, memory in memories.items()],
                [_touch(name, memory.written) for name, memory in memories.items()],
            )
        )  # fmt: skip
    return [*with_tokens(steps, memory_sizes(case.shape, case.shape.map_vectors)), END]


def _touch(name: str, places: set[int]) -> Touch:
    return Touch(MEMORIES[name], np.array(sorted(places), np.int64))


def instructions_of(program: Program) -> list[Instruction]:
    found = []
    for at, (op, kind) in enumerate(zip(program.op.tolist(), program.kind.tolist(), strict=True)):
        form = form_of(Op(op).name, KINDS[Op(op)][kind])
        own = {field.name for field in form.fields}
        values = zip(FIELDS[op, kind], program.fields[at].tolist(), strict=False)
        fields = {name: value for name, value in values if name in own}
        wait, signal = int(program.wait[at]), int(program.signal[at])
        found.append(Instruction(Op(op).name, KINDS[Op(op)][kind], wait, signal, fields))
    return found


def simulated(case: Case, instructions: Sequence[Instruction]) -> Program:
    """Return the program for the simulators."""
    steps = [(each.op, each.kind, each.fields) for each in instructions]
    found = program_of(steps, **case.table, rows=case.shape.rows)
    wait, signal = (
        np.array([getattr(each, name) for each in instructions], np.uint8)
        for name in ("wait", "signal")
    )
    return found._replace(wait=wait, signal=signal)
