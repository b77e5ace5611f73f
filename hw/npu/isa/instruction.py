"""Fields of an instruction as hardware values, from the instruction table."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.npu.isa.table import FORMS, HEAD, INSTRUCTION_BYTES, MICRO_OP, OPS, Field

WORD_BITS = 8 * INSTRUCTION_BYTES
MICRO_OP_BITS = 1 + max(field.high for field in MICRO_OP)


def unit_ports() -> dict[str, wiring.Member]:
    """Return the ports of a unit: an instruction, its start and its end."""
    return {"word": In(WORD_BITS), "starts": In(1), "ends": Out(1)}


def started_word(m: Module, unit: Any) -> Signal:
    """Return a register with the instruction that a unit started last, from the next cycle on."""
    word = Signal(WORD_BITS)
    with m.If(unit.starts):
        m.d.sync += word.eq(unit.word)
    return word


class Word:
    """Fields of a word by name: `word.n_out`."""

    def __init__(self, bits: Value, fields: tuple[Field, ...]) -> None:
        self._bits, self._fields = bits, {field.name: field for field in fields}

    def __getattr__(self, name: str) -> Any:
        field = self._fields[name]
        value = self._bits[field.low : field.high + 1]
        return value.as_signed() if field.signed else value


def head_of(bits: Value) -> Word:
    """Return the fields op, wait, signal and kind."""
    return Word(bits, HEAD)


def fields_of(bits: Value, op: str, kind: str) -> Word:
    """Return the fields of an instruction of a kind."""
    form = next(form for form in FORMS if form.op == op and kind in form.kinds)
    return Word(bits, (*HEAD, *form.fields))


def micro_op_of(bits: Value) -> Word:
    return Word(bits, MICRO_OP)


def is_op(bits: Value, op: str) -> Value:
    return head_of(bits).op == OPS[op]


def is_kind(bits: Value, op: str, *kinds: str) -> Value:
    """Return whether a word is an instruction of one of the kinds."""
    found = Value.cast(0)
    for form in FORMS:
        for kind in kinds:
            if form.op == op and kind in form.kinds:
                found = found | (head_of(bits).kind == form.kinds[kind][0])
    return is_op(bits, op) & found
