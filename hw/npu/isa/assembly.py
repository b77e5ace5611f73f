"""Assembler and disassembler of programs as text; each is the inverse of the other.

One instruction per line, such as `GEMM.INT8 wait=LOAD,ALU signal=ALU uops=9 n_out=16 init=bias`; a
missing field is 0. Micro-ops follow a line `.micro_ops`, such as `UOP acc=0 inp=4 wgt=1 init=1`.
`#` starts a comment. docs/reference/isa.md lists the instructions and their fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from hw.errors import HwError
from hw.npu.isa.encoding import check_value
from hw.npu.isa.table import HEAD, MICRO_OP, UNITS, Field, Instruction, MicroOp, form_of

SECTIONS = (".instructions", ".micro_ops")
_MICRO_OP_WORD = "UOP"
_MASKS = tuple(field for field in HEAD if field.name in ("wait", "signal"))
_NUMBER = re.compile(r"-?(0x[0-9a-f]+|[0-9]+)", re.IGNORECASE | re.ASCII)
_DIGITS = 40  # maximum digits of a number; no field can hold half of them


class Program(NamedTuple):
    """Instructions and micro-ops of a program."""

    instructions: list[Instruction]
    micro_ops: list[MicroOp]


def assemble(text: str, where: str) -> Program:
    """Return the program in ``text``, its instructions with all their fields.

    where : file name for errors, which add the line
    """
    program = Program([], [])
    section = SECTIONS[0]
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        at = f"{where}: line {number}"
        if words[0].startswith("."):
            if len(words) > 1 or words[0] not in SECTIONS:
                raise HwError(
                    f"{at}: unknown section {' '.join(words)}; sections are {', '.join(SECTIONS)}"
                )
            section = words[0]
        elif section == SECTIONS[0]:
            program.instructions.append(_instruction(words, at))
        else:
            program.micro_ops.append(_micro_op(words, at))
    return program


def disassemble(instructions: Sequence[Instruction], micro_ops: Sequence[MicroOp] = ()) -> str:
    """Return the text of a program; fields that are 0 are omitted."""
    lines = [instruction_text(each) for each in instructions]
    if micro_ops:
        lines.append(SECTIONS[1])
        lines += [
            " ".join([_MICRO_OP_WORD, *_spelled(MICRO_OP, each._asdict())]) for each in micro_ops
        ]
    return "".join(f"{line}\n" for line in lines)


def instruction_text(instruction: Instruction) -> str:
    """Return the line of an instruction."""
    op, kind, wait, signal, fields = instruction
    masks = [
        f"{field.name}={','.join(unit for bit, unit in enumerate(UNITS) if mask >> bit & 1)}"
        for field, mask in zip(_MASKS, (wait, signal), strict=True)
        if mask
    ]
    return " ".join([f"{op}.{kind}", *masks, *_spelled(form_of(op, kind).fields, fields)])


def _spelled(fields: Sequence[Field], values: Mapping[str, int]) -> Iterator[str]:
    for field in fields:
        if value := values.get(field.name, 0):
            yield f"{field.name}={field.values[value] if field.values else value}"


def _instruction(words: list[str], where: str) -> Instruction:
    op, _, kind = words[0].partition(".")
    try:
        form = form_of(op, kind)
    except HwError as error:
        raise HwError(f"{where}: {error}") from None
    values = _values((*_MASKS, *form.fields), words[1:], f"{where}: {words[0]}")
    return Instruction(op, kind, values.pop("wait"), values.pop("signal"), values)


def _micro_op(words: list[str], where: str) -> MicroOp:
    if words[0] != _MICRO_OP_WORD:
        raise HwError(f"{where}: {words[0]!r}; lines of {SECTIONS[1]} start with {_MICRO_OP_WORD}")
    return MicroOp(**_values(MICRO_OP, words[1:], f"{where}: {_MICRO_OP_WORD}"))


def _values(fields: Sequence[Field], words: list[str], where: str) -> dict[str, int]:
    """Return all fields, in their order, from words such as `n_out=16`."""
    known = {field.name: field for field in fields}
    given: dict[str, int] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise HwError(f"{where}: {word!r}; write FIELD=VALUE")
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"fields are {', '.join(known)}"
            raise HwError(f"{where}: unknown field {name!r}; {hint}")
        if name in given:
            raise HwError(f"{where}: {name} is given twice")
        given[name] = _value(known[name], text, where)
    return {name: given.get(name, 0) for name in known}


def _value(field: Field, text: str, where: str) -> int:
    if field in _MASKS:
        units = text.split(",")
        if set(units) - set(UNITS) or len(set(units)) < len(units):
            raise HwError(
                f"{where}: {field.name} is {text!r}; give one or more of {','.join(UNITS)}"
            )
        return sum(1 << UNITS.index(unit) for unit in units)
    if text in field.values:
        return field.values.index(text)
    if len(text) > _DIGITS or not _NUMBER.fullmatch(text):
        return check_value(field, text, where)  # raises the error
    return check_value(field, int(text, 0) if "x" in text.lower() else int(text), where)
