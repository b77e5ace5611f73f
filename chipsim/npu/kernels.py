"""Kernel that runs one frame of the programs of all cores of a chip.

A core runs its instructions in program order until one waits for a stream; then the next core runs.
Tokens only order parallel units consistently with program order, so they are ignored.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.npu.alu import LOOKUP, THRESHOLD, _calculate, _requantise, _threshold
from chipsim.npu.loads import (
    _load_area,
    _load_bias,
    _load_table,
    _load_weights,
    _load_windows,
)
from chipsim.npu.matrix import _multiply
from chipsim.npu.state import (
    ADDRESS,
    CAUSE,
    CORE,
    DEADLOCK,
    DIST_ACC,
    DIST_LOAD,
    DIST_STORE,
    DIST_WGT,
    INSTRUCTION,
    NO_CORE,
    UNKNOWN,
)
from chipsim.npu.stores import HOST, _store

CTRL, LOAD, GEMM, ALU, REQUANTISE, STORE = range(6)
NOP, WAIT, SEND, END, BASE, DIST = range(6)
WENT, WAITS, ENDED, FAULT = range(4)


@njit(cache=True, nogil=True)
def _control(code, memory, core, kind, f):
    """Execute CTRL; registers are set by the queue that reads them."""
    if kind == WAIT:
        if memory.streams[core, f[1]] < f[2]:
            return WAITS
        memory.streams[core, f[1]] -= f[2]
    elif kind == SEND and f[6] == 1:
        memory.credits[core, f[1]] += f[2]
    elif kind == SEND:
        to = code.node[256 * f[4] + f[3]]
        if to < 0:
            memory.fault[CAUSE], memory.fault[ADDRESS] = NO_CORE, 256 * f[4] + f[3]
            return FAULT
        memory.streams[to, f[1]] += f[2]
    elif kind == END:
        return ENDED
    elif kind == BASE and f[1] < 3:
        memory.registers[core, f[1]] = f[2]
    elif kind == DIST:
        if f[0] == 0:
            memory.registers[core, DIST_LOAD] = f[4]
        elif f[0] == 1:
            memory.registers[core, DIST_ACC] = f[2]
            memory.registers[core, DIST_WGT] = f[3]
        elif f[0] == 3:
            memory.registers[core, DIST_STORE] = f[4]
    elif kind != NOP:
        memory.fault[CAUSE] = UNKNOWN
        return FAULT
    return WENT


@njit(cache=True, nogil=True)
def _execute(code, memory, core, at):
    """Execute one instruction."""
    op, kind, f = np.int64(code.op[at]), np.int64(code.kind[at]), code.fields[at]
    wrong = False
    if op == CTRL:
        return _control(code, memory, core, kind, f)
    if op == LOAD and kind <= 2:
        wrong = _load_area(code, memory, core, kind, f)
    elif op == LOAD and kind == 3:
        wrong = _load_bias(code, memory, core, f)
    elif op == LOAD and kind == 4:
        wrong = _load_windows(code, memory, core, f)
    elif op == LOAD and kind == 5:
        wrong = _load_weights(code, memory, core, f)
    elif op == LOAD and kind == 6:
        wrong = _load_table(code, memory, core, f)
    elif op == GEMM and kind <= 5:
        wrong = _multiply(code, memory, core, kind, f)
    elif op == ALU and kind <= 8:
        wrong = _calculate(code, memory, core, kind, f)
    elif op == REQUANTISE and kind == THRESHOLD:
        wrong = _threshold(code, memory, core, f)
    elif op == REQUANTISE and kind <= LOOKUP:
        wrong = _requantise(code, memory, core, kind, f)
    elif op == STORE and kind <= 4:
        wrong = _store(code, memory, core, kind, f)
    else:
        memory.fault[CAUSE] = UNKNOWN
        wrong = True
    return FAULT if wrong else WENT


@njit(cache=True, nogil=True)
def _run(code, memory, first, behind):
    """Run all cores to their ends, or to a fault, which is stored in `memory.fault`.

    first, behind : first and end instruction of each core, counted over all cores' instructions
    """
    cores = len(code.start) - 1
    position = memory.position
    for core in range(cores):
        position[core] = first[core]
    while True:
        moved, waiting = False, np.int64(-1)
        for core in range(cores):
            while position[core] < behind[core]:
                at = position[core]
                done = _execute(code, memory, core, at)
                if done == FAULT:
                    memory.fault[CORE] = core
                    memory.fault[INSTRUCTION] = at - code.start[core]
                    return
                if done == WAITS:
                    waiting = np.int64(core)
                    break
                moved = True
                position[core] = behind[core] if done == ENDED else at + 1
        if waiting < 0:
            return
        if not moved:
            memory.fault[CAUSE] = DEADLOCK
            memory.fault[CORE] = waiting
            memory.fault[INSTRUCTION] = position[waiting] - code.start[waiting]
            return


@njit(cache=True, nogil=True)
def _run_in_order(code, memory, cores, places):
    """Run instructions of cores in the given order; a fault is stored in `memory.fault`."""
    for one in range(len(cores)):
        core, at = cores[one], code.start[cores[one]] + places[one]
        memory.position[core] = at
        done = _execute(code, memory, core, at)
        if done != WENT and done != ENDED:
            if done == WAITS:
                memory.fault[CAUSE] = DEADLOCK
            memory.fault[CORE] = core
            memory.fault[INSTRUCTION] = places[one]
            return


@njit(cache=True, nogil=True)
def _show_store(code, memory, core, place):
    """Execute a remote store as a store to the host; a fault is stored in `memory.fault`."""
    at = code.start[core] + place
    if _store(code, memory, core, HOST, code.fields[at]):
        memory.fault[CORE] = core
        memory.fault[INSTRUCTION] = place
