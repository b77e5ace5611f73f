"""A macro record: 64 bytes, little-endian, one for each operator that a core computes.

The table below is all there is to it: encoder, decoder, listing and documentation read it. A number
without room in its field is written as `without_room` of the field, and kept among the words of
the record in the pool; an address of maps that stay in the accumulators is NOWHERE.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from mapper.errors import MapperError

OPS = ("REMAP", "CONV", "MAXP", "AVGP", "ADD", "FC", "UP", "COPY")
FLAGS = (
    "relu", "leaky", "binary_in", "sign_out", "dynamic_weights", "pooled", "added", "wide",
)  # fmt: skip
"""From bit 0 on; wide : 16 bit."""
NOWHERE = 0xFFFFFFFF


class Field(NamedTuple):
    """form : of `struct`: B and H and I without a sign, of 8, 16 and 32 bits; h of 16 with one"""

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
        """What says that the number is elsewhere: all ones, or the least one."""
        return -(1 << (self.bits - 1)) if self.signed else (1 << self.bits) - 1

    @property
    def has_room(self) -> range:
        """The numbers that it can say."""
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
"""Fields that are never without room: what they say is needed to find the pool's words."""
BEHIND = 0xFFFF
"""As `record` and `bias`: behind what the pool has before. These are places in the pool."""
_RECORD = struct.Struct("<" + "".join(field.form for field in LAYOUT))
RECORD_BYTES = _RECORD.size
assert RECORD_BYTES == 64

Values = Mapping[str, int]
"""Numbers by the names of fields; those that are missing are 0."""


def encode_record(values: Values, label: str) -> tuple[bytes, list[tuple[int, int]]]:
    """A record, and numbers and values of the fields that have no room for theirs.

    label : of the layer; raises `MapperError` that names a field
    """
    unknown = set(values) - set(NUMBERS)
    assert not unknown, unknown
    numbers, longer = [], []
    for number, field in enumerate(LAYOUT):
        value = int(values.get(field.name, 0))
        if field.name in EXACT:
            if not 0 <= value <= field.without_room:
                raise MapperError(
                    f"{label}: {field.name} of its macro record is {value:,}; it has room for 0 to "
                    f"{field.without_room:,}"
                )
        elif value not in field.has_room and not (field.form == "I" and value == NOWHERE):
            longer.append((number, value))
            value = field.without_room
        numbers.append(value)
    return _RECORD.pack(*numbers), longer


def decode_record(data: bytes, where: str) -> dict[str, int]:
    """The fields of a record as they are; where : the record, for errors."""
    values = dict(zip(NUMBERS, _RECORD.unpack(data), strict=True))
    if values["op"] >= len(OPS):
        raise MapperError(
            f"{where}: op {values['op']} is none of a macro record (0 to {len(OPS) - 1}); compile "
            "the model again"
        )
    return values


def flags_of(names: Mapping[str, bool]) -> int:
    """The byte of some flags."""
    return sum(1 << FLAGS.index(name) for name, yes in names.items() if yes)
