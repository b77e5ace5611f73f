"""Random instructions and micro-ops, including every value of every field."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hw.npu.isa.table import FORMS, MICRO_OP, Field, Instruction, MicroOp


def random_value(field: Field, random: Random) -> int:
    """Return a value of a field, preferring the ends of its range."""
    return random.choice((0, field.least, field.most, random.randint(field.least, field.most)))


def random_values(fields: Sequence[Field], random: Random) -> dict[str, int]:
    return {field.name: random_value(field, random) for field in fields}


def random_instruction(random: Random) -> Instruction:
    """Return an instruction with all its fields, as the decoder returns them."""
    form = random.choice(FORMS)
    return Instruction(
        form.op,
        random.choice(list(form.kinds)),
        random.randrange(16),
        random.randrange(16),
        random_values(form.fields, random),
    )


def random_micro_op(random: Random) -> MicroOp:
    return MicroOp(**random_values(MICRO_OP, random))
