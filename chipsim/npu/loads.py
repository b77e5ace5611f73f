"""Kernels of the LOAD unit.

Each returns True if the instruction cannot be executed and stores the reason in `Memory.fault`.
Fields are unsigned, so the last address of an instruction is its largest; only that is checked.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.npu.arithmetic import _outside, _wrap
from chipsim.npu.state import (
    ACC,
    ACC_BITS,
    ADDRESS,
    ARRIVED,
    BASE_LOAD,
    BASE_WEIGHTS,
    CAUSE,
    COLUMNS,
    DIST_LOAD,
    DUAL,
    FILTERS,
    FM,
    HM,
    HOST,
    INP,
    NO_UNIT,
    ODD,
    PM,
    ROWS,
    SIZE,
    STATIC,
    UM,
    UNCOVERED,
    WHERE,
    WM,
    WORDS,
)


@njit(cache=True, nogil=True)
def _load_area(code, memory, core, kind, f):
    """Execute INP, ACC8 (bytes, or pairs of bytes as 16 bits), ACC32 (all bytes of a lane)."""
    rows, columns = code.sizes[ROWS], code.sizes[COLUMNS]
    dst, c_size, x_size, y_size = f[0], f[2], f[3], f[4]
    x_stride, y_stride = f[5], f[6]
    top, left, value = f[7], f[9], f[11]
    if c_size * x_size * y_size == 0:
        return False
    into = memory.inputs.shape[1] if kind == 0 else memory.sums.shape[1]
    last = dst + c_size * x_size * y_size - 1
    if _outside(memory.fault, INP if kind == 0 else ACC, last, into):
        return True
    bits = code.sizes[ACC_BITS]
    dual = code.sizes[DUAL] == 1
    if kind == 0 and not dual:
        value = _wrap(value, 8)
    width = 1 if kind != 2 else 4 if bits == 32 else 8
    source = memory.registers[core, BASE_LOAD] + f[1]
    if f[12] > 0 and memory.registers[core, ODD] == 1:
        source += np.int64(1) << (f[12] + 2)
    high = memory.registers[core, DIST_LOAD] if dual and kind != 2 else 0
    y_end, x_end = y_size - f[8], x_size - f[10]
    wrap = np.int64(f[13]) if 0 < f[13] < x_end - left else np.int64(x_end - left)
    if y_end > top and x_end > left:
        most = source + (y_end - top - 1) * y_stride + (wrap - 1) * x_stride
        if wrap < x_end - left:
            first = source + wrap * x_stride - y_stride
            if _outside(memory.fault, FM, first, memory.maps.shape[1]):
                return True
            most = max(most, most + (x_end - left - wrap) * x_stride - y_stride)
        if _outside(memory.fault, FM, most + high + c_size * width - 1, memory.maps.shape[1]):
            return True
    maps, inputs, sums = memory.maps[core], memory.inputs[core], memory.sums[core]
    for y in range(y_size):
        for x in range(x_size):
            pad = not (top <= y < y_end and left <= x < x_end)
            first = source + (y - top) * y_stride + (x - left) * x_stride
            if x - left >= wrap:  # the start of the ring
                first -= y_stride
            for c in range(c_size):
                to = dst + (c * y_size + y) * x_size + x
                at = first + c * width
                if pad:
                    if kind == 0:
                        for r in range(columns):
                            inputs[to, r] = value
                    else:
                        for r in range(rows):
                            sums[to, r] = value
                elif kind == 0:
                    if high > 0:
                        for r in range(columns):
                            low = np.int64(maps[at, r]) & 255
                            inputs[to, r] = (np.int64(maps[at + high, r]) << 8) | low
                    else:
                        for r in range(columns):
                            inputs[to, r] = maps[at, r]
                elif kind == 1:
                    if high > 0:
                        for r in range(rows):
                            low = np.int64(maps[at, r]) & 255
                            sums[to, r] = (np.int64(maps[at + high, r]) << 8) | low
                    else:
                        for r in range(rows):
                            sums[to, r] = maps[at, r]
                else:
                    for r in range(rows):
                        number = np.int64(0)
                        for k in range(width):
                            place = r * width + k
                            byte = np.int64(maps[at + place // columns, place % columns]) & 255
                            number |= byte << (8 * k)
                        sums[to, r] = _wrap(number, bits)
    return False


@njit(cache=True, nogil=True)
def _load_bias(code, memory, core, f):
    """Execute BIAS: parameters to accumulators, the words of one block per outer step."""
    rows, words = code.sizes[ROWS], code.sizes[WORDS]
    dst, bm, n_out, n_in, dst_out, dst_in = f[0], f[1], f[2], f[3], f[4], f[5]
    if n_out * n_in == 0:
        return False
    parameters, sums = code.parameters[core], memory.sums[core]
    last = dst + (n_out - 1) * dst_out + (n_in - 1) * dst_in
    if _outside(memory.fault, ACC, last, sums.shape[0]):
        return True
    if _outside(memory.fault, PM, bm + n_out * words - 1, parameters.shape[0]):
        return True
    for o in range(n_out):
        for i in range(n_in):
            to = dst + o * dst_out + i * dst_in
            for r in range(rows):
                sums[to, r] = parameters[bm + o * words + r // 16, r % 16]
    return False


@njit(cache=True, nogil=True)
def _load_windows(code, memory, core, f):
    """Execute WIN: build columns of the im2col matrix of a T-mode map.

    A word has two vectors in each of four banks, one bank per channel. The packets' data is read
    directly from the map. Window k of a packet is k windows after the window of its header; windows
    that start below the map are dropped and produce no output.
    """
    columns, filters = code.sizes[COLUMNS], code.sizes[FILTERS]
    dst, head, packets, width, height = f[0], f[2], f[3], f[4], f[5]
    kh, kw, sh, sw, top, left = f[6], f[7], f[8], f[9], f[10], f[11]
    in_row, groups, value, pp = f[12], f[13], f[14], f[15]
    fault = memory.fault
    if filters == 0:
        fault[CAUSE] = NO_UNIT
        return True
    if packets == 0:
        return False
    if _outside(fault, HM, head + packets - 1, code.headers.shape[1]):
        return True
    maps, inputs = memory.maps[core], memory.inputs[core]
    bank = 2 * columns  # bytes per word and bank
    words = (width * height + bank - 1) // bank
    base = memory.registers[core, BASE_LOAD] // 8 + f[1]
    if pp > 0 and memory.registers[core, ODD] == 1:
        base += (np.int64(1) << (pp + 2)) // 8
    if _outside(fault, FM, (base + words * groups) * 8 - 1, maps.shape[0]):
        return True
    vectors = (4 * groups * kh * kw + columns - 1) // columns
    window = np.int64(0)
    for packet in range(packets):
        header = code.headers[core, head + packet]
        begin, length = header & 0xFFFF, (header >> 16) & 0xFFFF
        x, y = (header >> 32) & 0xFFFF, (header >> 48) & 0xFFFF
        for _ in range(filters):
            if y >= height + top:
                break
            if _outside(fault, INP, dst + (window + 1) * vectors - 1, inputs.shape[0]):
                return True
            place = np.int64(0)
            to = dst + window * vectors
            for group in range(groups):
                for ky in range(kh):
                    for kx in range(kw):
                        py, px = y + ky - top, x + kx - left
                        inside = 0 <= py < height and 0 <= px < width
                        pixel = py * width + px
                        word = pixel // bank
                        if inside and not begin <= word < begin + length:
                            fault[CAUSE], fault[WHERE] = UNCOVERED, HM
                            fault[ADDRESS], fault[SIZE] = head + packet, word
                            return True
                        at = (base + group * words + word) * 8 + pixel % bank // columns
                        for channel in range(4):
                            byte = value
                            if inside:
                                byte = np.int64(maps[at + 2 * channel, pixel % columns])
                            inputs[to + place // columns, place % columns] = byte
                            place += 1
            while place < vectors * columns:
                inputs[to + place // columns, place % columns] = 0
                place += 1
            window += 1
            x += sw
            if x >= in_row * sw:
                x = np.int64(0)
                y += sh
    return False


@njit(cache=True, nogil=True)
def _store_word(code, core, to, word):
    """Write a weight word in the layouts of the products."""
    rows, columns = code.sizes[ROWS], code.sizes[COLUMNS]
    weights, bits = code.weights[core], code.bits[core]
    for r in range(rows):
        for c in range(columns):
            weights[to, c, r] = word[r, c]
        if bits.shape[0] > 0:
            for k in range(bits.shape[1]):
                eight = np.uint64(0)
                for j in range(min(8, columns - 8 * k)):
                    byte = np.uint64(np.int64(word[r, 8 * k + j]) & 255)
                    eight |= byte << np.uint64(8 * j)
                bits[to, k, r] = eight


@njit(cache=True, nogil=True)
def _load_weights(code, memory, core, f):
    """Execute WSTREAM: words from the host's memory arrive immediately."""
    dst, count, host = f[0], f[1], f[2]
    fault = memory.fault
    if count > 0:
        if dst < memory.registers[core, BASE_WEIGHTS]:
            fault[CAUSE], fault[WHERE], fault[ADDRESS] = STATIC, WM, dst
            fault[SIZE] = memory.registers[core, BASE_WEIGHTS]
            return True
        if _outside(fault, WM, dst + count - 1, code.weights.shape[1]):
            return True
        if _outside(fault, HOST, host + count - 1, code.host_weights.shape[0]):
            return True
    for k in range(count):
        _store_word(code, core, dst + k, code.host_weights[host + k])
    memory.registers[core, ARRIVED] = dst + count
    return False


