"""Kernel that runs NPU cores on a mesh, many cycles per call.

In each cycle hosts choose the flits they offer, nodes choose the flits that enter the mesh, routers
decide on moves, and cores process due events; then flits move and take effect from the next cycle
on. Units are event-driven: a core is processed when one of its instructions ends or when something
arrives that it may wait for. Only flits, and the stores and requests that create them, are
simulated cycle by cycle. Stretches without any flit are skipped.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.noc.kernel import NEVER
from chipsim.noc.moves import LOCAL, cross, decide, next_fifo, put, sleeping, take, wake
from chipsim.npu.mesh.core import STORE_UNIT, STORING, _receive, _store_address, _work
from chipsim.npu.mesh.host import _begin_work, _choose, _next_of_host, _ready_stage, _to_host
from chipsim.npu.mesh.state import (
    ACTIVE,
    CYCLE,
    FAULT,
    FLITS,
    HOST,
    SOURCES,
    TOP,
    pack_flit,
)
from chipsim.npu.mesh.steps import (
    COUNT,
    KIND,
    STREAM_OF,
    TARGET,
    TO_HOST,
)


@njit(cache=True, nogil=True)
def _grant(turn, mask):
    """Return the first source at or after a turn."""
    for step in range(SOURCES):
        source = turn + step
        if source >= SOURCES:
            source -= SOURCES
        if mask >> source & 1:
            return source
    return -1


@njit(cache=True, nogil=True)
def _enter(steps, cores, hosts, nodes, sizes, level, t):
    """Choose the flits that enter the mesh in cycle t.

    Returns their number, and True if a source has, or will have, a flit.
    """
    count, wanting = 0, False
    for v in range(len(nodes.wants)):
        mask = nodes.wants[v]
        if mask == 0:
            continue
        wanting = True
        c = nodes.core[v]
        if mask & STORING and cores.offers[c] > t:
            mask ^= STORING
            if mask == 0:
                continue
        source = _grant(nodes.turn[v], mask)
        if level[5 * v + LOCAL] >= sizes.depth:
            nodes.turn[v] = source  # offered again in the next cycle
            continue
        nodes.turn[v] = source + 1 if source + 1 < SOURCES else 0
        nodes.entering[count] = v
        if source == HOST:
            h = nodes.host[v]
            nodes.flits[count] = hosts.offered[h]
            hosts.offered[h] = -1
            nodes.wants[v] ^= 1 << HOST
        elif source > 0:
            nodes.flits[count] = cores.register[c, source - 1]
            cores.register[c, source - 1] = -1
            nodes.wants[v] ^= 1 << source
            cores.wakes[c] = min(cores.wakes[c], t)
        else:
            at = cores.job[c, STORE_UNIT]
            more, sent = steps.more[at], cores.sent[c]
            vector = sent // sizes.parts
            address = _store_address(more, vector, cores.frame[c] & 1 == 1)
            nodes.flits[count] = pack_flit(
                sizes.bits, more[TARGET], np.int64(v), more[KIND], more[STREAM_OF],
                address * sizes.parts + sent - vector * sizes.parts,
            )  # fmt: skip
            cores.sent[c] = sent + 1
            cores.offers[c] = t + 1
            if sent + 1 == more[COUNT] * sizes.parts:
                nodes.wants[v] ^= STORING
                cores.end[c, STORE_UNIT] = t + 1
                cores.wakes[c] = min(cores.wakes[c], t + 1)
        count += 1
    return count, wanting


@njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]
def _advance_chip(steps, cores, hosts, nodes, routers, seen, sizes, pause):
    """Run from scalars[CYCLE] to the pause, to the end or to a fault; return True at the pause."""
    depth, bits = sizes.depth, sizes.bits
    level = routers.level
    stride = len(routers.flits) // len(level)
    passed, scalars = nodes.passed, seen.scalars
    mask = (1 << bits) - 1
    t, working = scalars[CYCLE], scalars[ACTIVE]
    goes_on = True
    while goes_on and t < pause:
        _begin_work(hosts, sizes, t)
        for h in range(len(hosts.node)):
            if hosts.offered[h] < 0:
                hosts.offered[h] = _choose(hosts, sizes, h, t)
                if hosts.offered[h] >= 0:
                    nodes.wants[hosts.node[h]] |= 1 << HOST
        entries, wanting = _enter(steps, cores, hosts, nodes, sizes, level, t)
        working = wake(routers, bits, working, t)
        count, working = decide(routers, working, depth, t)
        for c in range(len(cores.wakes)):
            if cores.wakes[c] <= t and _work(steps, cores, nodes, seen, sizes, c, t):
                goes_on = False
        # All decisions are made: first flits move, then others enter.
        for i in range(count + entries):
            if i < count:
                leaving = routers.moves[i] // 5
                port = routers.moves[i] - 5 * leaving
                v = leaving // 5
                output = leaving - 5 * v
                moving = take(routers, bits, stride, leaving, port, t)
                passed[leaving] += 1
                if output == LOCAL:
                    kept = scalars[FLITS]
                    if kept < len(seen.cycle):
                        seen.cycle[kept], seen.flit[kept] = t, moving
                    scalars[FLITS] = kept + 1
                    source = moving >> bits & mask
                    kind, stream = moving >> (2 * bits) & 15, moving >> (2 * bits + 4) & 15
                    if kind >= TO_HOST:
                        _to_host(
                            hosts, seen, sizes, nodes.host[v], source, kind, stream, moving // TOP,
                            t,
                        )  # fmt: skip
                        goes_on = goes_on and scalars[FAULT] == 0
                    else:
                        c = nodes.core[v]
                        _receive(steps, cores, sizes, c, kind, stream, moving // TOP, t)
                    continue
                fifo = next_fifo(routers, v, output)
                due = cross(routers, leaving, t)
            else:
                v = nodes.entering[i - count]
                fifo = 5 * v + LOCAL
                moving = nodes.flits[i - count]
                due = t + 1
            working = put(routers, bits, stride, working, fifo, moving, due, t)
        t += 1
        if not wanting and count + entries + working == 0 and not sleeping(routers):
            coming = NEVER
            for c in range(len(cores.wakes)):
                coming = min(coming, cores.wakes[c])
            for v in range(len(nodes.wants)):
                if nodes.wants[v] != 0:
                    coming = t
            for h in range(len(hosts.node)):
                coming = min(coming, _next_of_host(hosts, sizes, h, t))
            if _ready_stage(hosts, sizes) >= 0:
                coming = min(coming, hosts.idle[0])
            if coming == NEVER:
                goes_on = False
            else:
                t = max(t, coming)
    scalars[CYCLE], scalars[ACTIVE] = t, working
    return goes_on
