"""Faults of a chip: cores that stay empty, routers that do not route, links that are broken."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from chipsim.chip.machine import Machine
from chipsim.errors import ChipError
from chipsim.protocols import BoolArray, Int64Array

LinkPairs = tuple[tuple[int, int], ...]
"""Broken links: pairs of cores at adjacent routers; the links in both directions are broken."""

MAX_ROUTERS = 1 << 14
"""Maximum number of routers with broken links: a table takes two bytes per pair, 512 MiB."""

EAST, WEST, SOUTH, NORTH = range(4)
"""Directions of links, in the order of `chipsim.traffic.links.DIRECTIONS`; opposites differ in the
last bit."""
STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))
"""Columns and rows of a step in each direction."""


class FaultyChip(Protocol):
    """The fields of `chipsim.chip.model.Chip` that describe its routers and faults."""

    @property
    def name(self) -> str: ...
    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def cores(self) -> int: ...
    @property
    def machine(self) -> Machine | None: ...
    @property
    def routers(self) -> tuple[int, int]: ...
    @property
    def unavailable(self) -> tuple[int, ...]: ...
    @property
    def broken_links(self) -> LinkPairs: ...
    @property
    def broken_routers(self) -> tuple[int, ...]: ...


def check_core(chip: FaultyChip, what: str, core: Any) -> None:
    """Raise `ChipError` unless ``core`` is the id of a core; what : its name in messages"""
    whole = isinstance(core, int | np.integer) and not isinstance(core, bool)
    if not whole or not 0 <= core < chip.cores:
        raise ChipError(
            f"chip {chip.name}: {what} {core!r} is outside the {chip.width}x{chip.height} "
            f"mesh; core ids run from 0 to {chip.cores - 1}"
        )


def checked_faults(chip: FaultyChip) -> dict[str, Any]:
    """Return the faults by field of the chip, sorted, without repeats.

    Raises `ChipError` for cores outside the mesh, cores that are not adjacent, usable cores that
    cannot reach each other, and more than `MAX_ROUTERS` routers.
    """
    links, routers = _checked_links(chip), _checked_routers(chip)
    empty = _checked_unavailable(chip)
    if links or routers:
        columns, rows = chip.routers
        if columns * rows > MAX_ROUTERS:
            raise ChipError(
                f"chip {chip.name}: broken links need tables of routes, for at most "
                f"{MAX_ROUTERS:,} routers; the chip has {columns * rows:,}"
            )
        _require_connected(chip, working_links(chip), empty)
    return {"unavailable": empty, "broken_links": links, "broken_routers": routers}


def _checked_unavailable(chip: FaultyChip) -> tuple[int, ...]:
    """Return the cores that stay empty, sorted, including all cores at broken routers."""
    for core in chip.unavailable:
        check_core(chip, "unavailable core", core)
    found = {int(core) for core in chip.unavailable}
    if chip.broken_routers:
        at = _router_of(chip, np.arange(chip.cores))
        dead = _router_of(chip, np.array(chip.broken_routers))
        found |= set(np.flatnonzero(np.isin(at, dead)).tolist())
    if len(found) == chip.cores:
        raise ChipError(f"chip {chip.name}: all {chip.cores} cores are unavailable; leave one")
    return tuple(sorted(found))


def _checked_routers(chip: FaultyChip) -> tuple[int, ...]:
    """Return the cores that name the broken routers, sorted."""
    for core in chip.broken_routers:
        check_core(chip, "core of a broken router", core)
    return tuple(sorted({int(core) for core in chip.broken_routers}))


def _checked_links(chip: FaultyChip) -> LinkPairs:
    """Return the broken links, sorted, the lower core of each first."""
    found = set()
    for pair in chip.broken_links:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ChipError(
                f"chip {chip.name}: broken_links holds {pair!r}; give pairs of adjacent cores, "
                "such as [[1, 2], [2, 2]]"
            )
        for core in pair:
            check_core(chip, "core of a broken link", core)
        low, high = sorted(map(int, pair))
        if not _between(chip, low, high):
            ends = " and ".join(place_of(chip, core) for core in (low, high))
            routers = _router_of(chip, np.array([low, high]))
            what = "share a router" if routers[0] == routers[1] else "are not adjacent"
            raise ChipError(
                f"chip {chip.name}: broken link: cores {ends} {what}; give two cores at adjacent "
                "routers"
            )
        found.add((low, high))
    return tuple(sorted(found))


def place_of(chip: FaultyChip, core: int) -> str:
    """Return a core as users write it: [x, y]."""
    return f"[{core % chip.width}, {core // chip.width}]"


def links_of(columns: int, rows: int, torus: str) -> BoolArray:
    """Return whether each link of a mesh without faults exists, shape (4, rows, columns).

    Entry [d, y, x] is the link that leaves the router in column x, row y in direction d. Links from
    the last router to the first close a torus, if there is more than one router.
    """
    found = np.ones((4, rows, columns), np.bool_)
    if "x" not in torus or columns == 1:
        found[EAST, :, -1] = found[WEST, :, 0] = False
    if "y" not in torus or rows == 1:
        found[SOUTH, -1] = found[NORTH, 0] = False
    return found


def working_links(chip: FaultyChip) -> BoolArray:
    """Return whether each link exists and works, in the form of `links_of`."""
    columns, rows = chip.routers
    works = links_of(columns, rows, "" if chip.machine is None else chip.machine.torus)
    for low, high in chip.broken_links:
        for here, there in ((low, high), (high, low)):
            y, x = divmod(int(_router_of(chip, np.array(here))), columns)
            for direction in _between(chip, here, there):
                works[direction, y, x] = False
    for core in chip.broken_routers:
        y, x = divmod(int(_router_of(chip, np.array(core))), columns)
        works[:, y, x] = False
        for direction, (dx, dy) in enumerate(STEPS):
            works[direction ^ 1, (y + dy) % rows, (x + dx) % columns] = False
    return works


def _require_connected(chip: FaultyChip, works: BoolArray, empty: tuple[int, ...]) -> None:
    """Raise `ChipError` naming two usable cores that cannot reach each other, if there are any."""
    cores = np.delete(np.arange(chip.cores), list(empty))
    routers = _router_of(chip, cores)
    cut = np.flatnonzero(~_reached(works, int(routers[0]))[routers])
    if cut.size:
        a, b = place_of(chip, int(cores[0])), place_of(chip, int(cores[cut[0]]))
        raise ChipError(
            f"chip {chip.name}: broken links separate core {a} from core {b}; make the cores of "
            "one side unavailable"
        )


def _reached(works: BoolArray, first: int) -> BoolArray:
    """Return whether a way leads to each router; links work in both directions or in none."""
    _, rows, columns = works.shape
    reached = np.zeros(rows * columns, np.bool_)
    reached[first] = True
    front = np.array([first])
    while front.size:
        y, x = np.divmod(front, columns)
        after = [
            (y + dy)[works[direction, y, x]] % rows * columns
            + (x + dx)[works[direction, y, x]] % columns
            for direction, (dx, dy) in enumerate(STEPS)
        ]
        front = np.unique(np.concatenate(after))
        front = front[~reached[front]]
        reached[front] = True
    return reached


def _router_of(chip: FaultyChip, core: Int64Array) -> Int64Array:
    """Return the router of each core: y * columns + x."""
    columns, rows = chip.routers
    y, x = np.divmod(core, chip.width)
    return y // (chip.height // rows) * columns + x // (chip.width // columns)


def _between(chip: FaultyChip, here: int, there: int) -> list[int]:
    """Return the directions of the links between the routers of two cores."""
    columns, rows = chip.routers
    torus = "" if chip.machine is None else chip.machine.torus
    (y, x), (to_y, to_x) = (
        divmod(int(_router_of(chip, np.array(core))), columns) for core in (here, there)
    )
    found = []
    for direction, (dx, dy) in enumerate(STEPS):
        across, down = x + dx, y + dy
        if "x" in torus:
            across %= columns
        if "y" in torus:
            down %= rows
        if (across, down) == (to_x, to_y) != (x, y):
            found.append(direction)
    return found