@njit(cache=True, nogil=True)
def _number(maps, columns, first, count):
    """Return bytes of the map from byte `first` on as a little-endian number."""
    number = np.int64(0)
    for k in range(count):
        place = first + k
        number |= (np.int64(maps[place // columns, place % columns]) & 255) << (8 * k)
    return number


@njit(cache=True, nogil=True)
def _load_table(code, memory, core, f):
    """Execute TABLE: micro-ops and headers of 8 bytes, parameter words of 64; whole ones only."""
    columns = code.sizes[COLUMNS]
    dst, vectors, table = f[0], f[2], f[3]
    maps, fault = memory.maps[core], memory.fault
    if vectors == 0:
        return False
    source = memory.registers[core, BASE_LOAD] + f[1]
    if _outside(fault, FM, source + vectors - 1, maps.shape[0]):
        return True
    first = source * columns
    if table == 1:
        count = vectors * columns // 64
        if count and _outside(fault, PM, dst + count - 1, code.parameters.shape[1]):
            return True
        for k in range(count):
            for r in range(16):
                number = _number(maps, columns, first + 64 * k + 4 * r, 4)
                code.parameters[core, dst + k, r] = _wrap(number, 32)
        return False
    count = vectors * columns // 8
    size = code.micro_ops.shape[1] if table == 0 else code.headers.shape[1]
    if count and _outside(fault, UM if table == 0 else HM, dst + count - 1, size):
        return True
    for k in range(count):
        number = _number(maps, columns, first + 8 * k, 8)
        if table == 0:
            micro_op = code.micro_ops[core, dst + k]
            micro_op[0] = number & 0xFFF
            micro_op[1] = (number >> 12) & 0xFFF
            micro_op[2] = (number >> 24) & 0xFFF
            micro_op[3] = (number >> 36) & 0xF
            micro_op[4] = (number >> 40) & 0x1FF
            micro_op[5] = (number >> 49) & 1
        else:
            code.headers[core, dst + k] = number
    return False
