"""Kernel functions of a core on a mesh: fetch, queues, tokens, units, and receiver."""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.noc.kernel import NEVER
from chipsim.npu.cycles import DONE, FETCH, TOKEN
from chipsim.npu.mesh.state import (
    ASKED,
    FAULT,
    FAULT_CORE,
    FAULT_FROM,
    FAULT_TO,
    FINISHED,
    TOKENS,
    pack_flit,
)
from chipsim.npu.mesh.steps import (
    ASK,
    BASE,
    COUNT,
    END,
    FIRST,
    KIND,
    MAP,
    MOVED,
    PARTS,
    PRODUCTS,
    SEND,
    SLOT,
    STEP,
    STORE,
    STREAM_OF,
    TARGET,
    TIMES,
    VALUE,
    WAIT,
    WIDTH,
    WORDS,
    WRAP,
    X_SIZE,
    X_STRIDE,
    Y_SIZE,
    Y_STRIDE,
)

UNITS = 4
GEMM_UNIT, STORE_UNIT = 1, 3
STORING = 1
"""Bit of `Nodes.wants`: a store has, or will have, a flit."""
PIPELINE = 2
"""Cycles from the start of a matrix instruction until its first product may stall."""


@njit(cache=True, nogil=True)
def _store_address(more, number, odd):
    """Return the address of one of the vectors of a store."""
    times, x_stride, y_stride = more[TIMES], more[X_STRIDE], more[Y_STRIDE]
    at = more[FIRST] + (more[SLOT] if odd else 0)
    rest = number // times
    at += (number - rest * times) * x_stride
    number, rest = rest, rest // times
    at += (number - rest * times) * y_stride
    number, rest = rest, rest // more[PARTS]
    at += (number - rest * more[PARTS]) * more[STEP]
    number, rest = rest, rest // more[X_SIZE]
    x = number - rest * more[X_SIZE]
    at += x * times * x_stride - (y_stride if x >= more[WRAP] else 0)
    number, rest = rest, rest // more[Y_SIZE]
    return at + (number - rest * more[Y_SIZE]) * times * y_stride + rest * more[WIDTH]


@njit(cache=True, nogil=True)
def _settle(steps, cores, sizes, c, t):
    """Advance the products up to cycle t, before the arrival bound changes for the next cycle."""
    at = cores.job[c, GEMM_UNIT]
    if at < 0 or steps.what[at] != PRODUCTS:
        return
    k, behind = cores.place[c], steps.behind[at + 1]
    bound = max(cores.base[c], cores.pointer[c])
    first = cores.begun[c, GEMM_UNIT] + PIPELINE + cores.delay[c]
    reached = min(t + 1 - first, steps.cycles[at] - sizes.matrix)
    offset = cores.offset[c]
    while offset < reached and steps.words[k] < bound:
        offset = reached
        if k + 1 < behind and steps.after[k + 1] <= reached:
            k += 1
            offset = steps.after[k]
    cores.place[c], cores.offset[c] = k, offset


@njit(cache=True, nogil=True)
def _foresee(steps, cores, sizes, c, t):
    """Schedule the end of the products, with the arrival bound valid from cycle t on."""
    at = cores.job[c, GEMM_UNIT]
    if at < 0 or steps.what[at] != PRODUCTS:
        return
    k = cores.place[c]
    bound = max(cores.base[c], cores.pointer[c])
    begun = cores.begun[c, GEMM_UNIT]
    left = steps.cycles[at] - sizes.matrix - cores.offset[c]
    if left > 0 and steps.words[k] < bound:
        due = begun + PIPELINE + cores.delay[c] + cores.offset[c]
        cores.delay[c] += max(0, t - due)
    if left <= 0 or steps.most[k] < bound:
        cores.end[c, GEMM_UNIT] = begun + steps.cycles[at] + cores.delay[c]
        cores.wakes[c] = min(cores.wakes[c], cores.end[c, GEMM_UNIT])
    else:
        cores.end[c, GEMM_UNIT] = NEVER


