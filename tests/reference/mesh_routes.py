"""Reference implementation of the routes of the mesh: every route is walked link by link.

No code is shared with `chipsim` except the Chip dataclass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from chipsim.chip.machine import STRAIGHT
from chipsim.chip.model import Chip
from tests.reference.detours import faults_of
from tests.reference.latency import Leg
from tests.reference.machine import Line, Plane

Router = tuple[int, int]
Link = tuple[Router, str]
"""A router, and the direction in which the link leaves it."""

STEPS = {"east": (1, 0), "west": (-1, 0), "south": (0, 1), "north": (0, -1)}


def lines(chip: Chip, side_x: int = 1, side_y: int = 1) -> Plane:
    """Return the step costs along columns and rows of cores, or of blocks of cores."""
    machine = chip.machine
    found = []
    for at, around, side, torus in (
        (chip.axes.x, chip.axes.round_x, side_x, machine is not None and "x" in machine.torus),
        (chip.axes.y, chip.axes.round_y, side_y, machine is not None and "y" in machine.torus),
    ):
        places = at[::side].tolist()
        steps = [b - a for a, b in pairwise(places)]
        turns = torus and around != STRAIGHT
        found.append(Line((*steps, around - places[-1] if turns else 0), turns))
    return Plane(*found)


def tile(chip: Chip) -> tuple[int, int]:
    part = chip.machine and chip.machine.tile
    return (part.width, part.height) if part else (1, 1)


def size(chip: Chip) -> tuple[int, int]:
    """Return columns and rows of routers."""
    wide, tall = tile(chip)
    return chip.width // wide, chip.height // tall


def place(chip: Chip, core: int) -> Router:
    wide, tall = tile(chip)
    return core % chip.width // wide, core // chip.width // tall


def cost(chip: Chip, a: int, b: int) -> int:
    """Return the distance of two cores by the coordinates, and the cost of detours beyond it."""
    ends = [(core % chip.width, core // chip.width) for core in (a, b)]
    far, plane = lines(chip).far(*ends), lines(chip, *tile(chip))
    if faults_of(chip):
        far -= plane.far(place(chip, a), place(chip, b))
        for (x, y), name in route(chip, a, b):
            line, at = (plane.x, x) if name in ("east", "west") else (plane.y, y)
            far += line.step(at, name in ("east", "south"))
    return far


def ways(chip: Chip, a: int, b: int) -> tuple[int, int]:
    """Return steps between the routers of two cores, on a torus the cheaper way round."""
    plane, ends = lines(chip, *tile(chip)), (place(chip, a), place(chip, b))
    found = []
    for line, start, end, length in zip((plane.x, plane.y), *ends, size(chip), strict=True):
        steps, straight = end - start, line.walk(min(start, end), max(start, end))
        if line.torus and steps and sum(line.steps) - straight < straight:
            steps += -length if steps > 0 else length
        found.append(steps)
    return found[0], found[1]


def distance(chip: Chip, a: int, b: int) -> int:
    return len(route(chip, a, b))


def route(chip: Chip, a: int, b: int) -> list[Link]:
    """Return the links of the route: the XY route, one step at a time, unless links are broken."""
    if faults := faults_of(chip):
        return faults.routes(place(chip, a))[place(chip, b)]
    (x, y), (dx, dy) = place(chip, a), ways(chip, a, b)
    columns, rows = size(chip)
    links = []
    for name in ["east" if dx > 0 else "west"] * abs(dx) + ["south" if dy > 0 else "north"] * abs(
        dy
    ):
        links.append(((x, y), name))
        x, y = (x + STEPS[name][0]) % columns, (y + STEPS[name][1]) % rows
    return links


def paths(here: Router, there: Router) -> Iterator[tuple[list[Router], float]]:
    """Yield every minimal path with its probability."""
    if here == there:
        yield [here], 1.0
        return
    steps = []
    if here[0] != there[0]:
        steps.append((here[0] + (1 if there[0] > here[0] else -1), here[1]))
    if here[1] != there[1]:
        steps.append((here[0], here[1] + (1 if there[1] > here[1] else -1)))
    for step in steps:
        for rest, chance in paths(step, there):
            yield [here, *rest], chance / len(steps)


def all_links(chip: Chip) -> list[Link]:
    found = []
    columns, rows = size(chip)
    torus = chip.machine.torus if chip.machine else ""
    for y in range(rows):
        for x in range(columns):
            for name, (dx, dy) in STEPS.items():
                if (faults := faults_of(chip)) and ((x, y), name) not in faults.after:
                    continue
                inside = 0 <= x + dx < columns and 0 <= y + dy < rows
                turns = columns > 1 and "x" in torus if dx else rows > 1 and "y" in torus
                if inside or turns:
                    found.append(((x, y), name))
    return found


def grid(chip: Chip, loads: Counter[Link]) -> list[list[list[int]]]:
    """Return loads as [direction][y][x] of the router that the link leaves."""
    columns, rows = size(chip)
    return [[[loads[(x, y), name] for x in range(columns)] for y in range(rows)] for name in STEPS]


def walk(chip: Chip, a: int, b: int) -> list[Leg]:
    """Return the routers that a packet passes, each with its input and output."""
    links = route(chip, a, b)
    names = ["core", *(name for _, name in links), "core"]
    places = [*(here for here, _ in links), place(chip, b)]
    return list(zip(places, names, names[1:], strict=False))
