"""Whole programs: bits, text and arrays agree."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from hw.npu.isa.assembly import assemble, disassemble
from hw.npu.isa.encoding import (
    decode,
    decode_micro_op,
    decode_micro_ops,
    decode_program,
    encode_micro_ops,
    encode_program,
)
from hw.npu.isa.table import FORMS, MICRO_OP, MOST_FIELDS, OPS, Instruction, MicroOp, form_of
from tests.hw.npu.random_programs import random_instruction, random_micro_op

MANY = 20_000


@pytest.fixture(scope="module")
def instructions() -> list[Instruction]:
    random = Random(1)
    return [random_instruction(random) for _ in range(MANY)]


@pytest.fixture(scope="module")
def micro_ops() -> list[MicroOp]:
    random = Random(2)
    return [random_micro_op(random) for _ in range(MANY)]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_random_instructions_come_back_from_bits(instructions: list[Instruction]) -> None:
    data = encode_program(instructions)
    found = [decode(data[at : at + 16], "f") for at in range(0, len(data), 16)]
    assert found == instructions
    assert encode_program(found) == data
    assert {(each.op, each.kind) for each in found} == {
        (form.op, kind) for form in FORMS for kind in form.kinds
    }


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_random_programs_come_back_from_text(
    instructions: list[Instruction], micro_ops: list[MicroOp]
) -> None:
    text = disassemble(instructions, micro_ops)
    program = assemble(text, "f")
    assert program.instructions == instructions
    assert program.micro_ops == micro_ops
    assert disassemble(*program) == text


def test_random_micro_ops_come_back_from_bits(micro_ops: list[MicroOp]) -> None:
    data = encode_micro_ops(micro_ops)
    found = [decode_micro_op(data[at : at + 8], "f") for at in range(0, len(data), 8)]
    assert found == micro_ops
    arrays = decode_micro_ops(data, "f")
    assert arrays.dtype == np.int32
    assert arrays.shape == (MANY, len(MICRO_OP))
    assert [tuple(row) for row in arrays.tolist()] == micro_ops


def test_array_and_single_decoders_agree(instructions: list[Instruction]) -> None:
    decoded = decode_program(encode_program(instructions), "f")
    for array in decoded[:4]:
        assert array.dtype == np.uint8 and array.shape == (MANY,)
    assert decoded.fields.dtype == np.int64 and decoded.fields.shape == (MANY, MOST_FIELDS)
    for each, op, kind, wait, signal, fields in zip(
        instructions, *(array.tolist() for array in decoded), strict=True
    ):
        form = form_of(each.op, each.kind)
        assert (op, kind) == (OPS[each.op], form.kinds[each.kind][0])
        assert (wait, signal) == (each.wait, each.signal)
        values = list(each.fields.values())
        assert fields == values + [0] * (MOST_FIELDS - len(values))


def test_empty_programs() -> None:
    assert encode_program([]) == encode_micro_ops([]) == b""
    assert decode_program(b"", "f").fields.shape == (0, MOST_FIELDS)
    assert decode_micro_ops(b"", "f").shape == (0, len(MICRO_OP))
    assert disassemble([]) == ""
    assert assemble("\n# nothing\n", "f") == ([], [])
