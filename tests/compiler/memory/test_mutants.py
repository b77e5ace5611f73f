"""R7.9: mutated programs: the share with changed results that the checker detects."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from chipsim.errors import ChipError
from hw.errors import HwError
from hw.npu.isa.encoding import decode_micro_ops, encode_micro_ops
from hw.npu.isa.table import INSTRUCTION_BYTES, MICRO_OP, Field, MicroOp, decode, encode, form_of
from mapper.compiler.artifacts.checks.small import SmallMemories
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.ir.node import Activation, Pool, Window
from mapper.compiler.program.image import Image
from mapper.errors import CheckFailedError, MapperError
from tests.compiler.networks import Builder, residual
from tests.compiler.programs import SHAPE, SMALL, WIDE, Made, check_image, compiled

pytestmark = pytest.mark.jit

MUTANTS = 150
FOUND = 0.71
"""Least share that is detected: it may only grow."""
NUMBERS = {"value", "imm", "round", "up"}
"""Fields that select the computation, and affect no address."""


class Mutant(NamedTuple):
    """what : the field, with its instruction"""

    what: str
    image: Image


def another(field: Field, value: int, random: np.random.Generator) -> int:
    """Return a value one higher or lower, or any other value that fits the field."""
    choices = [value - 1, value + 1, int(random.integers(field.least, field.most + 1))]
    choices = [one for one in choices if field.least <= one <= field.most and one != value]
    return choices[int(random.integers(len(choices)))]


def mutant(image: Image, random: np.random.Generator) -> Mutant:
    """Change a field of an instruction, or in one of four cases of a micro-op."""
    if not random.integers(4):
        ops = decode_micro_ops(image.micro_ops, "mutant")
        at, column = int(random.integers(len(ops))), int(random.integers(len(MICRO_OP)))
        ops[at, column] = another(MICRO_OP[column], int(ops[at, column]), random)
        data = encode_micro_ops([MicroOp(*map(int, row)) for row in ops])
        return Mutant(f"UOP.{MICRO_OP[column].name}", image._replace(micro_ops=data))
    count = len(image.instructions) // INSTRUCTION_BYTES
    first = int(random.integers(count)) * INSTRUCTION_BYTES
    one = decode(image.instructions[first : first + INSTRUCTION_BYTES], "mutant")
    form = form_of(one.op, one.kind)
    fields = [field for field in form.fields if field.name not in NUMBERS]
    field = fields[int(random.integers(len(fields)))]
    value = another(field, one.fields.get(field.name, 0), random)
    changed = encode(one._replace(fields={**one.fields, field.name: value}))
    data = image.instructions[:first] + changed + image.instructions[first + INSTRUCTION_BYTES :]
    return Mutant(f"{one.op}.{one.kind}.{field.name}", image._replace(instructions=data))


def results(made: Made, samples: np.ndarray) -> list[bytes] | None:
    """Return the results of a program; None if it does not run."""
    try:
        found = simulate(made.folder, samples, threads=1, check=False)
    except (ChipError, HwError, MapperError):
        return None
    return [one.tobytes() for one in found.stored.values()]


def found(made: Made) -> bool:
    """Return whether the checker rejects a program."""
    try:
        verify_compiled(made.folder)
    except (CheckFailedError, HwError):
        return True
    return False


def networks() -> list[tuple[Builder, Made]]:
    pooled = Builder(10, 9, 16, 2)
    data = pooled.relu(pooled.conv(pooled.input, 32))
    data = pooled.pool(data, Pool("max", Window((2, 2), (2, 2))))
    pooled.end(pooled.conv(data, 20))
    summed = residual(3, channels=20)
    return [
        (pooled, compiled(pooled, replace(SHAPE, name="roomy"))),
        (summed, compiled(summed, replace(SMALL, name="narrow"))),
    ]


def survivors() -> tuple[Counter[str], Counter[str]]:
    """Return, by field, the mutants with changed results, and those of them that are not
    detected."""
    wrong: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    random = np.random.default_rng(11)
    for build, made in networks():
        assert not found(made)
        samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(2)))
        wanted = results(made, samples)
        ((place, image),) = made.folder.images.items()
        for _ in range(MUTANTS):
            one = mutant(image, random)
            other = made._replace(folder=made.folder._replace(images={place: one.image}))
            if results(other, samples) == wanted:
                continue
            wrong[one.what] += 1
            missed[one.what] += not found(other)
    return wrong, missed


@pytest.mark.heavy
def test_mutants() -> None:
    wrong, missed = survivors()
    assert wrong.total() > MUTANTS
    left = {what: f"{count} of {wrong[what]}" for what, count in missed.items() if count}
    assert missed.total() <= (1 - FOUND) * wrong.total(), left
    assert not any(what.startswith("STORE") for what in left), left


def test_records_with_leaky_words_are_counted_whole() -> None:
    """The flags of a record give the words per block: the last word is missing here."""
    build = Builder(6, 6, 3)
    build.end(build.like(Activation(slope=0.1), build.conv(build.input, 20)))
    made = compiled(build, SHAPE)
    (image,) = made.folder.images.values()
    (leaky,) = {
        (one.fields["rec"], one.fields["n_out"])
        for one in made.compiled.code.program
        if one.kind == "LEAKY"
    }
    words = SmallMemories(image, SHAPE, "program").record_words(*leaky)
    assert words == 1 + 2 * leaky[1]
    assert leaky[0] + words == len(image.parameters)
    assert not found(made)
    short = image._replace(parameters=image.parameters[:-1])
    with pytest.raises(CheckFailedError, match=rf"reads PM\[{len(short.parameters)}\], which"):
        check_image(short, SHAPE, [np.arange(SHAPE.map_vectors)], "program")


def test_words_of_wide_arrays_and_of_pairs_are_counted_whole() -> None:
    """A number for each of 32 rows takes two parameter words; thresholds take two numbers'
    words."""
    image = Image({}, b"", b"", np.zeros((0, 32, 32), np.int8), np.zeros((9, 16), np.int32), b"",
                  np.zeros((0, 32), np.uint8))  # fmt: skip
    image.parameters[4, 5] = 3  # offsets and leaky scales
    small = SmallMemories(image, replace(WIDE, parameter_words=16), "program")
    assert small.each == 2
    assert small.record_words(0, 3) == 1 + 3 * 2
    assert small.record_words(4, 3) == 1 + 3 * 3 * 2
    assert small.threshold_words(3) == 1 + 3 * 2 * 2
