"""Boundaries of tiles, chips and boards on the map of a machine, and the traffic across them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.faults import EAST, SOUTH, links_of, working_links
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
    """Return SVG paths along the boundaries of each kind of part, and across broken links.

    Boundaries are drawn without the machine's edge.

    tile : cores per row of a cell, which is 10 units wide
    """
    machine = chip.machine
    broken = _broken_lines(chip, tile)
    found = {"broken": broken} if broken else {}
    for name in PARTS if machine is not None else ():
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


def _broken_lines(chip: Chip, tile: int) -> str:
    """Return an SVG path with a bar in the gap of each broken link."""
    columns, rows = chip.routers
    wide, tall = chip.width // columns, chip.height // rows
    torus = "" if chip.machine is None else chip.machine.torus
    broken = links_of(columns, rows, torus) & ~working_links(chip)
    lines = []
    for direction, dash in ((EAST, "v5"), (SOUTH, "h5")):  # the opposite link is broken as well
        for y, x in np.argwhere(broken[direction]).tolist():
            middle = 10 * (y * tall + (tall - 1) // 2), 10 * (x * wide + (wide - 1) // 2)
            end = 10 * (y + 1) * tall, 10 * (x + 1) * wide
            at = (end[1], middle[0] + 2.5) if direction == EAST else (middle[1] + 2.5, end[0])
            lines.append(f"M{at[0] / tile:g} {at[1] / tile:g}{dash}")
    return "".join(lines)


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
