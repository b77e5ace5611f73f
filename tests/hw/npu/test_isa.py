"""The bits of instructions, computed by hand, and data that the decoder rejects."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from hw.errors import HwError
from hw.npu.isa.assembly import assemble, instruction_text
from hw.npu.isa.encoding import (
    decode,
    decode_micro_op,
    decode_micro_ops,
    decode_program,
    encode,
    encode_micro_op,
    encode_micro_ops,
    encode_program,
    encode_scales,
)
from hw.npu.isa.table import FORMS, HEAD, MICRO_OP, OPS, SCALE, Field, Instruction, MicroOp, form_of
from tests.hw.npu.random_programs import random_instruction, random_micro_op

KINDS = {
    "CTRL": "NOP WAIT SEND END BASE DIST",
    "LOAD": "INP ACC8 ACC32 BIAS WIN WSTREAM TABLE",
    "GEMM": "INT8 BINARY DUAL_PIXEL DUAL_KERNEL INT16 DEPTHWISE",
    "ALU": "ADD MAX MIN MOV RSHR SHL RMUL MAC2 MUL",
    "RQ": "RQ LEAKY THRESHOLD LOOKUP",
    "STORE": "LOCAL REMOTE HOST PARTIAL PARTIAL_HOST",
}
"""In the order of their codes."""

# Each field has its highest and its lowest bit set, unless that value is undefined; bits 127:0.
BITS = [
    (
        "CTRL.END wait=LOAD,ALU signal=GEMM,STORE queue=3 stream=9 count=32769 x=129 y=129 "
        "drain=1 host=1",
        "000000000000000000e0606000673a50",
    ),
    (
        "CTRL.BASE wait=LOAD,ALU signal=GEMM,STORE queue=3 space=2 value=2147483649",
        "000000000000000000080000001b4a50",
    ),
    (
        "CTRL.DIST wait=LOAD,ALU signal=GEMM,STORE queue=3 inp=2049 acc=2049 wgt=2049 src=32769",
        "00000000000000200060060060075a50",
    ),
    (
        "LOAD.ACC32 wait=LOAD,ALU signal=GEMM,STORE dst=2049 src=32769 c_size=33 x_size=257 "
        "y_size=129 x_stride=513 y_stride=16385 pad_t=5 pad_b=5 pad_l=5 pad_r=5 value=-32767 "
        "pp=9 wrap=9",
        "998001b6d800300c0c06180018012a51",
    ),
    (
        "LOAD.BIAS wait=LOAD,ALU signal=GEMM,STORE dst=2049 bm=513 n_out=129 n_in=2049 "
        "dst_out=2049 dst_in=33",
        "00000000000008600600606018013a51",
    ),
    (
        "LOAD.WIN wait=LOAD,ALU signal=GEMM,STORE dst=2049 src=4097 head=513 packets=513 "
        "width=257 height=257 kh=9 kw=9 sh=5 sw=5 pad_t=5 pad_l=5 columns=257 groups=33 "
        "value=-127 pp=9",
        "2606180db6ccc060300c030018014a51",
    ),
    (
        "LOAD.WSTREAM wait=LOAD,ALU signal=GEMM,STORE dst=2049 words=2049 host=2147483649",
        "00000000000000800000018018015a51",
    ),
    (
        "LOAD.TABLE wait=LOAD,ALU signal=GEMM,STORE dst=2049 src=32769 vectors=8193 memory=2",
        "00000000000000000a00180018016a51",
    ),
    (
        "GEMM.DEPTHWISE wait=LOAD,ALU signal=GEMM,STORE uop=513 uops=513 n_out=257 n_in=513 "
        "acc_out=1025 acc_in=33 inp_out=2049 inp_in=33 wgt_out=2049 wgt_in=33 init=2 bm=513 "
        "dyn=1",
        "018068600618018600c0301806015a52",
    ),
    (
        "ALU.MAC2 wait=LOAD,ALU signal=GEMM,STORE uop=513 uops=513 n_out=257 n_in=513 "
        "dst_out=1025 dst_in=33 src_out=1025 src_in=33 source=2 imm=-32767 round=3 rec=513 "
        "out=1",
        "00c03c000d0c018600c0301806017a53",
    ),
    (
        "RQ.THRESHOLD wait=LOAD,ALU signal=GEMM,STORE dst=2049 n_out=129 n_in=2049 "
        "dst_out=2049 dst_in=33 rec=513 out=1 bits=2049 block=33 table=513",
        "00000100c30038061801801818012a54",
    ),
    (
        "STORE.PARTIAL wait=LOAD,ALU signal=GEMM,STORE src=2049 dst=32769 c_size=33 "
        "x_size=257 y_size=129 x_stride=513 y_stride=16385 up=1 bits=1 x=129 y=129 stream=9 "
        "pp=9 wrap=9",
        "026660607800300c0c06180018013a55",
    ),
]

# Numbers of a program, bit by bit.
WORDS = [
    ("CTRL.NOP", 0),
    ("CTRL.WAIT queue=STORE stream=5 count=16", 0x1000 | 3 << 16 | 5 << 18 | 16 << 22),
    ("LOAD.INP signal=GEMM value=-1", 0x201 | 0xFFFF << 104),
    ("LOAD.WIN value=-128", 0x4001 | 0x80 << 114),
    ("ALU.ADD imm=-2", 3 | 0xFFFE << 91),
    (
        "GEMM.INT8 wait=LOAD,ALU signal=ALU uops=9 n_out=16 n_in=8 init=bias",
        2 | 0b0101 << 4 | 0b0100 << 8 | 9 << 26 | 16 << 36 | 8 << 45 | 2 << 108,
    ),
    ("RQ.RQ wait=GEMM signal=STORE n_in=64 out=1", 4 | 2 << 4 | 8 << 8 | 64 << 36 | 1 << 76),
    ("STORE.LOCAL wrap=15", 5 | 15 << 118),
    ("LOAD.ACC8 wrap=15", 0x1001 | 15 << 124),
    ("STORE.HOST x=3 y=255 pp=15", 0x2005 | 3 << 94 | 255 << 102 | 15 << 114),
]


def only(text: str) -> Instruction:
    (instruction,) = assemble(text, "f").instructions
    return instruction


@pytest.mark.parametrize(("text", "bits"), BITS, ids=lambda case: case.split()[0])
def test_every_form_has_its_bits(text: str, bits: str) -> None:
    data = bytes.fromhex(bits)[::-1]
    assert encode(only(text)) == data
    assert decode(data, "f") == only(text)
    assert {each.name for each in form_of(*text.split()[0].split(".")).fields} == {
        word.partition("=")[0] for word in text.split()[3:]
    }


def test_bits_cover_all_forms() -> None:
    tested = [form_of(*text.split()[0].split(".")) for text, _ in BITS]
    assert tested == list(FORMS)


@pytest.mark.parametrize(("text", "word"), WORDS, ids=lambda case: str(case).split()[0])
def test_instructions_of_programs(text: str, word: int) -> None:
    assert encode(only(text)) == word.to_bytes(16, "little")
    assert instruction_text(decode(word.to_bytes(16, "little"), "f")) == text


def test_codes_of_ops_and_kinds() -> None:
    assert list(OPS.items()) == [(op, code) for code, op in enumerate(KINDS)]
    for op, kinds in KINDS.items():
        for code, kind in enumerate(kinds.split()):
            word = OPS[op] | code << 12
            assert encode(Instruction(op, kind)) == word.to_bytes(16, "little")
            assert form_of(op, kind).kinds[kind][0] == code


def test_bits_of_a_micro_op() -> None:
    micro_op = MicroOp(acc=2049, inp=2049, wgt=2049, tap=9, bm=257, init=1)
    assert encode_micro_op(micro_op) == 0x0003_0198_0180_1801.to_bytes(8, "little")
    assert encode_micro_op(MicroOp(1, 2, 3, 4, 5)) == bytes.fromhex("0120000340050000")
    assert tuple(field.name for field in MICRO_OP) == MicroOp._fields


def test_bits_of_scales() -> None:
    m0 = np.array([(1 << 24) - 1, -(1 << 24) + 1, 1, -1, 0, -(1 << 25)])
    n = np.array([63, 0, 1, 31, 0, 63])
    lanes = encode_scales(m0, n)
    assert lanes.dtype == np.int32
    expected = [0x3FFFFFFF, -0x3FFFFFC0, 0x41, -0x40 + 31, 0, -(1 << 31) + 63]
    assert lanes.tolist() == expected
    assert [(lanes >> 6).tolist(), (lanes & 63).tolist()] == [m0.tolist(), n.tolist()]
    assert encode_scales([5, 7], 2).tolist() == [5 << 6 | 2, 7 << 6 | 2]


@pytest.mark.parametrize("fields", [*((*HEAD, *form.fields) for form in FORMS), MICRO_OP, SCALE])
def test_fields_neither_overlap_nor_repeat(fields: tuple[Field, ...]) -> None:
    taken = [bit for field in fields for bit in range(field.low, field.high + 1)]
    assert len(set(taken)) == len(taken)
    assert max(taken) < 128
    assert len({field.name for field in fields}) == len(fields)
    for field in fields:
        assert len(field.values) <= 1 << field.width
        assert field.meaning


# ---- rejected data ---------------------------------------------------------------------------

UNENCODABLE = [
    (Instruction("GEM", "INT8"), "unknown op 'GEM'; ops are CTRL, LOAD, GEMM, ALU, RQ, STORE"),
    (Instruction("RQ", "INT8"), "RQ: unknown kind 'INT8'; kinds are RQ, LEAKY, THRESHOLD, LOOKUP"),
    (Instruction("CTRL", "NOP", wait=16), "CTRL.NOP: wait is 16; give a whole number from 0 to 15"),
    (Instruction("CTRL", "NOP", 0, -1), "CTRL.NOP: signal is -1; give a whole number from 0 to 15"),
    (Instruction("GEMM", "INT8", 0, 0, {"n_out": 512}), "GEMM.INT8: n_out is 512; give a whole"),
    (Instruction("GEMM", "INT8", 0, 0, {"n_in": -1}), "n_in is -1; give a whole number from 0 to"),
    (Instruction("GEMM", "INT8", 0, 0, {"n_in": 1.5}), "n_in is 1.5; give a whole number from 0"),  # type: ignore[dict-item]
    (Instruction("GEMM", "INT8", 0, 0, {"init": 3}), "init is 3; give 0 none, 1 zero, 2 bias"),
    (Instruction("ALU", "ADD", 0, 0, {"imm": 32768}), "imm is 32768; give a whole number from -3"),
    (Instruction("LOAD", "WIN", 0, 0, {"value": -129}), "value is -129; give a whole number from"),
    (Instruction("GEMM", "INT8", 0, 0, {"count": 1}), "unknown field 'count'; fields are uop,"),
]  # fmt: skip


@pytest.mark.parametrize(("instruction", "said"), UNENCODABLE, ids=range(len(UNENCODABLE)))
def test_unencodable_instructions_are_named(instruction: Instruction, said: str) -> None:
    with pytest.raises(HwError) as error:
        encode(instruction)
    assert said in str(error.value)
    with pytest.raises(HwError) as error:
        encode_program([Instruction("CTRL", "NOP"), instruction])
    assert str(error.value).startswith("instruction 1: ") and said in str(error.value)


def test_micro_ops_and_scales_without_room_are_named() -> None:
    with pytest.raises(HwError, match=r"^micro-op: tap is 16; give a whole number from 0 to 15"):
        encode_micro_op(MicroOp(tap=16))
    with pytest.raises(HwError, match=r"^micro-op 1: micro-op: acc is -1; give"):
        encode_micro_ops([MicroOp(), MicroOp(acc=-1)])
    with pytest.raises(HwError, match=r"^scale: m0 is 33554432; give a whole number from -3"):
        encode_scales([1, 1 << 25], [0, 0])
    with pytest.raises(HwError, match=r"^scale: n is 64; give a whole number from 0 to 63"):
        encode_scales([1, 1], [0, 64])


UNDECODABLE = [
    (6, "f: unknown op 6; ops are 0 CTRL, 1 LOAD, 2 GEMM, 3 ALU, 4 RQ, 5 STORE"),
    (0x6000, "f: CTRL: unknown kind 6; kinds are 0 NOP, 1 WAIT, 2 SEND, 3 END, 4 BASE, 5 DIST"),
    (
        0x5005,
        "f: STORE: unknown kind 5; kinds are 0 LOCAL, 1 REMOTE, 2 HOST, 3 PARTIAL, 4 PARTIAL_HOST",
    ),
    (1 << 56, "f: CTRL.NOP: bit 56 is set, but not in a field"),
    (0x4000 | 1 << 52 | 1 << 127, "f: CTRL.BASE: bit 52 is set, but not in a field"),
    (2 | 1 << 121, "f: GEMM.INT8: bit 121 is set, but not in a field"),
    (2 | 3 << 108, "f: GEMM.INT8: init is 3; give 0 none, 1 zero, 2 bias"),
    (0x4000 | 3 << 18, "f: CTRL.BASE: space is 3; give 0 load, 1 store, 2 weights"),
    (0x6001 | 3 << 58, "f: LOAD.TABLE: memory is 3; give 0 micro_ops, 1 parameters, 2 headers"),
    (3 | 3 << 89, "f: ALU.ADD: source is 3; give 0 immediate, 1 accumulator, 2 parameters"),
]


@pytest.mark.parametrize(("word", "said"), UNDECODABLE)
def test_undefined_instructions_are_rejected(word: int, said: str) -> None:
    data = word.to_bytes(16, "little")
    with pytest.raises(HwError) as error:
        decode(data, "f")
    assert str(error.value) == said
    good = encode(Instruction("CTRL", "NOP"))
    with pytest.raises(HwError) as error:
        decode_program(good + data + good + data, "f")
    assert str(error.value) == said.replace("f: ", "f: offset 16: ", 1)


def test_micro_ops_that_mean_nothing_are_refused() -> None:
    data = (1 << 50).to_bytes(8, "little")
    with pytest.raises(HwError, match=r"^f: micro-op: bit 50 is set, but not in a field$"):
        decode_micro_op(data, "f")
    with pytest.raises(HwError, match=r"^f: offset 8: micro-op: bit 50 is set"):
        decode_micro_ops(bytes(8) + data, "f")


def test_data_of_another_length_are_refused() -> None:
    with pytest.raises(HwError, match=r"^f: 15 bytes; an instruction has 16$"):
        decode(bytes(15), "f")
    with pytest.raises(HwError, match=r"^f: 9 bytes; a micro-op has 8$"):
        decode_micro_op(bytes(9), "f")
    with pytest.raises(HwError, match=r"^f: 24 bytes; give a multiple of 16$"):
        decode_program(bytes(24), "f")
    with pytest.raises(HwError, match=r"^f: 12 bytes; give a multiple of 8$"):
        decode_micro_ops(bytes(12), "f")


@pytest.mark.heavy
def test_array_and_single_decoders_reject_the_same_data() -> None:
    """Arrays reject exactly the same data: bits of valid instructions are flipped at random."""
    random = Random(3)
    refused = 0
    for _ in range(1000):
        word = int.from_bytes(encode(random_instruction(random)), "little")
        data = (word ^ 1 << random.randrange(128)).to_bytes(16, "little")
        try:
            expected = decode(data, "f: offset 0")
        except HwError as error:
            refused += 1
            with pytest.raises(HwError) as found:
                decode_program(data, "f")
            assert str(found.value) == str(error)
        else:
            fields = decode_program(data, "f").fields[0].tolist()
            assert fields[: len(expected.fields)] == list(expected.fields.values())
    assert 100 < refused < 900
    for _ in range(200):
        word = int.from_bytes(encode_micro_op(random_micro_op(random)), "little")
        bit = random.randrange(64)
        data = (word ^ 1 << bit).to_bytes(8, "little")
        if bit < 50:
            assert tuple(decode_micro_ops(data, "f")[0].tolist()) == decode_micro_op(data, "f")
        else:
            with pytest.raises(HwError, match=f"bit {bit} is set"):
                decode_micro_ops(data, "f")
