"""Machines: coordinates against walks step by step, their unit, and errors in files."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.machine import (
    BOARDS,
    CHIPS,
    ROUTERS,
    STRAIGHT,
    WITHIN,
    Axes,
    Block,
    Machine,
    flat_axes,
    machine_from_fields,
)
from chipsim.chip.model import Chip
from chipsim.chip.presets import parse_chip
from chipsim.errors import ChipError
from chipsim.noc.mesh import Mesh


def kind(sides: list[int], place: int, length: int) -> int:
    """Return the kind of the step after a place; sides : of tile, chip and board, 0 without one"""
    tile, chip, board = sides
    after = place + 1
    last = after == length
    if board and (last or after % board == 0):
        return BOARDS
    if chip and (last or after % chip == 0):
        return CHIPS
    if tile and after % tile:
        return WITHIN
    return ROUTERS


@pytest.mark.parametrize("seed", range(200))
def test_coordinates_are_walked(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tile, chips, boards = (rng.integers(1, 4, 2).tolist() for _ in range(3))
    given = rng.random(3) < 0.6
    sides, size = [], np.array([1, 1])
    for is_given, one in zip(given, (tile, chips, boards), strict=True):
        size = size * one if is_given else size
        sides.append(size.tolist() if is_given else [0, 0])
    width, height = (size * rng.integers(1, 4, 2)).tolist()
    costs = rng.choice([0, 0.5, 1, 1.5, 10], 5).tolist()
    torus = str(rng.choice(["", "x", "y", "xy"]))
    within, east, south, over_chip, over_board = costs
    machine = Machine(
        width, height, torus, (east, south),  # type: ignore[arg-type]
        *(
            Block(*sides[i], cost) if given[i] else None
            for i, cost in enumerate((within, over_chip, over_board))
        ),
    )  # fmt: skip
    axes = machine.axes
    for axis, (length, at, around) in enumerate(
        ((width, axes.x, axes.round_x), (height, axes.y, axes.round_y))
    ):
        kinds = [kind([side[axis] for side in sides], place, length) for place in range(length)]
        assert machine.kinds(axis).tolist() == kinds
        by_kind = [within, (east, south)[axis], over_chip, over_board]
        steps = [Fraction(by_kind[k]) for k in kinds]
        unit = Fraction(machine.unit)
        walked = [sum(steps[:place], Fraction(0)) for place in range(length)]
        assert [int(place) * unit for place in at] == walked
        turn = "xy"[axis] in torus and sum(steps) > 0
        assert around * unit == sum(steps) if turn else around == STRAIGHT
    assert axes.x.dtype == axes.y.dtype == np.int32
    every = [*np.diff(axes.x).tolist(), *np.diff(axes.y).tolist()]
    assert math.gcd(*every, *(r for r in axes[2:] if r != STRAIGHT)) in (0, 1)


def test_links_and_routers() -> None:
    def chip(torus: str, tile: Block | None = None) -> Chip:
        return Chip("c", 6, 4, machine=Machine(6, 4, torus, tile=tile))  # type: ignore[arg-type]

    assert (chip("").routers, chip("").links) == ((6, 4), Chip("c", 6, 4).links)
    assert chip("x").links == 2 * (6 * 4 + 6 * 3)
    assert chip("xy").links == 2 * (6 * 4 + 6 * 4)
    tiles = chip("xy", Block(2, 4, 0.0))
    assert (tiles.routers, tiles.links) == ((3, 1), 2 * 3)  # a single router is not a ring


def test_windows_start_at_zero() -> None:
    axes = Machine(6, 4, chip=Block(3, 2, 10.0)).axes
    assert axes.x.tolist() == [0, 1, 2, 12, 13, 14]
    part = axes.window(2, 1, 3, 2)
    assert (part.x.tolist(), part.y.tolist()) == ([0, 10, 11], [0, 10])
    assert part.shape == (2, 3)
    cells = np.array(list(itertools.product(range(3), range(2))))
    assert part.places(cells)[-1].tolist() == [11, 10]
    assert not axes.flat
    assert flat_axes(5, 3).flat
    assert Chip("flat", 5, 3).axes.shape == (3, 5)
    assert not Axes(*flat_axes(5, 3)[:2], 5, STRAIGHT).flat


def test_given_coordinates() -> None:
    machine = machine_from_fields({"columns": [1, 1, 2.5], "rows": [0, 0.25]}, 3, 2)
    assert machine is not None
    assert machine.unit == 0.25
    assert (machine.axes.x.tolist(), machine.axes.y.tolist()) == ([0, 0, 6], [0, 1])
    assert machine_from_fields({"neurons": 3}, 3, 2) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('torus = "z"', "torus is 'z'; give"),
        ("link_cost = -1", "link_cost is -1; give a number, 0 or more: coordinates never decrease"),
        ("link_cost = [1, 2, 3]", "link_cost is [1, 2, 3]; give a number, or"),
        (
            "columns = [0, 1, 3, 2, 4, 5]",
            "columns: coordinates decrease from 3 to 2 at 3; sort them",
        ),
        ("columns = [0, 1]", "columns has 2 coordinates; give one for each of the 6"),
        ("rows = []", "rows is []; give a list of coordinates"),
        ('rows = [0, 1, 2, "3"]', "rows holds '3'; give numbers"),
        ("[chip]\nwidth = 4\nheight = 4\ncost = 1", "chips of 4x4 cores do not tile the 6x4"),
        (
            "[tile]\nwidth = 2\nheight = 1\n[chip]\nwidth = 3\nheight = 4\ncost = 1",
            "chip: width 3 is not a multiple of the 2 of a tile",
        ),
        ("[chip]\nwidth = 3\ncost = 1", "chip: key 'height' is missing; add it"),
        ("[tile]\nwidth = 0\nheight = 4", "tile: width is 0; give a whole number"),
        ("[tile]\nwidth = 2\nheight = 4\nbandwidth = 1", "tile: unknown key 'bandwidth'; "),
        ("[board]\nwidth = 3\nheight = 4\ncosts = 1", "board: unknown key 'costs'; did you mean"),
        (
            "[board]\nwidth = 3\nheight = 4\ncost = 1\nbandwidth = 2",
            "board: bandwidth is 2; give a number above 0 and at most 1",
        ),
        ("board = 3", "board is 3; give a table [board] with width"),
        ("[chip]\nwidth = 3\nheight = 4\ncost = 0.0000001", "have the common unit 1e-07"),
    ],
)
def test_bad_machines(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f"width = 6\nheight = 4\n{text}\n")
    with pytest.raises(ChipError) as error:
        parse_chip(str(path))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_machine_of_another_size() -> None:
    with pytest.raises(ChipError, match="the machine has 4x4 cores, the mesh 5x4"):
        Chip("c", 5, 4, machine=Machine(4, 4))
    with pytest.raises(ChipError, match="machine is 3; give a Machine"):
        Chip("c", 5, 4, machine=3)  # type: ignore[arg-type]


def test_a_torus_needs_room_for_its_bubbles() -> None:
    with pytest.raises(ChipError, match="depth is 1; a torus needs buffers of 2 flits or more"):
        Mesh.of(Chip("c", 4, 4, machine=Machine(4, 4, "x")), depth=1)


def test_machines_of_like_links_are_simulated() -> None:
    assert Mesh.of(Chip("c", 4, 4, machine=Machine(4, 4, chip=Block(2, 2, 9.0)))) == Mesh(4, 4)


def test_distances_in_hops() -> None:
    axes = Chip("c", 6, 4, machine=Machine(6, 4, "y", tile=Block(3, 2, 0.0))).hop_axes
    assert (axes.x.tolist(), axes.y.tolist()) == ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1])
    assert (axes.round_x, axes.round_y) == (STRAIGHT, 2)
    assert Chip("flat", 5, 3).hop_axes.flat
