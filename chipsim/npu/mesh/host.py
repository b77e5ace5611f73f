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
    at = hosts.at[h]
    if hosts.frame[h] >= sizes.frames or at >= hosts.first[h + 1]:
        return np.int64(-1)
    pair = hosts.pair[at]
    if pair >= 0:
        if hosts.credits[pair] == 0:
            return np.int64(-1)
        hosts.credits[pair] -= 1
    address = hosts.address[at] + hosts.odd[at] * (hosts.frame[h] & 1)
    hosts.at[h] = at + 1
    if at + 1 == hosts.first[h + 1]:
        hosts.at[h] = hosts.first[h]
        hosts.frame[h] += 1
    return pack_flit(bits, hosts.target[at], node, np.int64(MAP), hosts.stream[at], address)


@njit(cache=True, nogil=True)
def _next_of_host(hosts, sizes, h, t):
    """Return the first cycle from t on in which an idle host may offer a flit."""
    found = NEVER
    at = hosts.at[h]
    pair = hosts.pair[at] if at < hosts.first[h + 1] else -1
    if hosts.first[h] < hosts.first[h + 1] and hosts.frame[h] < sizes.frames:
        found = t if pair < 0 or hosts.credits[pair] > 0 else NEVER
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
