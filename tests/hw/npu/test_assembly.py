"""Text of programs: alternative notations, and rejected ones."""

from __future__ import annotations

import pytest

from hw.errors import HwError
from hw.npu.isa.assembly import assemble, disassemble
from hw.npu.isa.table import Instruction, MicroOp
from tests.docs.blocks import DOCS, blocks


def test_alternative_notations() -> None:
    text = """
        # an order of one's own, numbers of all kinds, zeros
.micro_ops
UOP init=1 acc=0x10       # comment
UOP
.instructions
  ALU.RSHR   round=2  imm=-0x2 rec=0 signal=STORE,LOAD uop=007
"""
    program = assemble(text, "f")
    assert program.micro_ops == [MicroOp(acc=16, init=1), MicroOp()]
    assert disassemble(*program).splitlines() == [
        "ALU.RSHR signal=LOAD,STORE uop=7 imm=-2 round=even",
        ".micro_ops",
        "UOP acc=16 init=1",
        "UOP",
    ]


def test_missing_fields_are_zero() -> None:
    (found,) = assemble("STORE.LOCAL", "f").instructions
    assert found.fields.keys() >= {"src", "dst", "pp"}
    assert not any(found.fields.values())
    assert disassemble([Instruction("STORE", "LOCAL")]) == "STORE.LOCAL\n"


def test_the_program_of_the_reference_page() -> None:
    page = DOCS / "reference" / "isa.md"
    (text,) = (block.text for block in blocks(page) if block.text.startswith("LOAD.INP "))
    program = assemble(text, "isa.md")
    assert [each.op for each in program.instructions] == ["LOAD", "GEMM", "RQ", "STORE", "CTRL"]
    bare = "".join(f"{line.partition('#')[0].rstrip()}\n" for line in text.splitlines())
    assert disassemble(*program) == bare


REFUSED = [
    ("GEMM.INT9", "GEMM: unknown kind 'INT9'; kinds are INT8, BINARY"),
    ("gemm.int8", "unknown op 'gemm'; ops are CTRL, LOAD"),
    ("GEMM", "GEMM: unknown kind ''; kinds are INT8"),
    ("GEMM.INT8 n_out", "GEMM.INT8: 'n_out'; write FIELD=VALUE"),
    ("GEMM.INT8 n_uot=1", "GEMM.INT8: unknown field 'n_uot'; did you mean n_out?"),
    ("CTRL.BASE wibble=1", "CTRL.BASE: unknown field 'wibble'; fields are wait, signal, queue"),
    ("GEMM.INT8 n_in=1 n_in=1", "GEMM.INT8: n_in is given twice"),
    ("GEMM.INT8 n_in=1024", "GEMM.INT8: n_in is 1024; give a whole number from 0 to 1023"),
    ("GEMM.INT8 n_in=", "GEMM.INT8: n_in is ''; give a whole number from 0 to 1023"),
    ("GEMM.INT8 n_in=1.5", "GEMM.INT8: n_in is '1.5'; give a whole number from 0 to 1023"),
    ("GEMM.INT8 n_in=\u0663", "GEMM.INT8: n_in is '\u0663'; give a whole number"),
    (f"GEMM.INT8 n_in={'9' * 50}", "give a whole number from 0 to 1023"),
    ("GEMM.INT8 init=bais", "GEMM.INT8: init is 'bais'; give 0 none, 1 zero, 2 bias"),
    ("GEMM.INT8 wait=RQ", "GEMM.INT8: wait is 'RQ'; give one or more of LOAD,GEMM,ALU,STORE"),
    ("GEMM.INT8 signal=ALU,ALU", "GEMM.INT8: signal is 'ALU,ALU'; give one or more of"),
    ("GEMM.INT8 wait=", "GEMM.INT8: wait is ''; give one or more of"),
    (".headers", "unknown section .headers; sections are .instructions, .micro_ops"),
    (".micro_ops 3", "unknown section .micro_ops 3; sections are"),
    (".micro_ops\nacc=1", "'acc=1'; lines of .micro_ops start with UOP"),
    (".micro_ops\nUOP tap=16", "UOP: tap is 16; give a whole number from 0 to 15"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_faults_name_file_line_and_field(text: str, said: str) -> None:
    line = 2 + text.count("\n")
    with pytest.raises(HwError) as error:
        assemble(f"CTRL.NOP\n{text}\nCTRL.NOP\n", "some.asm")
    assert str(error.value).startswith(f"some.asm: line {line}: ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)