@njit(cache=True, nogil=True)
def _finish(steps, cores, seen, sizes, c, unit, t):
    """End an instruction that finished before cycle t; return True if a token counter overflows."""
    at = cores.job[c, unit]
    cores.job[c, unit] = -1
    cores.end[c, unit] = NEVER
    cores.free[c, unit] = t
    late = t - cores.begun[c, unit] - steps.cycles[at]
    seen.waits[c, unit, steps.cause[at]] += late
    row = seen.kept[cores.frame[c]]
    if row >= 0:
        seen.ends[row, at] = t
    for other in range(UNITS):
        if steps.signal[at] >> other & 1:
            cores.tokens[c, unit, other] += 1
            if cores.tokens[c, unit, other] > sizes.tokens:
                seen.scalars[FAULT], seen.scalars[FAULT_CORE] = TOKENS, c
                seen.scalars[FAULT_FROM], seen.scalars[FAULT_TO] = unit, other
                return True
    return False


@njit(cache=True, nogil=True)
def _end_frame(steps, cores, seen, sizes, c, t):
    """Start the next frame if nothing of this one is left; return True if started."""
    if cores.position[c] < steps.first[c + 1]:
        return False
    for unit in range(UNITS):
        if cores.job[c, unit] >= 0 or cores.level[c, unit] > 0:
            return False
    seen.ended[c, cores.frame[c]] = t
    cores.frame[c] += 1
    last = steps.first[c + 1] - 1
    if last >= steps.first[c] and steps.what[last] == END and steps.more[last, VALUE] == 1:
        cores.tokens[c] = 0
    if cores.frame[c] == sizes.frames:
        cores.wakes[c] = NEVER
        seen.scalars[FINISHED] += 1
        return True
    again = t + sizes.restart
    for unit in range(UNITS):
        seen.waits[c, unit, DONE] += again - cores.free[c, unit]
        cores.free[c, unit] = again
    cores.position[c] = steps.first[c]
    cores.fetches[c] = again
    cores.wakes[c] = again
    return True


@njit(cache=True, nogil=True)
def _begin(steps, cores, nodes, seen, sizes, c, unit, at, t):
    """Start an instruction."""
    cores.job[c, unit] = at
    cores.begun[c, unit] = t
    seen.busy[c, unit] += steps.cycles[at]
    row = seen.kept[cores.frame[c]]
    if row >= 0:
        seen.starts[row, at] = t
    what, more = steps.what[at], steps.more[at]
    cores.end[c, unit] = t + steps.cycles[at]
    if more[MOVED] > 0:
        first = max(t, cores.path[c])
        cores.path[c] = first + more[MOVED]
        cores.end[c, unit] = max(first + steps.cycles[at], cores.path[c])
    if what in (WAIT, SEND):
        cores.end[c, unit] = NEVER
    elif what == ASK:
        _settle(steps, cores, sizes, c, t)
        cores.pointer[c], cores.filled[c] = more[VALUE], 0
        _foresee(steps, cores, sizes, c, t + 1)
        if more[COUNT] > 0:
            cores.end[c, unit] = NEVER
    elif what == BASE:
        _settle(steps, cores, sizes, c, t)
        cores.base[c] = more[VALUE]
        _foresee(steps, cores, sizes, c, t + 1)
    elif what == PRODUCTS:
        cores.place[c], cores.offset[c], cores.delay[c] = steps.behind[at], 0, 0
        _foresee(steps, cores, sizes, c, t + 1)
    elif what == STORE:
        cores.sent[c] = 0
        if more[TARGET] >= 0 and more[COUNT] > 0:
            cores.end[c, unit] = NEVER
            cores.offers[c] = t + sizes.store
            nodes.wants[cores.node[c]] |= STORING


@njit(cache=True, nogil=True)
def _go_on(steps, cores, nodes, sizes, c, unit, t):
    """Advance an instruction of unknown end: the event it waits for may have happened."""
    at = cores.job[c, unit]
    what, more = steps.what[at], steps.more[at]
    if what == WAIT:
        stream = more[STREAM_OF]
        if cores.streams[c, stream] >= more[COUNT]:
            cores.streams[c, stream] -= more[COUNT]
            cores.end[c, unit] = t + sizes.control
    elif what in (SEND, ASK):
        register = unit if what == SEND else ASKED
        if cores.register[c, register] < 0:
            node = cores.node[c]
            cores.register[c, register] = pack_flit(
                sizes.bits, more[TARGET], node, more[KIND], more[STREAM_OF], more[COUNT]
            )
            nodes.wants[node] |= 1 << (1 + register)
            cores.end[c, unit] = t + (sizes.control if what == SEND else sizes.stream)


