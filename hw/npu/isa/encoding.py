"""Encode instructions and micro-ops to bytes; decode bytes one by one, or to arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

from hw.errors import HwError
from hw.npu.isa.table import (
    FORMS,
    HEAD,
    INSTRUCTION_BYTES,
    MICRO_OP,
    MICRO_OP_BYTES,
    MOST_FIELDS,
    OPS,
    SCALE,
    Field,
    Instruction,
    MicroOp,
    form_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

T = TypeVar("T")

_BY_CODE = {
    (OPS[form.op], code): (form, kind)
    for form in FORMS
    for kind, (code, _) in form.kinds.items()
}  # fmt: skip


class Decoded(NamedTuple):
    """A program as arrays of n rows.

    op, kind, wait, signal : codes and masks, ndarray[uint8], shape (n,)
    fields : values in the order of the form's fields, then zeros, ndarray[int64], shape (n,
        MOST_FIELDS)
    """

    op: NDArray[np.uint8]
    kind: NDArray[np.uint8]
    wait: NDArray[np.uint8]
    signal: NDArray[np.uint8]
    fields: NDArray[np.int64]


def encode(instruction: Instruction) -> bytes:
    """Return the 16 bytes; `HwError` names the instruction and the field that cannot be encoded."""
    op, kind, wait, signal, fields = instruction
    form = form_of(op, kind)
    what = f"{op}.{kind}"
    head = {"op": OPS[op], "wait": wait, "signal": signal, "kind": form.kinds[kind][0]}
    word = _pack(HEAD, head, what) | _pack(form.fields, fields, what)
    return word.to_bytes(INSTRUCTION_BYTES, "little")


def decode(data: bytes, where: str) -> Instruction:
    """Decode 16 bytes to an instruction with all its fields; where : file and offset, for errors"""
    if len(data) != INSTRUCTION_BYTES:
        raise HwError(f"{where}: {len(data)} bytes; an instruction has {INSTRUCTION_BYTES}")
    word = int.from_bytes(data, "little")
    code, kind_code = word & 0xF, word >> HEAD[-1].low & 0xF
    if (code, kind_code) not in _BY_CODE:
        _refuse_code(code, kind_code, where)
    form, kind = _BY_CODE[code, kind_code]
    fields = _unpack((*HEAD, *form.fields), word, f"{where}: {form.op}.{kind}")
    del fields["op"], fields["kind"]
    return Instruction(form.op, kind, fields.pop("wait"), fields.pop("signal"), fields)


def encode_micro_op(micro_op: MicroOp) -> bytes:
    """Return the 8 bytes, as in files; `HwError` names the field that cannot be encoded."""
    return _pack(MICRO_OP, micro_op._asdict(), "micro-op").to_bytes(MICRO_OP_BYTES, "little")


def decode_micro_op(data: bytes, where: str) -> MicroOp:
    """Decode 8 bytes to a micro-op; where : file and offset, for errors"""
    if len(data) != MICRO_OP_BYTES:
        raise HwError(f"{where}: {len(data)} bytes; a micro-op has {MICRO_OP_BYTES}")
    return MicroOp(**_unpack(MICRO_OP, int.from_bytes(data, "little"), f"{where}: micro-op"))


def check_value(field: Field, value: object, what: str) -> int:
    """Return ``value`` as an int; raise `HwError` naming ``what`` and field if it does not fit."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = field.most + 1
    if not field.least <= number <= field.most:
        named = [f"{code} {name}" for code, name in enumerate(field.values)]
        allowed = (
            ", ".join(named) if named else f"a whole number from {field.least} to {field.most}"
        )
        raise HwError(f"{what}: {field.name} is {value!r}; give {allowed}")
    return number


def _pack(fields: Iterable[Field], values: Mapping[str, int], what: str) -> int:
    word, used = 0, 0
    for field in fields:
        if field.name in values:
            value = check_value(field, values[field.name], what)
            word |= (value & ((1 << field.width) - 1)) << field.low
            used += 1
    if used < len(values):
        known = [field.name for field in fields]
        unknown = next(name for name in values if name not in known)
        raise HwError(f"{what}: unknown field {unknown!r}; fields are {', '.join(known)}")
    return word


def _unpack(fields: Iterable[Field], word: int, what: str) -> dict[str, int]:
    found, rest = {}, word
    for field in fields:
        value = word >> field.low & ((1 << field.width) - 1)
        rest &= ~(((1 << field.width) - 1) << field.low)
        if field.signed and value >> (field.width - 1):
            value -= 1 << field.width
        found[field.name] = check_value(field, value, what) if field.values else value
    if rest:
        raise HwError(f"{what}: bit {(rest & -rest).bit_length() - 1} is set, but not in a field")
    return found


