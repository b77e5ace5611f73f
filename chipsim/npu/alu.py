"""Kernels of the ALU: sums, requantisation and thresholds.

Each returns True at a fault, like the kernels of `chipsim.npu.loads`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.npu.arithmetic import _outside, _round, _too_early, _wrap
from chipsim.npu.state import (
    ACC,
    ACC_BITS,
    COLUMNS,
    DUAL,
    OUT,
    PM,
    ROWS,
    UM,
    WORDS,
)

ADD, MAX, MIN, MOV, RSHR, SHL, RMUL, MAC2, MUL = range(9)
IMMEDIATE, ACCUMULATOR, PARAMETERS = range(3)
RQ, LEAKY, THRESHOLD, LOOKUP = range(4)
FACTOR_BITS = 26
"""Bits of the source operand of MUL, as many as a multiplier of a scale has."""


@njit(cache=True, nogil=True)
def _reject(code, memory, core, kind, f, micro_op):
    """Return True if a micro-op addresses outside a memory; addresses grow with the loops."""
    fault, words = memory.fault, code.sizes[WORDS]
    o, i = f[2] - 1, f[3] - 1
    to = micro_op[0] + o * f[4] + i * f[5]
    source = micro_op[1] + o * f[6] + i * f[7]
    if _outside(fault, ACC, to, memory.sums.shape[1]):
        return True
    if f[12] == 1 and _outside(fault, OUT, to, memory.results.shape[1]):
        return True
    other = kind >= MAC2 or (kind <= MOV and f[8] == ACCUMULATOR)
    if other and _outside(fault, ACC, source, memory.sums.shape[1]):
        return True
    other = kind <= MOV and f[8] == PARAMETERS
    if other and _outside(fault, PM, source + words - 1, code.parameters.shape[1]):
        return True
    if kind == RMUL:
        return _outside(fault, PM, f[11] + words, code.parameters.shape[1])
    return kind == MAC2 and _outside(fault, PM, f[11], code.parameters.shape[1])


@njit(cache=True, nogil=True)
def _calculate(code, memory, core, kind, f):
    """Execute ADD to MUL entry by entry.

    An entry may read the result of the previous one, except for RMUL, MAC2 and MUL, whose results
    need an extra cycle. Shifts use the low 6 bits of the immediate, multipliers the low 32 bits of
    an accumulator.
    """
    rows, bits = code.sizes[ROWS], code.sizes[ACC_BITS]
    out_bits = 16 if code.sizes[DUAL] == 1 else 8
    uop, uops, n_out, n_in = f[0], f[1], f[2], f[3]
    source, imm, mode, rec, out = f[8], np.int64(f[9]), f[10], f[11], f[12]
    if uops * n_out * n_in == 0:
        return False
    micro_ops, parameters = code.micro_ops[core], code.parameters[core]
    if _outside(memory.fault, UM, uop + uops - 1, micro_ops.shape[0]):
        return True
    sums, results = memory.sums[core], memory.results[core]
    shift = imm & 63
    ka, kb, kc = np.int64(0), np.int64(0), np.int64(0)
    last = np.int64(-1)  # previous entry
    for u in range(uop, uop + uops):
        micro_op = micro_ops[u]
        if _reject(code, memory, core, kind, f, micro_op):
            return True
        if kind == MAC2:
            ka, kb = np.int64(parameters[rec, 0]), np.int64(parameters[rec, 1])
            kc = np.int64(parameters[rec, 2])
        for o in range(n_out):
            for i in range(n_in):
                to = micro_op[0] + o * f[4] + i * f[5]
                at = micro_op[1] + o * f[6] + i * f[7]
                if kind >= RMUL:
                    if _too_early(memory.fault, to, last):
                        return True
                    if kind >= MAC2 and _too_early(memory.fault, at, last):
                        return True
                    last = to
                for r in range(rows):
                    x = sums[to, r]
                    s = imm
                    if kind <= MOV:
                        if source == ACCUMULATOR:
                            s = sums[at, r]
                        elif source == PARAMETERS:
                            s = np.int64(parameters[at + r // 16, r % 16])
                    if kind == ADD:
                        y = x + s
                    elif kind == MAX:
                        y = max(x, s)
                    elif kind == MIN:
                        y = min(x, s)
                    elif kind == MOV:
                        y = s
                    elif kind == RSHR:
                        y = _round(x, shift, mode)
                    elif kind == SHL:
                        y = x << shift
                    elif kind == RMUL:
                        scale = np.int64(parameters[rec + 1 + r // 16, r % 16])
                        y = _round(_wrap(x, 32) * (scale >> 6), scale & 63, mode)
                        y = min(max(y, np.int64(-(1 << 31))), np.int64((1 << 31) - 1))
                    elif kind == MUL:
                        y = _wrap(x, 32) * _wrap(sums[at, r], FACTOR_BITS)
                    else:
                        first = _wrap(_wrap(x, 32) * ka, bits)
                        y = first + _wrap(_wrap(sums[at, r], 32) * kb, bits) + kc
                    sums[to, r] = _wrap(y, bits)
                    if out == 1:
                        results[to, r] = _wrap(y, out_bits)
    return False


@njit(cache=True, nogil=True)
def _entry(parameters, table, number, bits):
    """Return an entry of a table: parameter words from `table` on, low bits of a lane first."""
    each = 32 // bits
    lane = number // each
    return _wrap(np.int64(parameters[table + lane // 16, lane % 16]) >> number % each * bits, bits)


@njit(cache=True, nogil=True)
def _requantise(code, memory, core, kind, f):
    """Execute RQ, LEAKY and LOOKUP: accumulator to result, with the record at `rec`.

    An entry must differ from the entry of the previous step, whose result needs an extra cycle; for
    LOOKUP, whose results need two, also from the entry before that. Shift and rounding are the low
    6 and 2 bits of their lanes; a value shifted by p is truncated to 32 bits.
    """
    rows, words = code.sizes[ROWS], code.sizes[WORDS]
    out_bits = 16 if code.sizes[DUAL] == 1 else 8
    dst, n_out, n_in, dst_out, dst_in, rec, out = f[0], f[1], f[2], f[3], f[4], f[5], f[6]
    if n_out * n_in == 0:
        return False
    sums, results, parameters = memory.sums[core], memory.results[core], code.parameters[core]
    fault = memory.fault
    last = dst + (n_out - 1) * dst_out + (n_in - 1) * dst_in
    if _outside(fault, ACC, last, sums.shape[0]):
        return True
    if out == 1 and _outside(fault, OUT, last, results.shape[0]):
        return True
    if _outside(fault, PM, rec, parameters.shape[0]):
        return True
    head = parameters[rec]
    z, lo, hi = np.int64(head[0]), np.int64(head[1]), np.int64(head[2])
    before, mode = np.int64(head[3]) & 63, np.int64(head[4]) & 3
    offsets, leaks = head[5] & 1, (head[5] >> 1) & 1
    group = (1 + offsets + leaks) * words
    if _outside(fault, PM, rec + n_out * group, parameters.shape[0]):
        return True
    table = f[9]
    last_word = table + 256 * out_bits // 512 - 1
    if kind == LOOKUP and _outside(fault, PM, last_word, parameters.shape[0]):
        return True
    last_to, older_to = np.int64(-1), np.int64(-1)
    for o in range(n_out):
        first = rec + 1 + o * group
        for i in range(n_in):
            to = dst + o * dst_out + i * dst_in
            if _too_early(fault, to, last_to):
                return True
            if kind == LOOKUP and _too_early(fault, to, older_to):
                return True
            last_to, older_to = to, last_to
            for r in range(rows):
                word, lane = first + r // 16, r % 16
                t = _wrap(_round(sums[to, r], before, mode), 32)
                c = np.int64(0)
                if offsets:
                    c = np.int64(parameters[word + words, lane])
                if kind == LEAKY and leaks and t < 0:
                    word += (1 + offsets) * words
                scale = np.int64(parameters[word, lane])
                y = _round(t * (scale >> 6) + c, scale & 63, mode) + z
                y = min(max(y, lo), hi)
                if kind == LOOKUP:
                    y = _entry(parameters, table, y & 255, out_bits)
                sums[to, r] = y
                if out == 1:
                    results[to, r] = _wrap(y, out_bits)
    return False


@njit(cache=True, nogil=True)
def _threshold(code, memory, core, f):
    """Execute THRESHOLD: one bit per lane; bits of other blocks in the packed vector are kept."""
    rows, columns, words = code.sizes[ROWS], code.sizes[COLUMNS], code.sizes[WORDS]
    dst, n_out, n_in, dst_out, dst_in, rec = f[0], f[1], f[2], f[3], f[4], f[5]
    bits, block = f[7], f[8]
    if n_out * n_in == 0:
        return False
    sums, results, parameters = memory.sums[core], memory.results[core], code.parameters[core]
    fault = memory.fault
    last = dst + (n_out - 1) * dst_out + (n_in - 1) * dst_in
    if _outside(fault, ACC, last, sums.shape[0]):
        return True
    blocks = 8 * columns // rows  # blocks per packed vector
    last = bits + (block + n_out - 1) // blocks * n_in + n_in - 1
    if _outside(fault, OUT, last, results.shape[0]):
        return True
    if _outside(fault, PM, rec + 2 * words * n_out, parameters.shape[0]):
        return True
    for o in range(n_out):
        first = rec + 1 + 2 * words * o
        number = block + o
        for i in range(n_in):
            result = results[bits + number // blocks * n_in + i]
            for r in range(rows):
                word, lane = first + r // 16, r % 16
                above = sums[dst + o * dst_out + i * dst_in, r] >= parameters[word, lane]
                flip = parameters[word + words, lane] & 1
                place = number % blocks * rows + r
                one = np.int64(1) << (place % 8)
                byte = np.int64(result[place // 8]) & ~one & 255
                if above != (flip == 1):
                    byte |= one
                result[place // 8] = _wrap(byte, 8)
    return False
