"""Independent computation of router loads and packet latency, for the check of a mapping.

As in `mapper.evaluation.verify`, the implementation is independent: ends and corners of routes are
counted one by one, and every output is a separate queue.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Floats = NDArray[np.float64]
Steps = tuple[Int64, Int64, Int64, Int64]
"""Routers of the source and the target, and steps between them along row and column."""

CORE = 4  # direction index of the core port, after right, left, down and up
BUSIEST, FREE = 0.6 + 1e-9, 0.1 - 1e-9  # tolerances: a rounding error beyond counts as at the limit


class Routers:
    """Ends and corners of row-first routes."""

    def __init__(self, width: int, height: int) -> None:
        self._width, self._height = width, height
        # By router, input, and output; straight passages are not counted.
        self._count = np.zeros((height * width, 5, 5), np.int64)
        self.entered = np.zeros(height * width, np.int64)

    def add(self, source: Int64, target: Int64, dx: Int64, dy: Int64, weight: Int64) -> None:
        """Add packets from router to router."""
        np.add.at(self.entered, source, weight)
        across, down = np.where(dx > 0, 0, 1), np.where(dy > 0, 2, 3)
        corner = source - source % self._width + target % self._width
        row = dx != 0
        column = dy != 0
        begins = np.where(row, across, CORE)
        ends = np.where(column, down, begins)
        count = self._count.reshape(-1)
        np.add.at(count, ((source * 5 + CORE) * 5 + across)[row], weight[row])
        np.add.at(count, ((corner * 5 + begins) * 5 + down)[column], weight[column])
        np.add.at(count, (target * 5 + ends) * 5 + CORE, weight)

    def add_trees(
        self, owner: Int64, source: Int64, target: Int64, dx: Int64, dy: Int64, rate: Int64
    ) -> None:
        """Add multicast spikes to all routers listed for an owner, each link and corner once."""
        across, down = np.where(dx > 0, 0, 1), np.where(dy > 0, 2, 3)
        corner = source - source % self._width + target % self._width
        row, column = dx != 0, dy != 0
        begins = np.where(row, across, CORE)
        size = self._count.size
        out = (source * 5 + CORE) * 5 + across
        turn = (corner * 5 + begins) * 5 + down
        where = np.concatenate([(owner * size + out)[row], (owner * size + turn)[column]])
        rates = np.concatenate([rate[row], rate[column]])
        used, first = np.unique(where, return_index=True)
        np.add.at(self._count.reshape(-1), used % size, rates[first])
        _, first = np.unique(owner, return_index=True)
        np.add.at(self.entered, source[first], rate[first])

    def join(self, other: Routers) -> None:
        """Add other packets."""
        self._count += other._count
        self.entered += other.entered

    def _comes(self, links: Int64) -> Int64:
        """Return the loads of links by the router that they lead to: shape (4, routers)."""
        right, left, down, up = links
        to = np.roll(right, 1, 1), np.roll(left, -1, 1), np.roll(down, 1, 0), np.roll(up, -1, 0)
        return np.stack(to).reshape(4, -1)

    def loads(self, name: str, links: Int64, unit: float) -> dict[str, float]:
        """Return the metrics of router loads; links : by the router that they leave."""
        passing = self._comes(links).sum(axis=0) + self.entered
        return {
            f"{name}_max": int(passing.max()) * unit,
            f"{name}_mean": float(passing.mean()) * unit,
        }

    def ways(self, links: Int64, ends: Routers) -> tuple[Int64, Int64]:
        """Return loads by router, input and output, and by input alone, shape (routers, 5).

        ends : of packets to each core, which are the ends of trees
        """
        found = self._count.copy()
        for way, load in enumerate(links.reshape(4, -1)):
            found[:, way, way] = load - found[:, :, way].sum(axis=1)
        found[:, :, CORE] = ends._count[:, :, CORE]
        return found, np.column_stack([*self._comes(links), self.entered])


def latency(
    through: tuple[Int64, Int64], reached: tuple[Int64, Int64], per_cycle: float,
    service: Floats, hops: Floats, senders: tuple[Int64, Int64],
) -> dict[str, float | str]:  # fmt: skip
    """Return the metrics of `noc_latency`.

    through, reached : results of `Routers.ways` for the packets sent, and for packets to each core
    per_cycle : flits per cycle for a load of 1; service : cycles per flit on each link, hops :
        cycles per hop over it, both (4, rows, columns); in a simulation both are at least 1
    senders : router of each core, and packets that leave it for others
    """
    service = np.maximum(service, 1.0)
    ways = np.maximum(np.ceil(hops), 1) + np.ceil(service) - 1
    flits, comes = (one * per_cycle for one in through)
    cycles = np.concatenate([service.reshape(4, -1), np.ones((1, len(flits)))])
    parts = flits * cycles.T[:, None, :]
    busy = parts.sum(axis=1)
    most = max(float(busy.max()), float(comes[:, CORE].max()))
    packets = int(reached[1][:, CORE].sum())
    if not packets:
        return _named(load_max=0.0, unloaded=0.0, mean=0.0)
    on_links = reached[0][:, :, :CORE].sum(axis=1).T
    unloaded = 1 + float((on_links * ways.reshape(4, -1)).sum()) / packets
    simulate = _named(load_max=most, unloaded=unloaded, advice="simulate")
    if most > BUSIEST:
        return simulate
    wait = np.zeros_like(busy)
    used = busy > 0
    same = (parts**2).sum(axis=1)[used] / busy[used]
    more = busy[used] * (cycles.T[used] - 1)
    wait[used] = (busy[used] - same + more) / (2 - 2 * busy[used])
    heads = (flits * wait[:, None]).sum(axis=2)
    free = 1 - comes - heads
    if free.min() < FREE:
        return simulate
    total = 0.0
    for out in range(5):
        others = [other for other in range(5) if other != out]
        stop = (flits * (wait + wait**2)[:, None])[:, :, others].sum(axis=2) / free
        total += float((reached[0][:, :, out] * (wait[:, out, None] + stop)).sum())
    if len(senders[0]) > len(flits):  # cores of a tile wait for each other
        total += float((reached[1][:, CORE] * _turns(*senders, per_cycle, len(flits))).sum())
    return _named(load_max=most, unloaded=unloaded, mean=unloaded + total / packets)


def _turns(router: Int64, packets: Int64, per_cycle: float, routers: int) -> Floats:
    """Return the mean waiting time for the other cores of each tile."""
    waits = np.zeros(routers)
    for at in range(routers):
        load = packets[router == at] * per_cycle
        if load.any():
            waits[at] = (load.sum() - (load**2).sum() / load.sum()) / (2 - 2 * load.sum())
    return waits


def _named(**found: float | str) -> dict[str, float | str]:
    return {f"noc_latency.{name}": value for name, value in found.items()}