def _refuse_code(code: int, kind_code: int, where: str) -> NoReturn:
    op = next((name for name, known in OPS.items() if known == code), None)
    if op is None:
        known = ", ".join(f"{each} {name}" for name, each in OPS.items())
        raise HwError(f"{where}: unknown op {code}; ops are {known}")
    kinds = ", ".join(
        f"{each[1]} {kind}" for each, (_, kind) in _BY_CODE.items() if each[0] == code
    )
    raise HwError(f"{where}: {op}: unknown kind {kind_code}; kinds are {kinds}")


def encode_program(instructions: Sequence[Instruction]) -> bytes:
    """Encode instructions in order; an error also names the number of the instruction."""
    return b"".join(_encoded(encode, instructions, "instruction"))


def encode_micro_ops(micro_ops: Sequence[MicroOp]) -> bytes:
    """Encode micro-ops in order; an error also names the number of the micro-op."""
    return b"".join(_encoded(encode_micro_op, micro_ops, "micro-op"))


def decode_program(data: bytes, where: str) -> Decoded:
    """Decode the instructions in ``data``; where : file and section, errors add the offset"""
    import numpy as np

    words = _words(data, INSTRUCTION_BYTES, where)
    op, wait, signal, kind = (
        (words[:, 0] >> np.uint64(low)) & np.uint64(15) for low in (0, 4, 8, 12)
    )
    fields = np.zeros((len(words), MOST_FIELDS), np.int64)
    wrong = np.ones(len(words), bool)
    for form in FORMS:
        codes = [code for code, _ in form.kinds.values()]
        rows = np.flatnonzero((op == OPS[form.op]) & np.isin(kind, codes))
        if rows.size:
            found, faults = _columns((*HEAD, *form.fields), words[rows])
            fields[rows, : len(form.fields)] = found[:, len(HEAD) :]
            wrong[rows] = faults
    for row in np.flatnonzero(wrong)[:1].tolist():
        offset = row * INSTRUCTION_BYTES
        decode(data[offset : offset + INSTRUCTION_BYTES], f"{where}: offset {offset}")
    op, kind, wait, signal = (each.astype(np.uint8) for each in (op, kind, wait, signal))
    return Decoded(op, kind, wait, signal, fields)


def decode_micro_ops(data: bytes, where: str) -> NDArray[np.int32]:
    """Decode the micro-ops in ``data``, shape (n, 6), columns as in `MICRO_OP`.

    where : file and section, to which errors add the offset
    """
    import numpy as np

    found, faults = _columns(MICRO_OP, _words(data, MICRO_OP_BYTES, where))
    for row in np.flatnonzero(faults)[:1].tolist():
        offset = row * MICRO_OP_BYTES
        decode_micro_op(data[offset : offset + MICRO_OP_BYTES], f"{where}: offset {offset}")
    return found.astype(np.int32)


def encode_scales(m0: ArrayLike, n: ArrayLike) -> NDArray[np.int32]:
    """Return the lanes of scale words; `HwError` names the first value that does not fit."""
    import numpy as np

    parts = np.broadcast_arrays(np.asarray(m0, np.int64), np.asarray(n, np.int64))
    for field, values in zip(SCALE, parts, strict=True):
        outside = (values < field.least) | (values > field.most)
        if outside.any():
            check_value(field, int(values[outside][0]), "scale")
    return ((parts[0] << SCALE[0].low) | parts[1]).astype(np.int32)


def _encoded(encoder: Callable[[T], bytes], parts: Iterable[T], name: str) -> Iterator[bytes]:
    for number, part in enumerate(parts):
        try:
            yield encoder(part)
        except HwError as error:
            raise HwError(f"{name} {number}: {error}") from None


def _words(data: bytes, size: int, where: str) -> NDArray[np.uint64]:
    """Return rows of 64-bit words, one row per ``size`` bytes."""
    import numpy as np

    if len(data) % size:
        raise HwError(f"{where}: {len(data)} bytes; give a multiple of {size}")
    return np.frombuffer(data, "<u8").reshape(-1, size // 8)


def _columns(
    fields: Sequence[Field], words: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return field values, one column each, and which rows have an undefined value or bit."""
    import numpy as np

    found = np.zeros((len(words), len(fields)), np.int64)
    rest, faults = words.copy(), np.zeros(len(words), bool)
    for column, field in enumerate(fields):
        mask = (1 << field.width) - 1
        word, low = divmod(field.low, 64)
        value = words[:, word] >> np.uint64(low)
        rest[:, word] &= np.uint64(~(mask << low) & (2**64 - 1))
        if low + field.width > 64:
            value |= words[:, word + 1] << np.uint64(64 - low)
            rest[:, word + 1] &= np.uint64(~(mask >> (64 - low)) & (2**64 - 1))
        signed = (value & np.uint64(mask)).astype(np.int64)
        if field.signed:
            signed -= (signed >> (field.width - 1)) << field.width
        if field.values:
            faults |= signed > field.most
        found[:, column] = signed
    return found, faults | rest.any(axis=1)
