"""Arrays that the NPU kernels read and write, for all cores of a chip."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LANES = 16
"""Lanes that the kernels process at once; buffers are padded to a multiple."""

# Columns of `Memory.registers`: bases, distances of LOAD, GEMM and STORE, end of the weight words
# that have arrived, 1 for an odd frame.
BASE_LOAD, BASE_STORE, BASE_WEIGHTS = range(3)
DIST_LOAD, DIST_ACC, DIST_WGT, DIST_STORE, ARRIVED, ODD = range(3, 9)
REGISTERS = 9

# Entries of `Code.sizes`.
ROWS, COLUMNS, WORDS, DUAL, BINARY, FILTERS, ACC_BITS = range(7)
SIZES = 7

# Entries of `Memory.fault`.
CAUSE, CORE, INSTRUCTION, WHERE, ADDRESS, SIZE = range(6)
FAULTS = 6

# Values of `CAUSE`; 0 is none.
OUTSIDE, UNKNOWN, NO_UNIT, NO_CORE, STATIC, NEVER, UNCOVERED, DEADLOCK, EARLY = range(1, 10)

# Values of `WHERE`.
FM, INP, WM, ACC, OUT, PM, UM, HM, HOST = range(9)
MEMORIES = (
    "feature memory (FM)", "input buffer (INP)", "weight memory (WM)", "accumulators (ACC)",
    "result buffer (OUT)", "parameter memory (PM)", "micro-op memory (UM)",
    "header memory (HM)", "weights of the host",
)  # fmt: skip


class Code(NamedTuple):
    """Programs and tables of n cores; TABLE and WSTREAM write some of them.

    sizes : int64, shape (SIZES,); WORDS: parameter words that hold one number per row
    start : int64, shape (n + 1,), first instruction of each core
    op, kind, fields : instructions of all cores, concatenated
    micro_ops : int32, shape (n, words, 6)
    parameters : int32, shape (n, words, 16)
    headers : int64, shape (n, words)
    weights : int16, shape (n, words, columns, lanes): transposed, padding lanes are 0
    bits : uint64, shape (n, words, columns / 8, lanes): rows of the same words as bits
    host_weights : int8, shape (words, rows, columns)
    node : int32, shape (65536,), number of the core at 256*y + x, -1 for none
    """

    sizes: NDArray[np.int64]
    start: NDArray[np.int64]
    op: NDArray[np.uint8]
    kind: NDArray[np.uint8]
    fields: NDArray[np.int64]
    micro_ops: NDArray[np.int32]
    parameters: NDArray[np.int32]
    headers: NDArray[np.int64]
    weights: NDArray[np.int16]
    bits: NDArray[np.uint64]
    host_weights: NDArray[np.int8]
    node: NDArray[np.int32]


class Memory(NamedTuple):
    """State of a frame on n cores.

    maps : int8, shape (n, vectors, columns)
    inputs : int16, shape (n, vectors, lanes): bytes, or pairs of bytes
    sums : int64, shape (n, entries, lanes)
    results : int16, shape (n, entries, lanes): bytes, or 16 bits
    streams : int64, shape (n, 16)
    position : int64, shape (n,), the next instruction of each core
    registers : int64, shape (n, REGISTERS)
    fault : int64, shape (FAULTS,)
    host_count : int64, shape (1,), vectors that the host has received
    host_core, host_address : int64, shape (most,)
    host_vectors : int8, shape (most, columns)
    scratch : int32, shape (2, lanes)
    credits : int64, shape (n, 16), credits for the host by stream
    log_count, log_core, log_address, log_vectors : like the arrays of the host, for vectors that
        are stored to feature memories; without entries, nothing is logged
    """

    maps: NDArray[np.int8]
    inputs: NDArray[np.int16]
    sums: NDArray[np.int64]
    results: NDArray[np.int16]
    streams: NDArray[np.int64]
    position: NDArray[np.int64]
    registers: NDArray[np.int64]
    fault: NDArray[np.int64]
    host_count: NDArray[np.int64]
    host_core: NDArray[np.int64]
    host_address: NDArray[np.int64]
    host_vectors: NDArray[np.int8]
    scratch: NDArray[np.int32]
    credits: NDArray[np.int64]
    log_count: NDArray[np.int64]
    log_core: NDArray[np.int64]
    log_address: NDArray[np.int64]
    log_vectors: NDArray[np.int8]
