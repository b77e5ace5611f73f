"""Energies and latencies of spikes on links, which may differ east-west and north-south."""

from __future__ import annotations

import numpy as np

from chipsim.chip.model import Chip
from chipsim.protocols import Int32Array, Int64Array
from chipsim.traffic.arrays import Traffic
from chipsim.traffic.routes import Routes
from chipsim.traffic.walks import links_of_flows


def links_cost(loads: Int64Array, costs: tuple[float, float]) -> float:
    """Return the loads of all links times the cost of one.

    loads : shape (4, rows, columns), as in `chipsim.traffic.links`
    costs : east-west, north-south
    """
    if costs[0] == costs[1]:
        return int(loads.sum()) * costs[0]
    return int(loads[:2].sum()) * costs[0] + int(loads[2:].sum()) * costs[1]


def latency_max(chip: Chip, traffic: Traffic) -> float:
    """Return the largest latency of a spike between two cores."""
    across, down = chip.link_latencies
    farthest = traffic.totals.farthest
    if across == down:
        return (farthest + 1) * chip.latency_router + farthest * across
    routes = Routes.of(chip)
    columns, rows = routes.of_cores()
    longest = 0.0
    for index in range(traffic.pairs.stripes):
        source, target, _ = traffic.pairs.stripe(index)
        source, target = source[source != target], target[source != target]
        if chip.detoured:
            dx, dy = np.empty(len(source), np.int64), np.empty(len(source), np.int64)
            links_of_flows(source, target, routes, dx, dy)
        else:
            dx = _steps(columns[source], columns[target], routes.x, routes.round_x)
            dy = _steps(rows[source], rows[target], routes.y, routes.round_y)
        ways = (dx + dy + 1) * chip.latency_router + dx * across + dy * down
        longest = max(longest, float(ways.max(initial=0.0)))
    return longest


def _steps(a: Int32Array, b: Int32Array, at: Int32Array, around: int) -> Int64Array:
    """Return the links between columns (or rows) of routers; see `chipsim.traffic.routes.way`."""
    straight = np.abs(b.astype(np.int64) - a)
    far = 2 * np.abs(at[b].astype(np.int64) - at[a]) > around
    return np.where(far, at.size - straight, straight)
