"""Bit positions of instruction fields as a C header, generated from the instruction table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hw.npu.isa.table import FORMS, HEAD, MICRO_OP, OPS, RECORD, ROUNDINGS, UNITS, Field


def layout_header() -> str:
    """Return isa.h: codes of instructions, and ``high, low, signed`` of every field.

    Forms with several kinds use the name of the first kind: GEMM_INT8_UOP applies to all of GEMM.
    """
    lines = [
        "/* Generated from the instruction table: codes; bits of fields: high, low, signed. */",
        "",
        "#ifndef ISA_H",
        "#define ISA_H",
        "",
        *_codes("OP", OPS),
        *_codes("ROUND", _numbered(ROUNDINGS)),
        *_codes("QUEUE", _numbered(UNITS)),
        *_codes("RECORD", _numbered(RECORD)),
        *_fields("HEAD", HEAD),
        *_fields("UOP", MICRO_OP),
    ]
    for form in FORMS:
        lines += _codes(form.op, {kind: code for kind, (code, _) in form.kinds.items()})
        lines += _fields(f"{form.op}_{next(iter(form.kinds))}", form.fields)
    values = {
        field.name: ("TABLE" if field.name == "memory" else field.name.upper(), field.values)
        for form in FORMS
        for field in form.fields
        if field.name in ("init", "source", "memory")
    }
    for prefix, names in values.values():
        lines += _codes(prefix, _numbered(names))
    return "\n".join([*lines, "", "#endif", ""])


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def _codes(prefix: str, codes: dict[str, int]) -> Iterator[str]:
    for name, code in codes.items():
        yield f"#define {prefix}_{name.upper()} {code}"


def _fields(prefix: str, fields: Iterable[Field]) -> Iterator[str]:
    for field in fields:
        bits = f"{field.high}, {field.low}, {int(field.signed)}"
        yield f"#define {prefix}_{field.name.upper()} {bits}"
