"""Instruction set of the NPU: one table, which encoder, decoder and hardware read.

An instruction has 128 bits, little-endian: op 3:0, wait 7:4, signal 11:8, kind 15:12, then the
fields of its form. A micro-op has 50 bits and its own memory. docs/reference/isa.md describes them.
This module does not depend on Amaranth.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from hw.errors import HwError

# ---- the table ------------------------------------------------------------------------------

UNITS = ("LOAD", "GEMM", "ALU", "STORE")
"""Units by their bit in `wait` and `signal`, and by their number in the field `queue`."""
ROUNDINGS = ("away", "up", "even", "floor")
OPS = {"CTRL": 0, "LOAD": 1, "GEMM": 2, "ALU": 3, "RQ": 4, "STORE": 5}
INSTRUCTION_BYTES, MICRO_OP_BYTES = 16, 8


class Field(NamedTuple):
    """Bits high:low of a word.

    signed : two's complement, else unsigned
    values : names of 0, 1, ...; other values are undefined and rejected
    """

    name: str
    high: int
    low: int
    meaning: str
    signed: bool = False
    values: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        return self.high - self.low + 1

    @property
    def least(self) -> int:
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def most(self) -> int:
        if self.values:
            return len(self.values) - 1
        return (1 << (self.width - self.signed)) - 1


class Form(NamedTuple):
    """Kinds of an op that have the same fields.

    kinds : code and meaning of each, by name
    """

    op: str
    title: str
    kinds: dict[str, tuple[int, str]]
    fields: tuple[Field, ...]

    def column(self, field: str) -> int:
        """Return the index of a field in this form, and so in the rows of `Decoded.fields`."""
        return [each.name for each in self.fields].index(field)


_OP = Field("op", 3, 0, "operation class", values=tuple(OPS))
_WAIT = Field("wait", 7, 4, "units whose token it consumes before it starts, one bit each")
_SIGNAL = Field("signal", 11, 8, "units that it sends a token to when it ends, one bit each")
_KIND = Field("kind", 15, 12, "instruction within the op")
HEAD = (_OP, _WAIT, _SIGNAL, _KIND)
"""Fields that start all instructions."""

_QUEUE = Field("queue", 17, 16, "the unit whose queue runs it", values=UNITS)
_AREA = (
    Field("c_size", 49, 44, "vectors per pixel, innermost in memory"),
    Field("x_size", 58, 50, "pixels per row"),
    Field("y_size", 66, 59, "rows"),
    Field("x_stride", 76, 67, "vectors from one pixel of the map to the next"),
    Field("y_stride", 91, 77, "vectors from one row of the map to the next"),
)
_SLOTS = "0, or double buffering: odd frames use addresses 2^(pp+2) vectors higher"
_WRAP = "0, or pixels of a row before the end of a ring: later ones are `y_stride` vectors lower"

FORMS = (
    Form("CTRL", "order and synchronisation", {
        "NOP": (0, "does nothing; still waits and signals"),
        "WAIT": (1, "the queue waits until `stream` has counted `count`, and subtracts it"),
        "SEND": (2, "adds `count` to `stream` of core (`x`, `y`), or gives the host credits"),
        "END": (3, "the last instruction of a frame"),
    }, (
        _QUEUE,
        Field("stream", 21, 18, "number of a stream"),
        Field("count", 37, 22, "amount to subtract or add"),
        Field("x", 45, 38, "column of the destination core"),
        Field("y", 53, 46, "row of the destination core"),
        Field("drain", 54, 54, "END: 1 waits until all units are idle and clears all tokens"),
        Field("host", 55, 55, "SEND: 1: credits for the host, whose port is at (`x`, `y`)"),
    )),
    Form("CTRL", "base addresses", {"BASE": (4, "sets a base register")}, (
        _QUEUE,
        Field("space", 19, 18, "register", values=("load", "store", "weights")),
        Field("value", 51, 20, "new value"),
    )),
    Form("CTRL", "distances of pairs", {"DIST": (5, "sets the distances of dual cores")}, (
        _QUEUE,
        Field("inp", 29, 18, "distance of the two inputs of a pair"),
        Field("acc", 41, 30, "distance of the two accumulators of a pair"),
        Field("wgt", 53, 42, "distance of the two weight words of a pair"),
        Field("src", 69, 54, "distance of the two vectors that a load packs into one; 0: none"),
    )),
    Form("LOAD", "maps", {
        "INP": (0, "from a map to the input buffer"),
        "ACC8": (1, "from a map to accumulators, bytes sign-extended"),
        "ACC32": (2, "from a map to accumulators, four vectors per entry"),
    }, (
        Field("dst", 27, 16, "first entry of the destination buffer"),
        Field("src", 43, 28, "first vector read, relative to the load base"),
        *_AREA,
        Field("pad_t", 94, 92, "rows of the area above the map"),
        Field("pad_b", 97, 95, "rows of the area below the map"),
        Field("pad_l", 100, 98, "columns of the area left of the map"),
        Field("pad_r", 103, 101, "columns of the area right of the map"),
        Field("value", 119, 104, "value of every lane of a pad pixel", signed=True),
        Field("pp", 123, 120, _SLOTS),
        Field("wrap", 127, 124, _WRAP),
    )),
    Form("LOAD", "bias", {"BIAS": (3, "from parameters to accumulators")}, (
        Field("dst", 27, 16, "first accumulator"),
        Field("bm", 37, 28, "first parameter word"),
        Field("n_out", 45, 38, "outer count, one parameter word per step"),
        Field("n_in", 57, 46, "inner count"),
        Field("dst_out", 69, 58, "accumulators from one outer step to the next"),
        Field("dst_in", 75, 70, "accumulators from one inner step to the next"),
    )),
    Form("LOAD", "windows", {"WIN": (4, "columns of the im2col matrix of a T-mode map")}, (
        Field("dst", 27, 16, "first vector of the input buffer"),
        Field("src", 40, 28, "first word of the map"),
        Field("head", 50, 41, "first packet header"),
        Field("packets", 60, 51, "packets"),
        Field("width", 69, 61, "columns of the map"),
        Field("height", 78, 70, "rows of the map"),
        Field("kh", 82, 79, "kernel rows"),
        Field("kw", 86, 83, "kernel columns"),
        Field("sh", 89, 87, "vertical stride in rows"),
        Field("sw", 92, 90, "horizontal stride in columns"),
        Field("pad_t", 95, 93, "rows of padding above the map"),
        Field("pad_l", 98, 96, "columns of padding left of the map"),
        Field("columns", 107, 99, "windows per row"),
        Field("groups", 113, 108, "groups of four channels"),
        Field("value", 121, 114, "value of every lane of a pad pixel", signed=True),
        Field("pp", 125, 122, _SLOTS),
    )),
    Form("LOAD", "weights from the host", {"WSTREAM": (5, "requests weight words from the host")}, (
        Field("dst", 27, 16, "first weight word written"),
        Field("words", 39, 28, "weight words"),
        Field("host", 71, 40, "address of the first word in the host's memory"),
    )),
    Form("LOAD", "tables", {"TABLE": (6, "refills a small memory")}, (
        Field("dst", 27, 16, "first word of that memory"),
        Field("src", 43, 28, "first vector read, relative to the load base"),
        Field("vectors", 57, 44, "vectors"),
        Field("memory", 59, 58, "memory to refill", values=("micro_ops", "parameters", "headers")),
    )),
    Form("GEMM", "matrix unit", {
        "INT8": (0, "int8 times int8"),
        "BINARY": (1, "128 one-bit channels per row: 2 popcount(xnor) - 128"),
        "DUAL_PIXEL": (2, "int8, two pixels at once"),
        "DUAL_KERNEL": (3, "int8, two kernels at once"),
        "INT16": (4, "int16 times int16"),
        "DEPTHWISE": (5, "int8, lane times lane"),
    }, (
        Field("uop", 25, 16, "first micro-op"),
        Field("uops", 35, 26, "micro-ops, the outermost loop"),
        Field("n_out", 44, 36, "outer count"),
        Field("n_in", 54, 45, "inner count"),
        Field("acc_out", 65, 55, "accumulators from one outer step to the next"),
        Field("acc_in", 71, 66, "accumulators from one inner step to the next"),
        Field("inp_out", 83, 72, "input vectors from one outer step to the next"),
        Field("inp_in", 89, 84, "input vectors from one inner step to the next"),
        Field("wgt_out", 101, 90, "weight words from one outer step to the next"),
        Field("wgt_in", 107, 102, "weight words from one inner step to the next"),
        Field("init", 109, 108, "initial value of accumulators of micro-ops with `init`",
              values=("none", "zero", "bias")),
        Field("bm", 119, 110, "parameter word of the bias; the micro-op's `bm` is added"),
        Field("dyn", 120, 120, "1: waits for weight words from the host"),
    )),
    Form("ALU", "accumulators", {
        "ADD": (0, "x + s"),
        "MAX": (1, "the larger of x and s"),
        "MIN": (2, "the smaller of x and s"),
        "MOV": (3, "s"),
        "RSHR": (4, "x shifted right by `imm`, rounded by `round`"),
        "SHL": (5, "x shifted left by `imm`"),
        "RMUL": (6, "x times a scale, rounded by `round`, saturated to 32 bits"),
        "MAC2": (7, "weighted sum of two accumulators, plus a constant"),
        "MUL": (8, "x times the low 26 bits of another accumulator"),
    }, (
        Field("uop", 25, 16, "first micro-op"),
        Field("uops", 35, 26, "micro-ops, the outermost loop"),
        Field("n_out", 44, 36, "outer count"),
        Field("n_in", 54, 45, "inner count"),
        Field("dst_out", 65, 55, "destinations from one outer step to the next"),
        Field("dst_in", 71, 66, "destinations from one inner step to the next"),
        Field("src_out", 82, 72, "sources from one outer step to the next"),
        Field("src_in", 88, 83, "sources from one inner step to the next"),
        Field("source", 90, 89, "operand s", values=("immediate", "accumulator", "parameters")),
        Field("imm", 106, 91, "immediate operand", signed=True),
        Field("round", 108, 107, "rounding of RSHR and RMUL", values=ROUNDINGS),
        Field("rec", 118, 109, "parameter word of MAC2; RMUL uses the next one"),
        Field("out", 119, 119, "1: results also go to the result buffer"),
    )),
    Form("RQ", "requantisation, in the ALU", {
        "RQ": (0, "one multiplier per channel"),
        "LEAKY": (1, "two multipliers per channel, selected by the sign"),
        "THRESHOLD": (2, "one bit per channel, packed"),
        "LOOKUP": (3, "like RQ; the result selects one of 256 entries of a table"),
    }, (
        Field("dst", 27, 16, "first entry, of accumulators and of results"),
        Field("n_out", 35, 28, "blocks"),
        Field("n_in", 47, 36, "pixels per block"),
        Field("dst_out", 59, 48, "entries from one block to the next"),
        Field("dst_in", 65, 60, "entries from one pixel to the next"),
        Field("rec", 75, 66, "first parameter word of the record"),
        Field("out", 76, 76, "1: results also go to the result buffer"),
        Field("bits", 88, 77, "THRESHOLD: first entry of results for packed vectors"),
        Field("block", 94, 89, "THRESHOLD: number of the first block"),
        Field("table", 104, 95, "LOOKUP: first parameter word of the table"),
    )),
    Form("STORE", "results", {
        "LOCAL": (0, "results to a map of this core"),
        "REMOTE": (1, "results to a map of core (`x`, `y`)"),
        "HOST": (2, "results to the host"),
        "PARTIAL": (3, "accumulators to a map of this core, four vectors per entry"),
        "PARTIAL_HOST": (4, "accumulators to the host, four vectors per entry"),
    }, (
        Field("src", 27, 16, "first entry read"),
        Field("dst", 43, 28, "first vector written, relative to the store base"),
        *_AREA,
        Field("up", 92, 92, "1: upsampling, every pixel is written to 2x2 pixels"),
        Field("bits", 93, 93, "1: entries are packed vectors of THRESHOLD"),
        Field("x", 101, 94, "column of the destination core"),
        Field("y", 109, 102, "row of the destination core"),
        Field("stream", 113, 110, "stream of that core that counts the vectors"),
        Field("pp", 117, 114, _SLOTS),
        Field("wrap", 121, 118, _WRAP),
    )),
)  # fmt: skip

MICRO_OP = (
    Field("acc", 11, 0, "accumulator, the destination"),
    Field("inp", 23, 12, "input vector; for the ALU the source"),
    Field("wgt", 35, 24, "weight word"),
    Field("tap", 39, 36, "DEPTHWISE: row of the weight word"),
    Field("bm", 48, 40, "parameter word of the bias, relative to the instruction's `bm`"),
    Field("init", 49, 49, "1: the accumulators are initialised first"),
)

SCALE = (
    Field("m0", 31, 6, "multiplier", signed=True),
    Field("n", 5, 0, "right shift after the product"),
)
"""A lane of a scale word."""

RECORD = {
    "z": "zero point, added after the shift",
    "lo": "smallest result",
    "hi": "largest result",
    "p": "right shift before the multiplier; 0 for 8 bits",
    "rounding": "; ".join(f"{code} {name}" for code, name in enumerate(ROUNDINGS)),
    "flags": "1: words of c follow each scale; 2: words of leaky scales follow",
}
"""Lanes 0, 1, ... of the first word of a record, 32 bits each."""

MOST_FIELDS = max(len(form.fields) for form in FORMS)
"""Columns of `Decoded.fields`."""

_BY_NAME = {(form.op, kind): form for form in FORMS for kind in form.kinds}

# ---- one instruction ------------------------------------------------------------------------


class Instruction(NamedTuple):
    """An instruction.

    fields : by name; missing ones are 0
    wait, signal : masks, LOAD in bit 0
    """

    op: str
    kind: str
    wait: int = 0
    signal: int = 0
    fields: Mapping[str, int] = MappingProxyType({})


class MicroOp(NamedTuple):
    """A micro-op, with the fields of `MICRO_OP`."""

    acc: int = 0
    inp: int = 0
    wgt: int = 0
    tap: int = 0
    bm: int = 0
    init: int = 0


def form_of(op: str, kind: str) -> Form:
    """Return the form of an instruction; `HwError` if there is no such instruction."""
    if form := _BY_NAME.get((op, kind)):
        return form
    if op not in OPS:
        raise HwError(f"unknown op {op!r}; ops are {', '.join(OPS)}")
    kinds = ", ".join(one for known, one in _BY_NAME if known == op)
    raise HwError(f"{op}: unknown kind {kind!r}; kinds are {kinds}")
