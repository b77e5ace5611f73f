"""Step 7: initial placement by bisecting region and groups together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mapper.concurrency.stop_flag import StopFlag
from mapper.graph.csr import Subgraph
from mapper.partitioning.greedy_growing import grow_half
from mapper.placement.legalise import Places
from mapper.placement.region import Region


def place_by_bisection(
    groups: Subgraph,
    region: Region,
    repeats: int,
    rng: np.random.Generator,
    threads: int = 1,
    stop: StopFlag | None = None,
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
    axes, width, height = area.axes, area.width, area.height
    if axes.x[-1] - axes.x[0] >= axes.y[-1] - axes.y[0] and width > 1:
        cut = width // 2
        return _part(area, 0, 0, cut, height), _part(area, cut, 0, width - cut, height)
    cut = height // 2
    return _part(area, 0, 0, width, cut), _part(area, 0, cut, width, height - cut)


def _part(area: Region, x: int, y: int, width: int, height: int) -> Region:
    """Return a rectangle of a region; x, y : its corner within the region"""
    usable = area.usable[y : y + height, x : x + width]
    return Region(
        area.x + x, area.y + y, width, height, usable, area.axes.window(x, y, width, height)
    )
