"""A macro record: 64 bytes, little-endian, one per operator that a core computes.

Encoder, decoder, listing and documentation are all based on the table below. A number that does not
fit its field is written as the field's `without_room` value and stored among the record's words in
the pool. The address of feature maps that stay in the accumulators is NOWHERE.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from mapper.errors import MapperError

OPS = ("REMAP", "CONV", "MAXP", "AVGP", "ADD", "FC", "UP", "COPY", "MUL")
FLAGS = (
    "relu", "leaky", "binary_in", "sign_out", "dynamic_weights", "pooled", "added", "wide",
)  # fmt: skip
"""Flags in the order of bits 0 to 7; wide : 16 bit."""
NOWHERE = 0xFFFFFFFF


class Field(NamedTuple):
    """form : `struct` format: B, H and I are unsigned with 8, 16 and 32 bits; h is signed, 16"""

    name: str
    form: str

    @property
    def bits(self) -> int:
        return 8 * struct.calcsize(self.form)

    @property
    def signed(self) -> bool:
        return self.form.islower()

    @property
    def without_room(self) -> int:
        """Marker for a number stored elsewhere: all ones, or the smallest signed number."""
        return -(1 << (self.bits - 1)) if self.signed else (1 << self.bits) - 1

    @property
    def has_room(self) -> range:
        """Numbers that can be stored in the field."""
        if self.signed:
            return range(self.without_room + 1, -self.without_room)
        return range(self.without_room)


def _fields(form: str, names: str) -> tuple[Field, ...]:
    return tuple(Field(name, form) for name in names.split())


LAYOUT: tuple[Field, ...] = (
    *_fields("B", "op flags x y"),
    *_fields("I", "input second_input output second_output"),
    *_fields("H", "height width input_channels output_channels"),
    *_fields("B", "kernel_height kernel_width stride_height stride_width"),
    *_fields("B", "pad_top pad_bottom pad_left pad_right"),
    *_fields("B", "pool pool_stride dilation_height dilation_width"),
    *_fields("H", "input_stride output_stride"),
    *_fields("h", "input_zero output_zero"),
    *_fields("I", "weights"),
    *_fields("H", "weight_words record bias first_header headers layer"),
)
NUMBERS = {field.name: number for number, field in enumerate(LAYOUT)}
EXACT = frozenset(("op", "flags", "x", "y", "record", "bias", "layer"))
"""Fields that must hold their value: they are needed to find the record's words in the pool."""
BEHIND = 0xFFFF
"""Value of `record` and `bias` for "after the previous words"; otherwise an index in the pool."""
_RECORD = struct.Struct("<" + "".join(field.form for field in LAYOUT))
RECORD_BYTES = _RECORD.size
assert RECORD_BYTES == 64

Values = Mapping[str, int]
"""Numbers by field name; missing fields are 0."""


def encode_record(values: Values, label: str) -> tuple[bytes, list[tuple[int, int]]]:
    """Return a record, and index and value of each field whose number does not fit.

    label : name of the layer; raises `MapperError` that names a field
    """
    unknown = set(values) - set(NUMBERS)
    assert not unknown, unknown
    numbers, longer = [], []
    for number, field in enumerate(LAYOUT):
        value = int(values.get(field.name, 0))
        if field.name in EXACT:
            if not 0 <= value <= field.without_room:
                raise MapperError(
                    f"{label}: {field.name} of its macro record is {value:,}; allowed: 0 to "
                    f"{field.without_room:,}"
                )
        elif value not in field.has_room and not (field.form == "I" and value == NOWHERE):
            longer.append((number, value))
            value = field.without_room
        numbers.append(value)
    return _RECORD.pack(*numbers), longer


def decode_record(data: bytes, where: str) -> dict[str, int]:
    """Return the raw fields of a record; where : name of the record for errors."""
    values = dict(zip(NUMBERS, _RECORD.unpack(data), strict=True))
    if values["op"] >= len(OPS):
        raise MapperError(
            f"{where}: unknown opcode {values['op']} (0 to {len(OPS) - 1}); compile the model again"
        )
    return values


def flags_of(names: Mapping[str, bool]) -> int:
    """Return flags as a byte."""
    return sum(1 << FLAGS.index(name) for name, yes in names.items() if yes)
