"""Step 7: initial placement by bisecting region and groups together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mapper.graph.csr import Subgraph
from mapper.monitoring.stopping import Stop
from mapper.partitioning.greedy_growing import grow_half
from mapper.placement.legalise import Places
from mapper.placement.region import Region


def place_by_bisection(
    groups: Subgraph,
    region: Region,
    repeats: int,
    rng: np.random.Generator,
    threads: int = 1,
    stop: Stop | None = None,
) -> Places:
    """Place every group on a core of the region: columns and rows on the chip, shape (groups,).

    A region with one usable core gets one group. Any other is cut across its longer side in the
    middle, and greedy growing splits the groups so that each half exactly fills the usable cores of
    one half of the region. stop : checked before each cut
    """
    x = np.empty(groups.members.size, np.int32)
    y = np.empty(groups.members.size, np.int32)
    unit = replace(groups, sizes=np.ones_like(groups.sizes))
    stack = [(unit, region)]
    while stack:
        if stop is not None:
            stop.check()
        piece, area = stack.pop()
        if piece.members.size == 0:
            continue
        if area.usable.size == 1:
            x[piece.members], y[piece.members] = area.x, area.y
            continue
        first, second = _halves(area)
        room = int(first.usable.sum())
        side = np.zeros(piece.members.size, np.uint8)
        if room == piece.members.size:
            side[:] = 1
        elif room > 0:
            side = grow_half(piece, room, room, room, repeats, rng, threads)
        stack += list(zip(piece.halves(side), (first, second), strict=True))
    return x, y


def _halves(area: Region) -> tuple[Region, Region]:
    axes = area.axes
    if axes.x[-1] - axes.x[0] >= axes.y[-1] - axes.y[0] and area.width > 1:
        cut = area.width // 2
        x, left = area.x + cut, area.width - cut
        first, second = axes._replace(x=axes.x[:cut]), axes._replace(x=axes.x[cut:])
        return (
            Region(area.x, area.y, cut, area.height, area.usable[:, :cut], first),
            Region(x, area.y, left, area.height, area.usable[:, cut:], second),
        )
    cut = area.height // 2
    y, left = area.y + cut, area.height - cut
    first, second = axes._replace(y=axes.y[:cut]), axes._replace(y=axes.y[cut:])
    return (
        Region(area.x, area.y, area.width, cut, area.usable[:cut], first),
        Region(area.x, y, area.width, left, area.usable[cut:], second),
    )
