"""Machines: tiles of cores that share a router, adjacent chips and boards, tori.

Each axis of a mesh has coordinates. A step between adjacent columns or rows costs 0 within a tile,
1 between routers, and the cost in ``[chip]`` or ``[board]`` at the boundary of a chip or a board.
The distance of two cores is |X[x1] - X[x2]| + |Y[y1] - Y[y2]|, on a torus along the shorter way. On
a flat chip every step costs 1.

Costs may be fractions. Kernels count in integer multiples of a unit: the largest number of which
all steps of the machine are multiples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
from msgspec import Meta

from chipsim.chip.tables import checked_table, entry_line, meanings
from chipsim.chip.toml_text import toml_string
from chipsim.errors import ChipError
from chipsim.protocols import Int32Array, Int64Array

STRAIGHT = 1 << 40
"""Length of the way round an axis that is not a ring: longer than any distance."""
MOST_UNITS = 1 << 24
"""Largest coordinate, so that weights times distances fit the kernels' integers."""
MOST_COST = 1e9
MOST_LATENCY = 500
"""Largest latency of a link in cycles: the timing wheels of the simulators must hold it. Also
bounds the cycles per flit on a narrow link."""

WITHIN, ROUTERS, CHIPS, BOARDS = range(4)
"""Kinds of steps: to the next core within a tile, to another tile, chip or board."""

Torus = Literal["", "x", "y", "xy"]


class Axes(NamedTuple):
    """Coordinates as kernels read them: non-decreasing integers.

    x, y : ndarray[int32], coordinate of every column and of every row
    round_x, round_y : circumference of a torus axis, else `STRAIGHT`
    """

    x: Int32Array
    y: Int32Array
    round_x: int
    round_y: int

    def window(self, x: int, y: int, width: int, height: int) -> Axes:
        """Return the coordinates of a range of columns and rows, starting at 0."""
        columns, rows = self.x[x : x + width], self.y[y : y + height]
        return self._replace(x=columns - columns[0], y=rows - rows[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.y.size, self.x.size

    def places(self, cells: Int64Array) -> Int64Array:
        """Return the coordinates of cells (column, row), shape (n, 2)."""
        return np.column_stack([self.x[cells[:, 0]], self.y[cells[:, 1]]]).astype(np.int64)

    @property
    def flat(self) -> bool:
        """True if every step costs 1 and no axis is a ring."""
        straight = self.round_x == self.round_y == STRAIGHT
        return straight and all(bool((np.diff(each) == 1).all()) for each in (self.x, self.y))


def flat_axes(width: int, height: int) -> Axes:
    """Return the axes of a mesh whose steps all cost 1."""
    columns, rows = (np.arange(length, dtype=np.int32) for length in (width, height))
    return Axes(columns, rows, STRAIGHT, STRAIGHT)


@dataclass(frozen=True, slots=True)
class Block:
    """The cores of a tile, a chip or a board: ``[tile]``, ``[chip]``, ``[board]``.

    cost : cost of a step within a tile, or across the boundary of a chip or board; None means the
        cost of a step within the chip (for a board: of a step between chips)
    bandwidth : bandwidth of a link across the boundary, relative to a link within a chip
    latency : cycles of a flit across the boundary; None means the cycles of a hop within a chip
    """

    width: Annotated[int, Meta(ge=1, description="width in cores")]
    height: Annotated[int, Meta(ge=1, description="height in cores")]
    cost: Annotated[
        Annotated[float, Meta(ge=0, le=MOST_COST)] | None,
        Meta(description="cost of a step across the boundary; for a tile: of a step within it"),
    ] = None
    bandwidth: Annotated[
        float,
        Meta(gt=0, le=1, description="bandwidth of a link across the boundary; within a chip: 1"),
    ] = 1.0
    latency: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_LATENCY)] | None,
        Meta(description="cycles of a flit across the boundary, instead of a hop's"),
    ] = None


