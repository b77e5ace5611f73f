"""Kernel of the STORE unit; returns True at a fault, like the kernels of `chipsim.npu.loads`."""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.npu.arithmetic import _outside, _wrap
from chipsim.npu.state import (
    ACC,
    ACC_BITS,
    ADDRESS,
    BASE_STORE,
    CAUSE,
    COLUMNS,
    DIST_STORE,
    DUAL,
    FM,
    NO_CORE,
    ODD,
    OUT,
)

LOCAL, REMOTE, HOST, PARTIAL, PARTIAL_HOST = range(5)


@njit(cache=True, nogil=True)
def _write(memory, core, kind, at):
    """Write the byte lanes of the scratch vector to feature memory or to the host."""
    lanes = memory.scratch[1]
    if kind in (HOST, PARTIAL_HOST):
        place = memory.host_count[0]
        memory.host_core[place], memory.host_address[place] = core, at
        vector = memory.host_vectors[place]
        memory.host_count[0] = place + 1
    else:
        vector = memory.maps[core, at]
        place = memory.log_count[0]
        if place < len(memory.log_core):
            memory.log_core[place], memory.log_address[place] = core, at
            for r in range(len(vector)):
                memory.log_vectors[place, r] = lanes[r]
            memory.log_count[0] = place + 1
    for r in range(len(vector)):
        vector[r] = lanes[r]


@njit(cache=True, nogil=True)
def _store(code, memory, core, kind, f):
    """Execute LOCAL, REMOTE and HOST from results, PARTIAL and PARTIAL_HOST from accumulators.

    With 16-bit results and a distance `src` of the STORE queue above 0, high bytes are written at
    that distance after the low bytes.
    """
    columns, bits = code.sizes[COLUMNS], code.sizes[ACC_BITS]
    src, c_size, y_size, x_size = f[0], f[2], f[4], f[3]
    x_stride, y_stride, up = f[5], f[6], f[7] == 1
    fault = memory.fault
    count = c_size * y_size * x_size
    to = np.int64(core)
    if kind == REMOTE:
        to = np.int64(code.node[256 * f[10] + f[9]])
        if to < 0:
            fault[CAUSE], fault[ADDRESS] = NO_CORE, 256 * f[10] + f[9]
            return True
    if count == 0:
        return False
    whole = kind in (PARTIAL, PARTIAL_HOST)
    if whole:
        if _outside(fault, ACC, src + count - 1, memory.sums.shape[1]):
            return True
    elif _outside(fault, OUT, src + count - 1, memory.results.shape[1]):
        return True
    base = memory.registers[core, BASE_STORE] + f[1]
    if f[12] > 0 and memory.registers[core, ODD] == 1:
        base += np.int64(1) << (f[12] + 2)
    width = 1 if not whole else 4 if bits == 32 else 8
    high = np.int64(0)
    if code.sizes[DUAL] == 1 and f[8] == 0 and not whole:
        high = memory.registers[core, DIST_STORE]
    times = 2 if up else 1
    wrap = np.int64(f[13]) if 0 < f[13] < x_size else np.int64(x_size)
    most = base + (y_size * times - 1) * y_stride + (wrap * times - 1) * x_stride
    if wrap < x_size:
        first = base + wrap * times * x_stride - y_stride
        size = np.int64(memory.maps.shape[1])
        if _outside(fault, FM, first, first + 1 if kind in (HOST, PARTIAL_HOST) else size):
            return True
        most = max(most, most + (x_size - wrap) * times * x_stride - y_stride)
    most += c_size * width - 1 + high
    if kind not in (HOST, PARTIAL_HOST) and _outside(fault, FM, most, memory.maps.shape[1]):
        return True
    sums, results, lanes = memory.sums[core], memory.results[core], memory.scratch[1]
    written = np.int64(0)
    for c in range(c_size):
        for y in range(y_size):
            for x in range(x_size):
                entry = src + (c * y_size + y) * x_size + x
                for k in range(width + (high > 0)):
                    for r in range(columns):
                        if whole:
                            place = k * columns + r
                            byte = sums[entry, place // width] >> (place % width * 8)
                        else:
                            byte = np.int64(results[entry, r]) >> (8 * k)
                        lanes[r] = _wrap(byte, 8)
                    step = high * k if high > 0 else k
                    for dy in range(times):
                        for dx in range(times):
                            at = base + (times * y + dy) * y_stride + (times * x + dx) * x_stride
                            if x >= wrap:  # the start of the ring
                                at -= y_stride
                            _write(memory, to, kind, at + c * width + step)
                            written += 1
    if kind == REMOTE:
        memory.streams[to, f[11]] += written
    return False
