"""Independent routing of spikes, for the check of a mapping: links, multicast trees, routers.

As in `mapper.evaluation.verify`, the implementation is independent: links by differences along rows
and columns, routers by following the traffic towards each core, one step at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Floats = NDArray[np.float64]

CELLS = 1 << 20  # routers, for several target cores together, that are held at a time
MERGE = 1 << 24  # pairs of cores that are buffered before equal ones are added up
MOST_WORK = 1 << 33  # limit of routers visited for all target cores together: some minutes


class LinkLoads:
    """Loads of the links of a mesh of routers with row-first routes."""

    def __init__(self, width: int, height: int) -> None:
        self._width = width
        # right, left, down, up: link load of each core minus the previous core's
        self._steps = np.zeros((4, height + 1, width + 1), np.int64)

    def add(self, source: Int64, target: Int64, weight: Int64) -> None:
        """Add spikes from core to core, each along row y to the target's column, then along it."""
        (y, x), (to_y, to_x) = (np.divmod(core, self._width) for core in (source, target))
        self._along_rows(y, x, to_x, weight)
        self._along_columns(to_x, y, to_y, weight)

    def add_trees(self, first: Int64, owner: Int64, core: Int64, rate: Int64) -> None:
        """Add the union of the routes of each neuron to all cores that it reaches.

        first : core of each neuron, shape (neurons,); rate : of each neuron
        owner, core : shape (reached,), neuron and core; owner does not decrease
        """
        if not owner.size:
            return
        y, x = np.divmod(core, self._width)
        order = np.lexsort((x, owner))
        owner, x, y = owner[order], x[order], y[order]
        start = np.flatnonzero(np.diff(owner, prepend=-1) | np.diff(x, prepend=-1))
        row, home = np.divmod(first, self._width)
        column, of = x[start], owner[start]  # a column of a tree
        for far in (np.maximum, np.minimum):  # down and up, then right and left of the home core
            end = far(far.reduceat(y, start), row[of])
            self._along_columns(column, row[of], end, rate[of])
        stem = np.flatnonzero(np.diff(of, prepend=-1))
        of = of[stem]
        for far in (np.maximum, np.minimum):
            end = far(far.reduceat(column, stem), home[of])
            self._along_rows(row[of], home[of], end, rate[of])

    def _along_rows(self, y: Int64, x: Int64, to_x: Int64, weight: Int64) -> None:
        """Add to links along rows; links towards lower columns leave the cores to_x + 1 .. x."""
        right, left = self._steps[:2]
        for low, high, ahead in ((x, to_x, right), (to_x + 1, x + 1, left)):
            goes = low < high
            np.add.at(ahead, (y[goes], low[goes]), weight[goes])
            np.add.at(ahead, (y[goes], high[goes]), -weight[goes])

    def _along_columns(self, x: Int64, y: Int64, to_y: Int64, weight: Int64) -> None:
        down, up = self._steps[2:]
        for low, high, ahead in ((y, to_y, down), (to_y + 1, y + 1, up)):
            goes = low < high
            np.add.at(ahead, (low[goes], x[goes]), weight[goes])
            np.add.at(ahead, (high[goes], x[goes]), -weight[goes])

    def join(self, other: LinkLoads) -> None:
        """Add the loads by other spikes."""
        self._steps += other._steps

    def grid(self) -> Int64:
        """Return the load of the links that leave each router: right, left, down, up."""
        along = self._steps[:2].cumsum(axis=2), self._steps[2:].cumsum(axis=1)
        return np.concatenate(along)[:, :-1, :-1]

    def loads(self) -> Int64:
        """Return the load of every directed link."""
        right, left, down, up = self.grid()
        return np.concatenate(
            [left[:, 1:].ravel(), right[:, :-1].ravel(), up[1:].ravel(), down[:-1].ravel()]
        )


