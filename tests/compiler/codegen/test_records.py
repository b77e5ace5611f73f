"""The simulator's names equal the names of the instruction table, which it may not import."""

from __future__ import annotations

from chipsim.npu.cycles import UNITS as TIMED
from chipsim.npu.records import FIELDS, KINDS, MOST_FIELDS, Op
from hw.npu.isa import table as isa


def test_codes_and_fields_equal_the_table() -> None:
    assert {op.name: op.value for op in Op} == isa.OPS
    table = {
        (isa.OPS[form.op], code): tuple(field.name for field in form.fields)
        for form in isa.FORMS
        for code, _ in form.kinds.values()
    }
    assert {(int(op), kind): names for (op, kind), names in FIELDS.items()} == table
    kinds = {(form.op, code): kind for form in isa.FORMS for kind, (code, _) in form.kinds.items()}
    assert {(op.name, n): kind for op in Op for n, kind in enumerate(KINDS[op])} == kinds
    assert MOST_FIELDS == isa.MOST_FIELDS
    assert TIMED == isa.UNITS
