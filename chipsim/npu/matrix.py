"""Kernels of the matrix unit; each returns True at a fault, like the kernels of
`chipsim.npu.loads`."""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.npu.arithmetic import _low, _outside, _too_early, _wrap
from chipsim.npu.state import (
    ACC,
    ACC_BITS,
    ADDRESS,
    ARRIVED,
    BASE_WEIGHTS,
    BINARY,
    CAUSE,
    COLUMNS,
    DIST_ACC,
    DIST_WGT,
    DUAL,
    INP,
    LANES,
    NEVER,
    NO_UNIT,
    PM,
    SIZE,
    UM,
    WHERE,
    WM,
    WORDS,
)

INT8, BITS, DUAL_PIXEL, DUAL_KERNEL, INT16, DEPTHWISE = range(6)


# Products take whole arrays and indices: creating a view of a row would cost as much as a product.


@njit(cache=True, nogil=True)
def _add_bytes(weights, w, x, part, sums, a, bits):
    """sums[a] += weights[w] * x, for bytes; columns in groups of four, padded with 0.

    x : int32, one per column
    part : int32, shape (LANES,), scratch
    """
    for first in range(0, weights.shape[2], LANES):
        for r in range(LANES):
            part[r] = 0
        for c in range(0, weights.shape[1], 4):
            x0, x1, x2, x3 = x[c], x[c + 1], x[c + 2], x[c + 3]
            for r in range(LANES):
                part[r] += (
                    np.int32(weights[w, c, first + r]) * x0
                    + np.int32(weights[w, c + 1, first + r]) * x1
                    + np.int32(weights[w, c + 2, first + r]) * x2
                    + np.int32(weights[w, c + 3, first + r]) * x3
                )
        for r in range(LANES):
            sums[a, first + r] = _wrap(sums[a, first + r] + part[r], bits)


@njit(cache=True, nogil=True)
def _add_halves(weights, w, inputs, i, sums, a, bits):
    """sums[a] += (low bytes in w, high bytes in w + 1) * inputs[i], for 16 bits."""
    for c in range(weights.shape[1]):
        x = np.int64(inputs[i, c])
        for r in range(weights.shape[2]):
            low = np.int64(weights[w, c, r]) & 255
            weight = (np.int64(weights[w + 1, c, r]) << 8) | low
            sums[a, r] = _wrap(sums[a, r] + weight * x, bits)


@njit(cache=True, nogil=True)
def _pack(inputs, columns, packed):
    """Pack bytes of vectors into words of 64 bits, padded with 0."""
    for i in range(packed.shape[0]):
        for k in range(packed.shape[1]):
            eight = np.uint64(0)
            for j in range(min(8, columns - 8 * k)):
                byte = np.uint64(np.int64(inputs[i, 8 * k + j]) & 255)
                eight |= byte << np.uint64(8 * j)
            packed[i, k] = eight


@njit(cache=True, nogil=True)
def _add_signs(words, w, packed, i, width, count, sums, a, bits):
    """sums[a] += 2 * popcount(xnor(words[w], packed[i])) - width; padding bits are 0 in both."""
    ones, twos = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
    fours, eights = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x00FF00FF00FF00FF)
    for first in range(0, words.shape[2], LANES):
        for r in range(LANES):
            count[r] = np.uint64(0)
        for k in range(words.shape[1]):
            x = packed[i, k]
            for r in range(LANES):
                v = words[w, k, first + r] ^ x
                v = v - ((v >> np.uint64(1)) & ones)
                v = (v & twos) + ((v >> np.uint64(2)) & twos)
                count[r] += (v + (v >> np.uint64(4))) & fours  # per byte: at most 8 words
        for r in range(LANES):
            v = count[r]
            v = (v & eights) + ((v >> np.uint64(8)) & eights)
            v = v + (v >> np.uint64(16))
            v = (v + (v >> np.uint64(32))) & np.uint64(0xFFF)
            sums[a, first + r] = _wrap(sums[a, first + r] + width - 2 * np.int64(v), bits)


@njit(cache=True, nogil=True)
def _add_lanes(weights, w, tap, inputs, i, sums, a, bits):
    """sums[a] += row `tap` of weights[w] times inputs[i], lane by lane."""
    for r in range(weights.shape[1]):
        product = np.int64(weights[w, r, tap]) * _low(inputs[i, r])
        sums[a, r] = _wrap(sums[a, r] + product, bits)


