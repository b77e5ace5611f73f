"""Independent computation of the cycles in which queues of packets are emptied.

Unlike `chipsim.traffic.queues`, it solves the linear equations of the waiting times of an output.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Floats = NDArray[np.float64]

CORE = 4  # direction index of the core port, as in `mapper.evaluation.verify_latency`
BEHIND = 3  # packets that wait after the head of a buffer, or in a core
TOO_LONG = 2.0  # share of time of inputs that are not emptied


class RouterFlits(NamedTuple):
    """Packets through the routers.

    flits : (routers, 5, 5), by input and output, comes : (routers, 5), by input; directions as in
        `mapper.evaluation.verify_latency`
    own : (cores,), packets of each core to itself, which are not in flits
    service : (4, rows, columns), cycles of a flit on each link
    router : of each core; laps : how often the routers of a line are followed
    order : with broken links, groups of links 4 * router + way: packets wait for earlier groups
    """

    flits: NDArray[Any]
    comes: NDArray[Any]
    own: Int64
    service: Floats
    router: Int64
    laps: int
    order: list[Int64] | None = None

    def scaled(self, unit: float, sent: Floats) -> RouterFlits:
        """Return all flits in real units; sent : packets of each core, including its own"""
        flits, comes = self.flits * unit, self.comes * unit
        flits[:, CORE, CORE] += np.bincount(self.router, self.own * unit, len(flits))
        comes[:, CORE] = np.bincount(self.router, sent, len(comes))
        return self._replace(flits=flits, comes=comes)


def drained(mesh: RouterFlits, taken: Floats, work: Floats, least: float) -> float:
    """Return the cycles of the busiest input for packets that spread over `least` cycles or more.

    taken, work : packets received by each core, and cycles of their events
    """
    share = _share(mesh, taken, work, least)
    if share <= 1:
        return share * least
    low, high = least, 2 * least
    while _share(mesh, taken, work, high) > 1:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        half = low + (high - low) / 2
        low, high = (half, high) if _share(mesh, taken, work, half) > 1 else (low, half)
    return high


def _share(mesh: RouterFlits, taken: Floats, work: Floats, cycles: float) -> float:
    """Return the share of time in which the busiest input has a packet."""
    flits, busy = mesh.flits / cycles, mesh.comes / cycles
    load, arriving = np.maximum(work, taken) / cycles, taken / cycles
    routers = len(busy)
    longer = np.bincount(mesh.router, (load - arriving) * np.minimum(load, 1) ** BEHIND, routers)
    packets = np.bincount(mesh.router, arriving, routers)
    room = np.where(packets > 0, longer / np.where(packets > 0, packets, 1), 0)
    to_core = flits[:, :, CORE]
    busy += to_core * _waits(to_core, np.ones(routers), room)
    index = np.arange(routers).reshape(mesh.service.shape[1:])
    if mesh.order is not None:
        return _share_in_order(mesh, index, flits, busy, cycles)
    lines = {2: index, 3: index[::-1], 0: index.T, 1: index.T[::-1]}
    for way, line in lines.items():
        service = mesh.service[way].ravel()
        alone = busy[:, way].copy()
        more = np.zeros_like(busy)
        for step in reversed(range(mesh.laps * len(line))):
            here, then = line[step % len(line)], line[(step + 1) % len(line)]
            head = np.ones(len(then))
            some = mesh.comes[then, way] > 0
            head[some] = busy[then, way][some] / (mesh.comes[then, way][some] / cycles)
            full = np.minimum(busy[then, way], 1) ** BEHIND
            room = np.maximum(head - service[here], 0) * full
            part = flits[here, :, way]
            more[here] = part * _waits(part, service[here], room)
            busy[here, way] = alone[here] + more[here, way]
            if busy[here, way].max() > 1:
                return TOO_LONG
        more[:, way] = 0
        busy += more
        if busy.max() > 1:
            return TOO_LONG
    return float(busy.max())


def _share_in_order(
    mesh: RouterFlits, index: Int64, flits: Floats, busy: Floats, cycles: float
) -> float:
    """Return the share of time of the busiest input, group by group of `mesh.order`.

    index : of the routers, shape (rows, columns); busy : share of time without waits for links
    """
    after = np.stack(
        [np.roll(index, step, axis).ravel() for step, axis in ((-1, 1), (1, 1), (-1, 0), (1, 0))]
    )
    assert mesh.order is not None
    for group in mesh.order:
        for way in range(4):
            here = group[group % 4 == way] // 4
            then, service = after[way, here], mesh.service[way].ravel()[here]
            head = np.ones(len(then))
            some = mesh.comes[then, way] > 0
            head[some] = busy[then, way][some] / (mesh.comes[then, way][some] / cycles)
            full = np.minimum(busy[then, way], 1) ** BEHIND
            part = flits[here, :, way]
            busy[here] += part * _waits(part, service, np.maximum(head - service, 0) * full)
            if busy.max() > 1:
                return TOO_LONG
    return float(busy.max())


def _waits(flits: Floats, service: Floats, room: Floats) -> Floats:
    """Return waiting times by input, shape (routers, 5): w = own + slot * sum of other heads.

    An input has flits * (w + service / 2) heads for the output on average. Without a solution of
    positive times, they are larger than any number of cycles.
    """
    slot = (service + room)[:, None]
    own = room + (service - 1) * np.minimum(flits.sum(axis=1) * service, 1)
    others = 1 - np.eye(5)
    matrix = np.eye(5) - slot[:, :, None] * others * flits[:, None, :]
    heads = (flits * service[:, None] / 2) @ others
    try:
        found: Floats = np.linalg.solve(matrix, (own[:, None] + slot * heads)[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        return np.full(flits.shape, 1e18)
    return np.where(found.min(axis=1, keepdims=True) < 0, 1e18, found)