@dataclass(frozen=True)
class Machine:
    """The structure of a mesh of cores; raises `ChipError` naming a value out of range.

    width, height : size of the mesh, in cores

    The wrap-around step of a torus crosses the boundary of the largest part present.
    """

    width: int
    height: int
    torus: Annotated[
        Torus, Meta(description="axes on which the last core is adjacent to the first: x, y or xy")
    ] = ""
    link_cost: Annotated[
        tuple[float, float],
        Meta(description="cost of a step between routers: a number, or [east-west, other]"),
    ] = (1.0, 1.0)
    tile: Annotated[Block | None, Meta(description="the cores that share a router")] = None
    chip: Annotated[Block | None, Meta(description="the cores of each chip of a board")] = None
    board: Annotated[Block | None, Meta(description="the cores of each board")] = None
    columns: Annotated[
        tuple[float, ...],
        Meta(description="coordinate of each column, non-decreasing; replaces step costs"),
    ] = ()
    rows: Annotated[
        tuple[float, ...],
        Meta(description="coordinate of each row, non-decreasing; replaces step costs"),
    ] = ()

    def __post_init__(self) -> None:
        if self.torus not in get_args(Torus):
            raise ChipError(f'torus is {self.torus!r}; give "x", "y" or "xy"')
        for cost in self.link_cost:
            _check_cost("link_cost", cost)
        inner: tuple[str, int, int] = "core", 1, 1
        for name in PARTS:
            block = getattr(self, name)
            if block is None:
                continue
            self._check_block(name, block)
            for side, mine, one in (
                ("width", block.width, inner[1]),
                ("height", block.height, inner[2]),
            ):
                if mine % one:
                    raise ChipError(
                        f"{name}: {side} {mine} is not a multiple of the {one} of a {inner[0]}"
                    )
            inner = name, block.width, block.height
            if self.width % block.width or self.height % block.height:
                raise ChipError(
                    f"{name}s of {block.width}x{block.height} cores do not tile the "
                    f"{self.width}x{self.height} machine; give sides that divide the machine's"
                )
        for name, given, length in (
            ("columns", self.columns, self.width),
            ("rows", self.rows, self.height),
        ):
            _check_coordinates(name, given, length)
        self._counted  # noqa: B018 : raises if the costs have no common unit

    def _check_block(self, name: str, block: Block) -> None:
        for side in ("width", "height"):
            value = getattr(block, side)
            if type(value) is not int or value < 1:
                raise ChipError(f"{name}: {side} is {value!r}; give a whole number, 1 or more")
        if block.cost is not None:
            _check_cost(f"{name}: cost", block.cost)
        if type(block.bandwidth) not in (int, float) or not 0 < block.bandwidth <= 1:
            raise ChipError(
                f"{name}: bandwidth is {block.bandwidth!r}; give a number above 0 and at most 1: a "
                "link within a chip has 1"
            )
        if block.latency is not None and (
            type(block.latency) is not int or not 1 <= block.latency <= MOST_LATENCY
        ):
            raise ChipError(
                f"{name}: latency is {block.latency!r}; give a whole number of cycles, 1 to "
                f"{MOST_LATENCY}"
            )

    @property
    def tile_size(self) -> tuple[int, int]:
        """Columns and rows of cores that share a router."""
        return (1, 1) if self.tile is None else (self.tile.width, self.tile.height)

    def kinds(self, axis: int) -> Int64Array:
        """Return the kind of each step along an axis, `WITHIN` to `BOARDS`, shape (length,).

        axis : 0 for columns. Entry i is the step from i to i + 1; the last one wraps round to 0.
        """
        length = (self.width, self.height)[axis]
        after = np.arange(1, length + 1)
        kinds = np.full(length, ROUTERS)
        sides = {
            name: (block.width, block.height)[axis]
            for name, block in ((part, getattr(self, part)) for part in PARTS)
            if block is not None
        }
        if "tile" in sides:
            kinds[after % sides["tile"] != 0] = WITHIN
        for name, kind in (("chip", CHIPS), ("board", BOARDS)):
            if name in sides:
                kinds[after % sides[name] == 0] = kind
        return kinds

    def _steps(self, axis: int) -> list[Fraction]:
        """Return the cost of each step along an axis, in the order of `kinds`."""
        costs = [self.tile.cost or 0.0 if self.tile else 0.0, self.link_cost[axis]]
        for block in (self.chip, self.board):
            given = None if block is None else block.cost
            costs.append(costs[-1] if given is None else given)
        exact = [_exact(cost) for cost in costs]
        steps = [exact[kind] for kind in self.kinds(axis)]
        places = (self.columns, self.rows)[axis]
        if places:
            ends = [_exact(value) for value in places]
            steps[:-1] = [b - a for a, b in pairwise(ends)]
        return steps

    @cached_property
    def _counted(self) -> tuple[Axes, float]:
        """The coordinates and their unit."""
        steps = [self._steps(axis) for axis in (0, 1)]
        # An axis that is not a ring has no wrap-around step.
        for axis, name in enumerate("xy"):
            if name not in self.torus:
                steps[axis][-1] = Fraction(0)
        every = {step for some in steps for step in some}
        below = math.lcm(*(step.denominator for step in every))
        unit = math.gcd(*(int(step * below) for step in every)) or 1
        found = [[int(step * below) // unit for step in some] for some in steps]
        if max(sum(some) for some in found) > MOST_UNITS:
            raise ChipError(
                f"costs of steps have the common unit {unit / below:.6g}; the machine is "
                f"{max(sum(some) for some in found)} units long, more than {MOST_UNITS}; round them"
            )
        counted = [np.array(some, np.int32) for some in found]
        places = [np.append(0, some[:-1].cumsum()).astype(np.int32) for some in counted]
        rounds = [
            int(some.sum()) if name in self.torus and some.sum() else STRAIGHT
            for name, some in zip("xy", counted, strict=True)
        ]
        return Axes(places[0], places[1], *rounds), unit / below

    @property
    def axes(self) -> Axes:
        """The coordinates of columns and rows, in multiples of `unit`."""
        return self._counted[0]

    @property
    def unit(self) -> float:
        """Cost of one unit of the coordinates, on the scale of the given costs."""
        return self._counted[1]

    def to_json(self) -> dict[str, Any]:
        """Return the keys of a chip file; `machine_from_fields` is the inverse."""
        found: dict[str, Any] = {}
        if self.torus:
            found["torus"] = self.torus
        if self.link_cost != (1.0, 1.0):
            found["link_cost"] = list(self.link_cost)
        for name in ("columns", "rows"):
            if getattr(self, name):
                found[name] = list(getattr(self, name))
        return found | {
            name: {
                key: value
                for key in _keys(name)
                if (value := getattr(getattr(self, name), key)) is not None
            }
            for name in PARTS
            if getattr(self, name) is not None
        }


PARTS = ("tile", "chip", "board")
KEYS = ("torus", "link_cost", "columns", "rows", *PARTS)
"""Keys of a chip file that describe a machine."""


def _exact(cost: float) -> Fraction:
    """Return the exact value of the decimal notation, not of the binary number."""
    return Fraction(repr(float(cost)))


def _check_cost(name: str, cost: Any) -> None:
    if type(cost) not in (int, float) or not 0 <= cost <= MOST_COST:
        raise ChipError(f"{name} is {cost!r}; give a number, 0 or more: coordinates never decrease")


def _check_coordinates(name: str, given: Sequence[Any], length: int) -> None:
    if not given:
        return
    if len(given) != length:
        raise ChipError(f"{name} has {len(given)} coordinates; give one for each of the {length}")
    before = None
    for at, value in enumerate(given):
        if type(value) not in (int, float) or not abs(value) <= MOST_COST:
            raise ChipError(f"{name} holds {value!r}; give numbers")
        if before is not None and value < before:
            raise ChipError(
                f"{name}: coordinates decrease from {before} to {value} at {at}; sort them"
            )
        before = value


def machine_from_fields(values: Mapping[str, Any], width: int, height: int) -> Machine | None:
    """Return the machine described by the keys of a chip file, or None if it has no such keys.

    Raises `ChipError` naming the faulty key.
    """
    given = {key: values[key] for key in KEYS if key in values}
    if not given:
        return None
    cost = given.get("link_cost", 1.0)
    pair = tuple(cost) if isinstance(cost, list | tuple) else (cost, cost)
    if len(pair) != 2:
        raise ChipError(f"link_cost is {cost!r}; give a number, or [east-west, north-south]")
    given["link_cost"] = pair
    for name in PARTS:
        if name in given:
            given[name] = _block(name, given[name])
    for name in ("columns", "rows"):
        if name in given:
            if not isinstance(given[name], list | tuple) or not given[name]:
                raise ChipError(f"{name} is {given[name]!r}; give a list of coordinates")
            given[name] = tuple(given[name])
    return Machine(width, height, **given)


def _keys(name: str) -> list[str]:
    """Return the keys of the table of a part; a tile has no link keys."""
    keys = [field.name for field in fields(Block)]
    return keys[:-2] if name == "tile" else keys


def _block(name: str, values: object) -> Block:
    known = _keys(name)
    given = checked_table(name, values, known, f" with {', '.join(known)}")
    for key in ("width", "height"):
        if key not in given:
            raise ChipError(f"{name}: key {key!r} is missing; add it")
    return Block(**(({"cost": 0.0} if name == "tile" else {}) | dict(given)))


def machine_lines(machine: Machine | None) -> tuple[list[str], list[str]]:
    """Return the lines of a chip file that describe a machine: top-level keys, and tables."""
    if machine is None:
        return [], []
    found, means, inner = machine.to_json(), meanings(Machine), meanings(Block)
    keys, tables = [], []
    for key, value in found.items():
        if key in PARTS:
            tables += ["", f"[{key}]  # {means[key]}"]
            tables += [entry_line(f"{k} = {_toml(v)}", inner[k]) for k, v in value.items()]
        else:
            keys += ["", f"# {means[key]}", f"{key} = {_toml(value)}"]
    return keys, tables


def _toml(value: Any) -> str:
    return toml_string(value) if isinstance(value, str) else repr(value)
