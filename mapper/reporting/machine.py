"""Boundaries of tiles, chips and boards on the map of a machine, and the traffic across them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.machine import CHIPS, PARTS
from chipsim.chip.model import Chip
from chipsim.traffic.links import DIRECTIONS
from chipsim.traffic.machines import link_tables


class End(NamedTuple):
    """The links that leave a chip (or, without chips, a board) in one direction.

    name : column and row of the chip, and the direction
    load : sum of the loads
    busiest : the largest load over the bandwidth of the link
    """

    name: str
    load: float
    busiest: float


def end_lines(chip: Chip, tile: int) -> dict[str, str]:
    """Return SVG paths along the boundaries of each kind of part, without the machine's edge.

    tile : cores per row of a cell, which is 10 units wide
    """
    machine = chip.machine
    if machine is None:
        return {}
    found = {}
    for name in PARTS:
        part = getattr(machine, name)
        if part is None:
            continue
        high, wide = 10 * chip.height / tile, 10 * chip.width / tile
        across = [10 * x / tile for x in range(part.width, chip.width, part.width)]
        down = [10 * y / tile for y in range(part.height, chip.height, part.height)]
        lines = [f"M{x:g} 0v{high:g}" for x in across] + [f"M0 {y:g}h{wide:g}" for y in down]
        if lines:
            found[name] = "".join(lines)
    return found


def ends(chip: Chip, links: NDArray[Any]) -> list[End]:
    """Return the traffic leaving each chip in each direction, largest first; empty for one chip.

    links : loads of links, shape (4, rows, columns of routers)
    """
    machine = chip.machine
    part = None if machine is None else machine.chip or machine.board
    if machine is None or part is None:
        return []
    _, kinds, bandwidth = link_tables(machine)
    wide, tall = machine.tile_size
    _, rows, columns = links.shape
    y, x = np.indices((rows, columns))
    down, across = y * tall // part.height, x * wide // part.width
    found = []
    for direction, name in enumerate(DIRECTIONS):
        over = (kinds[direction] >= CHIPS) & (links[direction] > 0)
        for row, column in np.unique(np.column_stack([down[over], across[over]]), axis=0):
            mine = over & (down == row) & (across == column)
            loads = links[direction][mine]
            busiest = float((loads / bandwidth[direction][mine]).max())
            found.append(End(f"{column}, {row} {name}", float(loads.sum()), busiest))
    return sorted(found, key=lambda end: -end.load)