class Flows:
    """Sums of weight per pair of cores."""

    def __init__(self, width: int, height: int) -> None:
        self._width, self._height = width, height
        self._cores = width * height
        self._pairs, self._weights = np.empty(0, np.int64), np.empty(0, np.int64)
        self._waiting: list[tuple[Int64, Int64]] = []

    def add(
        self, source: Int64, target: Int64, weight: Int64, leaves: NDArray[np.bool_] | None = None
    ) -> None:
        """Add flows; leaves : spikes that leave their core, default: source != target."""
        away = ((source != target) if leaves is None else leaves) & (weight > 0)
        self._waiting.append((target[away] * self._cores + source[away], weight[away]))
        if sum(pairs.size for pairs, _ in self._waiting) > MERGE:
            self._merge()

    def join(self, other: Flows) -> None:
        """Add other spikes."""
        other._merge()
        self._waiting.append((other._pairs, other._weights))
        self._merge()

    def _merge(self) -> None:
        pairs = np.concatenate([self._pairs, *(pairs for pairs, _ in self._waiting)])
        weights = np.concatenate([self._weights, *(weights for _, weights in self._waiting)])
        self._waiting = []
        order = np.argsort(pairs, kind="stable")
        pairs, weights = pairs[order], weights[order]
        start = np.flatnonzero(np.diff(pairs, prepend=-1))
        self._pairs = pairs[start]
        self._weights = np.add.reduceat(weights, start) if start.size else weights

    def pairs(self) -> int:
        """Return the number of pairs."""
        self._merge()
        return self._pairs.size

    def router_loads(self) -> Floats | None:
        """Return the expected load of every router, shape (cores,), spread over minimal paths.

        None if that would take hours: for dense traffic all over a huge chip.
        """
        self._merge()
        load = np.zeros(self._cores)
        jobs = list(self._quadrants())
        if sum(int((rows * columns).sum()) for _, _, _, rows, columns in jobs) > MOST_WORK:
            return None
        for flip_y, flip_x, mine, rows, columns in jobs:
            self._spread(mine, rows, columns, flip_y, flip_x, load)
        return load

    def _ends(self, pairs: Int64) -> tuple[Int64, Int64, Int64, Int64]:
        """Return row and column of the target, then of the source."""
        target, source = np.divmod(pairs, self._cores)
        return *np.divmod(target, self._width), *np.divmod(source, self._width)

    def _quadrants(self) -> Iterator[tuple[int, int, NDArray[np.intp], Int64, Int64]]:
        """Yield the flows of each quadrant around their targets, with bounding boxes.

        Yields signs of the rows and columns from target to source, the flows with these signs, and
        for each target the rows and columns of the box around its flows.
        """
        to_y, to_x, y, x = self._ends(self._pairs)
        below, right = y >= to_y, x >= to_x
        for sign_y, sign_x in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            mine = np.flatnonzero((below == (sign_y > 0)) & (right == (sign_x > 0)))
            if mine.size:
                start = np.flatnonzero(np.diff(self._pairs[mine] // self._cores, prepend=-1))
                rows = np.maximum.reduceat(np.abs(y - to_y)[mine], start) + 1
                columns = np.maximum.reduceat(np.abs(x - to_x)[mine], start) + 1
                yield sign_y, sign_x, mine, rows, columns

    def _spread(
        self, mine: NDArray[np.intp], rows: Int64, columns: Int64, sign_y: int, sign_x: int,
        load: Floats,
    ) -> None:  # fmt: skip
        """Add the router loads of some flows; boxes of similar size are processed together."""
        pairs, weights = self._pairs[mine], self._weights[mine]
        to_y, to_x, y, x = self._ends(pairs)
        down, across = np.abs(y - to_y), np.abs(x - to_x)
        place = np.cumsum(np.diff(pairs // self._cores, prepend=-1) > 0) - 1  # of the target
        start = np.flatnonzero(np.diff(place, prepend=-1))
        order = np.lexsort((columns, rows))
        first = 0
        while first < order.size:
            height, width, last = 0, 0, first
            while last < order.size:
                taller = max(height, int(rows[order[last]]))
                wider = max(width, int(columns[order[last]]))
                if last > first and taller * wider * (last + 1 - first) > CELLS:
                    break
                height, width, last = taller, wider, last + 1
            chosen = order[first:last]
            slot = np.full(start.size, -1)
            slot[chosen] = np.arange(chosen.size)
            inside = np.flatnonzero(slot[place] >= 0)
            box = np.zeros((height, width, chosen.size))
            box[down[inside], across[inside], slot[place[inside]]] = weights[inside]
            _come_closer(box)
            # the routers of the box, without places outside the mesh, which have no traffic
            ys = to_y[start[chosen]] + sign_y * np.arange(height)[:, None, None]
            xs = to_x[start[chosen]] + sign_x * np.arange(width)[None, :, None]
            real = (ys >= 0) & (ys < self._height) & (xs >= 0) & (xs < self._width)
            load += np.bincount(
                (ys * self._width + xs)[real], weights=box[real], minlength=load.size
            )
            first = last


def _come_closer(box: Floats) -> None:
    """Move all flows in a box to its corner (0, 0); every cell then holds its total visits.

    box : shape (rows, columns, targets); a spike steps in either direction with equal probability
        if both bring it closer
    """
    rows, columns, _ = box.shape
    for b in range(rows - 1, -1, -1):
        for a in range(columns - 1, -1, -1):
            if b:
                box[b - 1, a] += box[b, a] * (0.5 if a else 1.0)
            if a:
                box[b, a - 1] += box[b, a] * (0.5 if b else 1.0)