@njit(cache=True, nogil=True)
def _start(sums, a, parameters, first, zero):
    """Initialise an accumulator: 0, or the parameter words from `first` on."""
    for r in range(sums.shape[1]):
        sums[a, r] = 0 if zero else parameters[first + r // 16, r % 16]


@njit(cache=True, nogil=True)
def _reject(code, memory, core, kind, f, micro_op):
    """Return True if a micro-op addresses outside a memory; addresses grow with the loops."""
    fault, registers = memory.fault, memory.registers[core]
    o, i = f[2] - 1, f[3] - 1
    pair = kind in (DUAL_PIXEL, DUAL_KERNEL)
    acc = micro_op[0] + o * f[4] + i * f[5] + (registers[DIST_ACC] if pair else 0)
    word = micro_op[2] + o * f[8] + i * f[9]
    if kind == DUAL_KERNEL:
        word += registers[DIST_WGT]
    if kind == INT16:
        word += 1
    if _outside(fault, ACC, acc, memory.sums.shape[1]):
        return True
    if _outside(fault, INP, micro_op[1] + o * f[6] + i * f[7], memory.inputs.shape[1]):
        return True
    if _outside(fault, WM, word, code.weights.shape[1]):
        return True
    if kind == DEPTHWISE and _outside(fault, WM, micro_op[3], code.sizes[COLUMNS]):
        return True
    if f[12] == 1 and word >= registers[BASE_WEIGHTS] and word >= registers[ARRIVED]:
        fault[CAUSE], fault[WHERE], fault[ADDRESS], fault[SIZE] = (
            NEVER, WM, word, registers[ARRIVED],
        )  # fmt: skip
        return True
    if micro_op[5] == 1 and f[10] == 2:
        words = code.sizes[WORDS] * (2 if kind == DUAL_KERNEL else 1)
        if _outside(fault, PM, f[11] + micro_op[4] + words - 1, code.parameters.shape[1]):
            return True
    return False


@njit(cache=True, nogil=True)
def _multiply(code, memory, core, kind, f):
    """Execute GEMM: all micro-ops, outer and inner steps."""
    columns, bits, dual = code.sizes[COLUMNS], code.sizes[ACC_BITS], code.sizes[DUAL]
    fault = memory.fault
    if (kind in (DUAL_PIXEL, DUAL_KERNEL, INT16) and dual == 0) or (
        kind == BITS and code.sizes[BINARY] == 0
    ):
        fault[CAUSE] = NO_UNIT
        return True
    uop, uops, n_out, n_in = f[0], f[1], f[2], f[3]
    if uops * n_out * n_in == 0:
        return False
    pair = kind in (DUAL_PIXEL, DUAL_KERNEL)
    if pair and _too_early(fault, memory.registers[core, DIST_ACC], 0):
        return True  # both sums of a pair would use one entry
    micro_ops, parameters = code.micro_ops[core], code.parameters[core]
    if _outside(fault, UM, uop + uops - 1, micro_ops.shape[0]):
        return True
    sums, inputs, weights = memory.sums[core], memory.inputs[core], code.weights[core]
    signs = code.bits[core]
    acc_distance = memory.registers[core, DIST_ACC]
    wgt_distance = memory.registers[core, DIST_WGT]
    words = code.sizes[WORDS]
    x = memory.scratch[1]
    part = memory.scratch[0]
    count = np.zeros(LANES, dtype=np.uint64)
    packed = np.zeros((inputs.shape[0] if kind == BITS else 0, signs.shape[1]), dtype=np.uint64)
    _pack(inputs, columns, packed)
    for u in range(uop, uop + uops):
        micro_op = micro_ops[u]
        if _reject(code, memory, core, kind, f, micro_op):
            return True
        acc, inp = np.int64(micro_op[0]), np.int64(micro_op[1])
        wgt, tap = np.int64(micro_op[2]), np.int64(micro_op[3])
        init = f[10] if micro_op[5] == 1 else 0
        bias = f[11] + micro_op[4]
        for o in range(n_out):
            for i in range(n_in):
                a = acc + o * f[4] + i * f[5]
                vector = inp + o * f[6] + i * f[7]
                w = wgt + o * f[8] + i * f[9]
                if init:
                    _start(sums, a, parameters, bias, init == 1)
                    if pair:
                        other = bias + (words if kind == DUAL_KERNEL else 0)
                        _start(sums, a + acc_distance, parameters, other, init == 1)
                if kind == BITS:
                    _add_signs(signs, w, packed, vector, 8 * columns, count, sums, a, bits)
                elif kind == INT16:
                    _add_halves(weights, w, inputs, vector, sums, a, bits)
                elif kind == DEPTHWISE:
                    _add_lanes(weights, w, tap, inputs, vector, sums, a, bits)
                else:
                    for c in range(weights.shape[1]):
                        x[c] = _low(inputs[vector, c])
                    _add_bytes(weights, w, x, part, sums, a, bits)
                    if kind == DUAL_PIXEL:
                        for c in range(weights.shape[1]):
                            x[c] = np.int64(inputs[vector, c]) >> 8
                        _add_bytes(weights, w, x, part, sums, a + acc_distance, bits)
                    elif kind == DUAL_KERNEL:
                        second = a + acc_distance
                        _add_bytes(weights, w + wgt_distance, x, part, sums, second, bits)
    return False
