"""Tiles, chips, boards and tori, for the check of a mapping: spikes are routed step by step.

As in `mapper.evaluation.verify`, the implementation is independent: costs of steps are derived from
the keys of the chip, and every route is walked, all routes of a block of neurons together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

KEYS = ("torus", "link_cost", "columns", "rows", "tile", "chip", "board")
PARTS = {"tile": "tiles", "chip": "chips", "board": "boards"}


@dataclass(frozen=True, slots=True)
class Axis:
    """Columns, or rows, of a machine.

    cores : number of cores that share a router; length : number of cores; torus : whether the last
        is adjacent to the first
    steps : cost of the step after each core, in units; over : whether it leads to another chip (1)
        or board (2); bandwidth : of that link; latency : cycles per hop over it, or nan
    """

    cores: int
    length: int
    torus: bool
    steps: Int64
    over: Int64
    bandwidth: NDArray[np.float64]
    latency: NDArray[np.float64]

    @property
    def routers(self) -> int:
        return self.length // self.cores

    @property
    def place(self) -> Int64:
        """Cumulative cost of the steps from the first core to each core."""
        return np.append(0, self.steps[:-1].cumsum())

    def links(self, values: NDArray[Any], added: bool) -> NDArray[Any]:
        """Return the values per link: sum over its steps if `added`, else of its last step."""
        grouped = values.reshape(-1, self.cores)
        return grouped.sum(axis=1) if added else grouped[:, -1]

    def cost(self, a: Int64, b: Int64) -> Int64:
        """Return the cost between two cores, the shorter way round on a torus."""
        straight = np.abs(self.place[a] - self.place[b])
        return np.minimum(straight, self.steps.sum() - straight) if self.torus else straight

    def ways(self, a: Int64, b: Int64) -> Int64:
        """Return the steps from router a to router b, negative towards lower ones."""
        steps = b - a
        if not self.torus:
            return steps
        place = self.place[:: self.cores]
        far = 2 * np.abs(place[b] - place[a]) > self.steps.sum()
        return steps - np.where(far, np.sign(steps) * self.routers, 0)


@dataclass(frozen=True, slots=True)
class MachineLayout:
    """A machine as described by a report.

    unit : of costs; works : links that work, shape (4, rows, columns), None for all
    """

    across: Axis
    down: Axis
    unit: float
    parts: dict[str, tuple[int, int]]
    works: NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls, chip: Mapping[str, Any], works: NDArray[np.bool_] | None = None
    ) -> MachineLayout | None:
        """Return the layout of a chip; None if it has no keys of a machine, and all links work."""
        if works is None and not any(key in chip for key in KEYS):
            return None
        exact = [_steps(chip, axis) for axis in (0, 1)]
        every = [step for steps, *_ in exact for step in steps]
        below = math.lcm(*(step.denominator for step in every))
        torus, parts = chip.get("torus", ""), {}
        axes = []
        for axis, (steps, over, bandwidth, latency) in enumerate(exact):
            tile = chip["tile"][("width", "height")[axis]] if "tile" in chip else 1
            whole = np.array([int(step * below) for step in steps], np.int64)
            axes.append(
                Axis(
                    tile, len(steps), "xy"[axis] in torus, whole,
                    np.array(over), np.array(bandwidth), np.array(latency),
                )
            )  # fmt: skip
        parts = {
            part: (chip[part]["width"], chip[part]["height"]) for part in PARTS if part in chip
        }
        return cls(axes[0], axes[1], 1 / below, parts, works)

    @property
    def routers(self) -> tuple[int, int]:
        return self.across.routers, self.down.routers

    @property
    def torus(self) -> bool:
        return self.across.torus or self.down.torus

    def router(self, core: Int64) -> Int64:
        """Return the number of the router of each core, row by row."""
        y, x = np.divmod(core, self.across.length)
        return y // self.down.cores * self.across.routers + x // self.across.cores

    def first_core(self, router: Int64) -> Int64:
        """Return the first core of each router."""
        y, x = np.divmod(router, self.across.routers)
        return y * self.down.cores * self.across.length + x * self.across.cores

    def link_steps(self) -> Int64:
        """Return the cost of the links that leave each router, shape (4, rows, columns)."""
        return self._table("steps", True)

    def cost(self, a: Int64, b: Int64) -> Int64:
        (ya, xa), (yb, xb) = (np.divmod(core, self.across.length) for core in (a, b))
        return self.across.cost(xa, xb) + self.down.cost(ya, yb)

    def ways(self, a: Int64, b: Int64) -> tuple[Int64, Int64]:
        """Return the steps between the routers of cores: columns and rows."""
        ends = [np.divmod(self.router(core), self.across.routers) for core in (a, b)]
        (ya, xa), (yb, xb) = ends
        return self.across.ways(xa, xb), self.down.ways(ya, yb)

    def existing(self, links: NDArray[Any]) -> NDArray[Any]:
        """Select the links that exist and work, from shape (4, rows, columns)."""
        if self.works is not None:
            return links[self.works]
        right, left, south, north = links
        if not self.across.torus or self.across.routers == 1:
            right, left = right[:, :-1], left[:, 1:]
        if not self.down.torus or self.down.routers == 1:
            south, north = south[:-1], north[1:]
        return np.concatenate([each.ravel() for each in (right, left, south, north)])

    def tables(self) -> tuple[Int64, Int64, NDArray[np.float64]]:
        """Return cost of every existing link, its crossing (chip or board), and its bandwidth."""
        names = (("steps", True), ("over", False), ("bandwidth", False))
        found = [self.existing(self._table(*name)) for name in names]
        return found[0], found[1], found[2]

    def bandwidths(self) -> NDArray[np.float64]:
        """Return the bandwidth of the links that leave each router, shape (4, rows, columns)."""
        return self._table("bandwidth", False)

    def hop_cycles(self, hop: float) -> NDArray[np.float64]:
        """Return the cycles per hop of these links; hop : default."""
        own = self._table("latency", False)
        return np.where(np.isnan(own), hop, own)

    def _table(self, name: str, added: bool) -> NDArray[Any]:
        columns, rows = self.routers
        whole = np.empty((4, rows, columns), getattr(self.across, name).dtype)
        for axis, (one, shape) in enumerate(((self.across, (1, -1)), (self.down, (-1, 1)))):
            values = one.links(getattr(one, name), added)
            whole[2 * axis] = values.reshape(shape)
            whole[2 * axis + 1] = np.roll(values, 1).reshape(shape)
        return whole

    def apart(self, part: str, a: Int64, b: Int64) -> NDArray[np.bool_]:
        """Return whether two cores are on different tiles, chips or boards."""
        wide, tall = self.parts[part]
        (ya, xa), (yb, xb) = (np.divmod(core, self.across.length) for core in (a, b))
        return (xa // wide != xb // wide) | (ya // tall != yb // tall)


def _steps(
    chip: Mapping[str, Any], axis: int
) -> tuple[list[Fraction], list[int], list[float], list[float]]:
    """Return cost, crossing, bandwidth and latency (or nan) of the step after each core."""
    side, length = ("width", "height")[axis], chip[("width", "height")[axis]]
    links = chip.get("link_cost", 1.0)
    link = links[axis] if isinstance(links, list) else links
    given = chip.get(("columns", "rows")[axis])
    steps: list[Fraction] = []
    over: list[int] = []
    bandwidth: list[float] = []
    latency: list[float] = []
    for core in range(length):
        cost, kind, width, last = link, 0, 1.0, core == length - 1
        hop = float("nan")
        if "tile" in chip and (core + 1) % chip["tile"][side]:
            cost = chip["tile"].get("cost", 0.0)
        for number, part in ((1, "chip"), (2, "board")):
            if part in chip and (last or (core + 1) % chip[part][side] == 0):
                cost, kind = chip[part].get("cost", cost), number
                width = chip[part]["bandwidth"]
                hop = float(chip[part].get("latency", np.nan))
        if given and not last:
            steps.append(Fraction(str(float(given[core + 1]))) - Fraction(str(float(given[core]))))
        else:
            steps.append(Fraction(str(float(cost))))
        over.append(kind)
        bandwidth.append(width)
        latency.append(hop)
    return steps, over, bandwidth, latency


class WalkedLinks:
    """Loads of the links between the routers of a machine; like `verify_traffic.Links`."""

    def __init__(self, layout: MachineLayout) -> None:
        self._layout = layout
        columns, rows = layout.routers
        self._loads = np.zeros((4, rows, columns), np.int64)

    def add(self, source: Int64, target: Int64, weight: Int64) -> None:
        """Add spikes from core to core."""
        for index, link in self._walk(source, target):
            np.add.at(self._loads.reshape(-1), link, weight[index])

    def add_trees(self, first: Int64, owner: Int64, core: Int64, rate: Int64) -> None:
        """Add the union of the routes of each neuron to all cores that it reaches."""
        size = self._loads.size
        seen = [owner[index] * size + link for index, link in self._walk(first[owner], core)]
        if seen:
            used = np.unique(np.concatenate(seen))
            np.add.at(self._loads.reshape(-1), used % size, rate[used // size])

    def join(self, other: WalkedLinks) -> None:
        """Add the loads by other spikes."""
        self._loads += other._loads

    def _walk(self, source: Int64, target: Int64) -> list[tuple[Int64, Int64]]:
        """Return moving routes and their links, step by step, row first."""
        columns, rows = self._layout.routers
        y, x = np.divmod(self._layout.router(source), columns)
        left = list(self._layout.ways(source, target))
        found = []
        for axis, (length, towards) in enumerate(((columns, (0, 1)), (rows, (2, 3)))):
            while (moving := np.flatnonzero(left[axis])).size:
                sign = np.sign(left[axis][moving])
                direction = np.where(sign > 0, *towards)
                found.append((moving, (direction * rows + y[moving]) * columns + x[moving]))
                at = (x, y)[axis]
                at[moving] = (at[moving] + sign) % length
                left[axis][moving] -= sign
        return found

    def grid(self) -> Int64:
        """Return the load of the links that leave each router: right, left, down, up."""
        return self._loads

    def loads(self) -> Int64:
        """Return the load of every existing directed link."""
        return self._layout.existing(self._loads)

    def crossings(self, unit: float) -> dict[str, float]:
        """Return the cost of the links, and loads over boundaries of chips and boards."""
        layout = self._layout
        loads, parts = self.loads(), layout.parts
        cost, over, bandwidth = layout.tables()
        found = {"cost_total": int((loads * cost).sum()) * unit * layout.unit}
        if "chip" in parts or "board" in parts:
            found["crossings_chips"] = int(loads[over > 0].sum()) * unit
            most = (loads / bandwidth)[over > 0].max(initial=0.0)
            found["crossing_load_max"] = float(most) * unit
        if "board" in parts:
            found["crossings_boards"] = int(loads[over == 2].sum()) * unit
        return found


class DistanceCosts:
    """Sums of distance costs over unicast spikes and over packets to cores."""

    def __init__(self, layout: MachineLayout) -> None:
        self._layout = layout
        self.total = self.farthest = self.casts = 0
        self.cut = dict.fromkeys(layout.parts, 0)

    def add(self, a: Int64, b: Int64, weight: Int64) -> None:
        """Add spikes from core to core."""
        cost = self.cost(a, b)
        self.total += int((cost * weight).sum())
        self.farthest = max(self.farthest, int(cost[weight > 0].max(initial=0)))
        for part in self.cut:
            self.cut[part] += int(weight[self._layout.apart(part, a, b)].sum())

    def add_casts(self, a: Int64, b: Int64, rate: Int64) -> None:
        """Add packets from core to core."""
        self.casts += int((self.cost(a, b) * rate).sum())

    def cost(self, a: Int64, b: Int64) -> Int64:
        """Return the cost between two cores."""
        return self._layout.cost(a, b)

    def join(self, other: DistanceCosts) -> None:
        """Add other spikes and packets."""
        self.total += other.total
        self.casts += other.casts
        self.farthest = max(self.farthest, other.farthest)
        for part in self.cut:
            self.cut[part] += other.cut[part]

    def metrics(
        self, links: tuple[WalkedLinks, ...], weight: int,
        unit: float, rate_unit: float,
    ) -> dict[str, float]:  # fmt: skip
        """Return the metrics of the report; links : of unicast, packets to cores, and trees."""
        by = self._layout.unit
        of_links, of_casts, of_trees = (
            {f"{name}.{key}": value for key, value in one.crossings(each).items()}
            for name, one, each in zip(
                ("machine", "core", "multicast"), links, (unit, rate_unit, rate_unit), strict=True
            )
        )
        found = of_links | of_casts | of_trees
        found["machine.cost_total"] = self.total * unit * by
        found["core.cost_total"] = self.casts * rate_unit * by
        found["machine.cost_mean"] = self.total * by / weight if weight else 0.0
        found["machine.cost_max"] = self.farthest * by
        cut = {f"machine.cut_{PARTS[part]}": value * unit for part, value in self.cut.items()}
        return found | cut