@njit(cache=True, nogil=True)
def _work(steps, cores, nodes, seen, sizes, c, t):
    """Run cycle t of a core; return True at a fault."""
    if cores.frame[c] == sizes.frames:
        cores.wakes[c] = NEVER
        return False
    for unit in range(UNITS):
        if cores.end[c, unit] <= t and _finish(steps, cores, seen, sizes, c, unit, t):
            return True
    if _end_frame(steps, cores, seen, sizes, c, t):
        return False
    again = False
    at = cores.position[c]
    if t >= cores.fetches[c] and at < steps.first[c + 1]:
        queue = np.int64(steps.unit[at])
        level = cores.level[c, queue]
        if level < sizes.queue:
            place = (cores.head[c, queue] + level) % sizes.queue
            cores.queue[c, queue, place], cores.dispatched[c, queue, place] = at, t
            cores.level[c, queue] = level + 1
            cores.position[c] = at + 1
            again = True
    for unit in range(UNITS):
        head = cores.head[c, unit]
        if cores.job[c, unit] >= 0 or cores.level[c, unit] == 0:
            continue
        ready = cores.dispatched[c, unit, head] + 1
        if ready > t:
            continue
        at = cores.queue[c, unit, head]
        wait, lacking = np.int64(steps.wait[at]), 0
        for other in range(UNITS):
            if wait >> other & 1 and cores.tokens[c, other, unit] == 0:
                lacking |= 1 << other
        if lacking:
            cores.lacking[c, unit] = lacking
            continue
        cores.head[c, unit] = (head + 1) % sizes.queue
        cores.level[c, unit] -= 1
        idle = cores.free[c, unit]
        seen.waits[c, unit, FETCH] += max(0, ready - idle)
        late = t - max(idle, ready)
        for other in range(UNITS):
            if wait >> other & 1:
                cores.tokens[c, other, unit] -= 1
        if late > 0:  # the last unit among the latest
            other = UNITS - 1
            while not cores.lacking[c, unit] >> other & 1:
                other -= 1
            seen.waits[c, unit, TOKEN + other] += late
        _begin(steps, cores, nodes, seen, sizes, c, unit, at, t)
        again = True
    wakes = t + 1 if again else NEVER
    if t < cores.fetches[c]:
        wakes = cores.fetches[c]
    for unit in range(UNITS):
        if cores.job[c, unit] >= 0:
            if cores.end[c, unit] == NEVER:
                _go_on(steps, cores, nodes, sizes, c, unit, t)
            wakes = min(wakes, cores.end[c, unit])
    cores.wakes[c] = wakes
    return False


@njit(cache=True, nogil=True)
def _receive(steps, cores, sizes, c, kind, stream, value, t):
    """Receive a flit, effective from the next cycle on."""
    if kind == WORDS:
        cores.filled[c] += 1
        if cores.filled[c] == sizes.word:
            _settle(steps, cores, sizes, c, t)
            cores.filled[c] = 0
            cores.pointer[c] += 1
            _foresee(steps, cores, sizes, c, t + 1)
        return
    if kind == MAP:
        vector = value // sizes.parts
        at = cores.job[c, STORE_UNIT]
        if (
            sizes.arrives == 0
            and at >= 0
            and steps.what[at] == STORE
            and steps.more[at, TARGET] < 0
        ):
            more = steps.more[at]
            number = t - cores.begun[c, STORE_UNIT] - sizes.store - cores.sent[c]
            if 0 <= number < more[COUNT]:
                odd = cores.frame[c] & 1 == 1
                if (_store_address(more, number, odd) >> 1 & 3) == (vector >> 1 & 3):
                    cores.sent[c] += 1
                    cores.end[c, STORE_UNIT] += 1
        if value - vector * sizes.parts < sizes.parts - 1:
            return
        if sizes.arrives > 0:
            cores.path[c] = max(cores.path[c], t + 1) + sizes.arrives
        value = np.int64(1)
    cores.streams[c, stream] += value
    cores.wakes[c] = min(cores.wakes[c], t + 1)
