"""Kernel functions of a host port: flits that it sends and receives."""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.noc.kernel import NEVER
from chipsim.npu.mesh.state import (
    FAULT,
    REQUESTS,
    pack_flit,
)
from chipsim.npu.mesh.steps import (
    CREDITS,
    MAP,
    REQUEST,
    TO_HOST,
    WORDS,
)


@njit(cache=True, nogil=True)
def _choose(hosts, sizes, h, t):
    """Return the flit that a host offers from cycle t on, or -1."""
    bits, node = sizes.bits, hosts.node[h]
    if hosts.level[h] > 0:
        head = hosts.head[h]
        number = hosts.answered[h]
        behind = -(-number * sizes.denominator // sizes.numerator)
        if hosts.begin[h, head] + behind <= t:
            target = hosts.asked[h, head]
            hosts.answered[h] = number + 1
            if number + 1 == hosts.flits[h, head]:
                hosts.head[h] = (head + 1) % hosts.asked.shape[1]
                hosts.level[h] -= 1
                hosts.answered[h] = 0
            return pack_flit(bits, target, node, np.int64(WORDS), np.int64(0), np.int64(0))
    for stage in range(len(hosts.cycles) - 1, -1, -1):  # the last one: it empties the pipeline
        if _may_send(hosts, sizes, h, stage) > t:
            continue
        at, frame = hosts.at[h, stage], hosts.frame[h, stage]
        if hosts.pair[at] >= 0:
            hosts.credits[hosts.pair[at]] -= hosts.needs[at]
        address = hosts.address[at] + hosts.odd[at] * (frame & 1)
        lane = h * len(hosts.cycles) + stage
        hosts.at[h, stage] = at + 1
        if at + 1 == hosts.first[lane + 1]:
            hosts.at[h, stage] = hosts.first[lane]
            hosts.frame[h, stage] += 1
        return pack_flit(bits, hosts.target[at], node, np.int64(MAP), hosts.stream[at], address)
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _may_send(hosts, sizes, h, stage):
    """Return the first cycle in which the next flit of a stage may be sent; NEVER if that depends
    on a credit or on results."""
    lane = h * len(hosts.cycles) + stage
    frame, at = hosts.frame[h, stage], hosts.at[h, stage]
    if hosts.first[lane] == hosts.first[lane + 1] or frame >= sizes.frames:
        return NEVER
    if hosts.pair[at] >= 0 and hosts.credits[hosts.pair[at]] < hosts.needs[at]:
        return NEVER
    return hosts.released[stage, frame]


@njit(cache=True, nogil=True)
def _next_of_host(hosts, sizes, h, t):
    """Return the first cycle from t on in which an idle host may offer a flit."""
    found = NEVER
    for stage in range(len(hosts.cycles)):
        found = min(found, max(t, _may_send(hosts, sizes, h, stage)))
    if hosts.level[h] > 0:
        behind = -(-hosts.answered[h] * sizes.denominator // sizes.numerator)
        found = min(found, max(t, hosts.begin[h, hosts.head[h]] + behind))
    return found


@njit(cache=True, nogil=True)
def _to_host(hosts, seen, sizes, h, source, kind, stream, value, t):
    """Receive a flit at a host."""
    if kind == TO_HOST:
        frame = seen.written[value]
        seen.written[value] += 1
        if frame < sizes.frames:
            for stage in range(hosts.stage[value] + 1, len(hosts.cycles)):
                hosts.came[stage, frame] += 1
            seen.came[frame] += 1
            if seen.came[frame] == sizes.results:
                seen.completed[frame] = t + 1
    elif kind == CREDITS:
        hosts.credits[hosts.pairs[h, source, stream]] += value
    elif kind == REQUEST:
        places, level = hosts.asked.shape[1], hosts.level[h]
        if level == places:
            seen.scalars[FAULT] = REQUESTS
            return
        place = (hosts.head[h] + level) % places
        count = value * sizes.word
        begin = max(t + sizes.latency, hosts.free[h])
        hosts.asked[h, place], hosts.begin[h, place] = source, begin
        hosts.flits[h, place] = count
        hosts.level[h] = level + 1
        hosts.free[h] = begin - (-count * sizes.denominator // sizes.numerator)


@njit(cache=True, nogil=True)
def _ready_stage(hosts, sizes):
    """Return the first stage, from the turn on, whose next work has its results; or -1.

    Each frame has one work per stage, so turns let all stages proceed at the same rate. In the
    order of arrival the works of later frames would delay the earlier ones without bound.
    """
    count = len(hosts.cycles) - 1
    for step in range(count):
        stage = 1 + (hosts.turn[0] + step) % count
        frame = hosts.following[stage]
        if frame < sizes.frames and hosts.came[stage, frame] == hosts.wanted[stage]:
            return stage
    return -1


@njit(cache=True, nogil=True)
def _begin_work(hosts, sizes, t):
    """Begin work in cycle t, for results that arrived before, if the processor is idle."""
    while hosts.idle[0] <= t:
        stage = _ready_stage(hosts, sizes)
        if stage < 0:
            return
        hosts.idle[0] = t + hosts.cycles[stage]
        hosts.released[stage, hosts.following[stage]] = hosts.idle[0]
        hosts.following[stage] += 1
        hosts.turn[0] = stage % (len(hosts.cycles) - 1)
