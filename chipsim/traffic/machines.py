"""Traffic on machines: trees round a torus, distance costs, crossings of chip and board
boundaries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit

from chipsim.chip.machine import BOARDS, CHIPS, STRAIGHT, Machine
from chipsim.chip.model import Chip
from chipsim.protocols import FloatArray, Int32Array, Int64Array
from chipsim.traffic.routes import Routes, add_route, leg, way
from chipsim.traffic.walks import extra_cost

PARTS = ("tiles", "chips", "boards")
"""Parts between which `FlowCosts.cut` sums, from small to large."""


@dataclass(slots=True)
class FlowCosts:
    """Sums over unicast flows, in weight units times cost units.

    total, farthest : weight times distance in coordinates, and the largest distance; detours around
        broken links add their cost
    estimate : ``total`` in float64, which cannot overflow
    cut : weight between different tiles, chips and boards
    """

    total: int = 0
    farthest: int = 0
    estimate: float = 0.0
    cut: Int64Array = field(default_factory=lambda: np.zeros(len(PARTS), np.int64))

    def add(self, other: FlowCosts) -> None:
        """Add the costs of other flows."""
        self.total += other.total
        self.farthest = max(self.farthest, other.farthest)
        self.estimate += other.estimate
        self.cut += other.cut


def costs_of(chip: Chip, source: Int32Array, target: Int32Array, weight: Int64Array) -> FlowCosts:
    """Return the costs of flows between cores; zero if the chip is not a machine."""
    costs = FlowCosts()
    if chip.machine is None:
        return costs
    cells = part_ids(chip.machine)
    total, farthest, estimate = _sum_costs(
        source, target, weight, chip.axes, Routes.of(chip), cells, costs.cut
    )
    costs.total, costs.farthest, costs.estimate = int(total), int(farthest), float(estimate)
    return costs


def part_ids(machine: Machine) -> Int64Array:
    """Return tile, chip and board of every core, shape (3, cores); without tiles, a core is a tile.

    A part that is not described equals the next smaller part; a machine without chips is one chip.
    """
    y, x = np.divmod(np.arange(machine.width * machine.height), machine.width)
    found = []
    for block in (machine.tile, machine.chip, machine.board):
        if block is not None:
            across = machine.width // block.width
            found.append(y // block.height * across + x // block.width)
        else:
            found.append(np.zeros_like(x) if found else y * machine.width + x)
    return np.array(found)


def crossings(chip: Chip, links: Int64Array) -> dict[str, Any]:
    """Return the traffic across chip and board boundaries, from link loads (4, rows, columns).

    cost : loads times the cost of each link
    crossings_chips, crossings_boards : sums of the loads across boundaries; a board boundary is
        also a chip boundary
    crossing_load_max : the largest of these loads over its bandwidth

    All in units of the loads, cost in units of cost. Empty without a machine.
    """
    machine = chip.machine
    if machine is None:
        return {}
    cost, kinds, bandwidth = link_tables(machine)
    over = links[kinds >= CHIPS]
    found: dict[str, Any] = {"cost_total": int((links * cost).sum())}
    if machine.chip or machine.board:
        found["crossings_chips"] = int(over.sum())
    if machine.board:
        found["crossings_boards"] = int(links[kinds == BOARDS].sum())
    if machine.chip or machine.board:
        loads = over / bandwidth[kinds >= CHIPS]
        found["crossing_load_max"] = float(loads.max(initial=0.0))
    return found


def link_tables(machine: Machine) -> tuple[Int64Array, Int64Array, FloatArray]:
    """Return cost, kind (`ROUTERS` to `BOARDS`) and bandwidth of links, each (4, rows, columns).

    A link that leaves the mesh has the values of the wrap-around step.
    """
    wide, tall = machine.tile_size
    axes, (columns, rows) = machine.axes, (machine.width // wide, machine.height // tall)
    cost = np.zeros((4, rows, columns), np.int64)
    kinds = np.zeros((4, rows, columns), np.int64)
    ends = ((axes.x[::wide], axes.round_x, wide, 0), (axes.y[::tall], axes.round_y, tall, 1))
    for at, around, side, axis in ends:
        last = 0 if around == STRAIGHT else around - int(at[-1])
        steps = np.append(np.diff(at), last).astype(np.int64)
        kind = machine.kinds(axis)[side - 1 :: side]
        shape = (1, -1) if axis == 0 else (-1, 1)
        for direction, (one, what) in enumerate(
            ((steps, kind), (np.roll(steps, 1), np.roll(kind, 1)))
        ):
            cost[2 * axis + direction] = one.reshape(shape)
            kinds[2 * axis + direction] = what.reshape(shape)
    bandwidth = np.ones(cost.shape)
    for kind_of, block in ((CHIPS, machine.chip), (BOARDS, machine.board)):
        if block is not None:
            bandwidth[kinds == kind_of] = block.bandwidth
    return cost, kinds, bandwidth


def hop_cycles(chip: Chip, hop: float) -> FloatArray:
    """Return the cycles of a hop over every link, (4, rows, columns).

    They are `hop`, except for the boundaries of chips and boards with their own latency.
    """
    columns, rows = chip.routers
    found = np.full((4, rows, columns), float(hop))
    if chip.machine is not None:
        kinds = link_tables(chip.machine)[1]
        for kind, block in ((CHIPS, chip.machine.chip), (BOARDS, chip.machine.board)):
            if block is not None and block.latency is not None:
                found[kinds == kind] = block.latency
    return found


def link_times(chip: Chip) -> tuple[Int64Array, FloatArray]:
    """Return latency and occupancy of every link in cycles per flit, each (4, rows, columns).

    On a link of less bandwidth a flit is sent in parts, so the last part arrives later by the
    cycles of the parts. Simulators count whole cycles of latency, and at least one of both.
    """
    hop, link = (1.0, 1.0) if chip.time is None else (chip.time.hop, chip.time.link)
    bandwidth = 1.0 if chip.machine is None else link_tables(chip.machine)[2]
    ways = np.maximum(1, np.ceil(hop_cycles(chip, hop)))
    service = np.maximum(1.0, np.full(ways.shape, link) / bandwidth)
    return (ways + np.ceil(service) - 1).astype(np.int64), service


@njit(cache=True, nogil=True)
def apart(axes, a, b):
    """Return the distance of two cores in coordinates; a, b : core ids"""
    width = axes.x.size
    x = abs(np.int64(axes.x[a % width]) - axes.x[b % width])
    y = abs(np.int64(axes.y[a // width]) - axes.y[b // width])
    return min(x, axes.round_x - x) + min(y, axes.round_y - y)


@njit(cache=True, nogil=True)
def _sum_costs(source, target, weight, axes, routes, parts, cut):
    """Return the sums of `FlowCosts` but ``cut``, which is filled; parts : from `part_ids`"""
    total = np.int64(0)
    farthest = np.int64(0)
    estimate = 0.0
    detoured = len(routes.table) > 0
    for i in range(source.size):
        s, t, w = source[i], target[i], weight[i]
        d = apart(axes, s, t)
        if detoured:
            d += extra_cost(routes, s, t)
        total += w * d
        estimate += float(w) * d
        farthest = max(farthest, d)
        for k in range(cut.size):
            if parts[k, s] != parts[k, t]:
                cut[k] += w
    return total, farthest, estimate


@njit(cache=True, nogil=True)
def add_round(mapping, s, reached, rate, extents, mark, cast, tree):
    """Add one packet per core that a neuron reaches, and its tree, on a torus; return tree hops.

    mapping : as in `chipsim.traffic.sweep`
    s : core of the neuron
    reached : cores, possibly including the neuron's
    extents, mark : scratch of the sweep, lowest and highest steps along each column
    cast, tree : differences of routes, as in `chipsim.traffic.links`
    """
    routes, columns, rows = mapping.routes, mapping.columns, mapping.rows
    x0, y0 = columns[s], rows[s]
    n_columns = 0
    for c in reached:
        if c == s:
            continue
        x = columns[c]
        dx = way(x0, x, routes.x, routes.round_x)
        dy = way(y0, rows[c], routes.y, routes.round_y)
        add_route(cast, x0, y0, dx, dy, rate)
        if extents[x, 0] != mark:
            extents[x, 0] = mark
            extents[x, 1] = 0
            extents[x, 2] = 0
            extents[n_columns, 3] = x
            n_columns += 1
        extents[x, 1] = min(extents[x, 1], dy)
        extents[x, 2] = max(extents[x, 2], dy)
    hops = np.int64(0)
    west = np.int64(0)
    east = np.int64(0)
    for k in range(n_columns):
        x = extents[k, 3]
        dx = way(x0, x, routes.x, routes.round_x)
        west = min(west, dx)
        east = max(east, dx)
        for steps in (extents[x, 1], extents[x, 2]):
            leg(tree[2, :, x], tree[3, :, x], y0, steps, rate)
            hops += abs(steps)
            if len(tree) > 4 and steps != 0:
                tree[6 + 2 * (dx > 0) + 4 * (dx < 0) + (steps < 0), y0, x] += rate
    leg(tree[0, y0], tree[1, y0], x0, east, rate)
    leg(tree[0, y0], tree[1, y0], x0, west, rate)
    if len(tree) > 4:
        tree[4, y0, x0] += rate * (east > 0)
        tree[5, y0, x0] += rate * (west < 0)
    return hops + east - west


@njit(cache=True, nogil=True)
def cast_cost(axes, s, reached, rate):
    """Return rate times distance, summed over the cores that a neuron on core s reaches."""
    cost = np.int64(0)
    for c in reached:
        cost += apart(axes, s, c)
    return rate * cost
