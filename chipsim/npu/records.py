"""Decoded programs of NPU cores: codes, field names, and the arrays that hold them.

This package does not depend on the bit layout: the caller decodes a program into these arrays.
`docs/reference/isa.md` describes the instructions.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PARAMETER_LANES = 16
"""Lanes of a parameter word, 32 bits each. More rows use several words instead of one."""
STREAMS = 16
"""Streams per core."""


class Op(IntEnum):
    """Instruction classes by unit; RQ runs in the ALU."""

    CTRL = 0
    LOAD = 1
    GEMM = 2
    ALU = 3
    RQ = 4
    STORE = 5


KINDS: dict[Op, tuple[str, ...]] = {
    Op.CTRL: ("NOP", "WAIT", "SEND", "END", "BASE", "DIST"),
    Op.LOAD: ("INP", "ACC8", "ACC32", "BIAS", "WIN", "WSTREAM", "TABLE"),
    Op.GEMM: ("INT8", "BINARY", "DUAL_PIXEL", "DUAL_KERNEL", "INT16", "DEPTHWISE"),
    Op.ALU: ("ADD", "MAX", "MIN", "MOV", "RSHR", "SHL", "RMUL", "MAC2", "MUL"),
    Op.RQ: ("RQ", "LEAKY", "THRESHOLD", "LOOKUP"),
    Op.STORE: ("LOCAL", "REMOTE", "HOST", "PARTIAL", "PARTIAL_HOST"),
}
"""Names of the kinds of each op, by code."""

_CTRL = ("queue", "stream", "count", "x", "y", "drain", "host")
_LOAD = (
    "dst", "src", "c_size", "x_size", "y_size", "x_stride", "y_stride",
    "pad_t", "pad_b", "pad_l", "pad_r", "value", "pp", "wrap",
)  # fmt: skip
_WINDOW = (
    "dst", "src", "head", "packets", "width", "height", "kh", "kw", "sh", "sw",
    "pad_t", "pad_l", "columns", "groups", "value", "pp",
)  # fmt: skip
_GEMM = (
    "uop", "uops", "n_out", "n_in", "acc_out", "acc_in", "inp_out", "inp_in",
    "wgt_out", "wgt_in", "init", "bm", "dyn",
)  # fmt: skip
_ALU = (
    "uop", "uops", "n_out", "n_in", "dst_out", "dst_in", "src_out", "src_in",
    "source", "imm", "round", "rec", "out",
)  # fmt: skip
_RQ = ("dst", "n_out", "n_in", "dst_out", "dst_in", "rec", "out", "bits", "block", "table")
_STORE = (
    "src", "dst", "c_size", "x_size", "y_size", "x_stride", "y_stride",
    "up", "bits", "x", "y", "stream", "pp", "wrap",
)  # fmt: skip

FIELDS: dict[tuple[int, int], tuple[str, ...]] = {
    **{(Op.CTRL, kind): _CTRL for kind in range(4)},
    (Op.CTRL, 4): ("queue", "space", "value"),
    (Op.CTRL, 5): ("queue", "inp", "acc", "wgt", "src"),
    **{(Op.LOAD, kind): _LOAD for kind in range(3)},
    (Op.LOAD, 3): ("dst", "bm", "n_out", "n_in", "dst_out", "dst_in"),
    (Op.LOAD, 4): _WINDOW,
    (Op.LOAD, 5): ("dst", "words", "host"),
    (Op.LOAD, 6): ("dst", "src", "vectors", "memory"),
    **{(Op.GEMM, kind): _GEMM for kind in range(6)},
    **{(Op.ALU, kind): _ALU for kind in range(9)},
    **{(Op.RQ, kind): _RQ for kind in range(4)},
    **{(Op.STORE, kind): _STORE for kind in range(5)},
}
"""Field names of an instruction by op and kind: its columns in `Program.fields`."""

MOST_FIELDS = max(len(names) for names in FIELDS.values())
"""Columns of `Program.fields`."""


class Program(NamedTuple):
    """Decoded program of a core with its initial memory contents.

    op, kind, wait, signal : ndarray[uint8], shape (instructions,)
    fields : ndarray[int64], shape (instructions, MOST_FIELDS), columns as in `FIELDS`, then zeros
    micro_ops : ndarray[int32], shape (words, 6), columns acc, inp, wgt, tap, bm, init
    weights : ndarray[int8], shape (words, rows, columns)
    parameters : ndarray[int32], shape (words, PARAMETER_LANES)
    maps : ndarray[uint8], shape (vectors, columns): from address 0 on, the rest is 0; also the size
        of external memory
    headers : ndarray[uint64], shape (words,), packet headers of the window unit
    """

    op: NDArray[np.uint8]
    kind: NDArray[np.uint8]
    wait: NDArray[np.uint8]
    signal: NDArray[np.uint8]
    fields: NDArray[np.int64]
    micro_ops: NDArray[np.int32]
    weights: NDArray[np.int8]
    parameters: NDArray[np.int32]
    maps: NDArray[np.uint8]
    headers: NDArray[np.uint64]
