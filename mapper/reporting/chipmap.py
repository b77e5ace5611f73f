"""The chip as a picture: cores as squares, links as strokes in the gaps between them.

A core is 10 units wide, its square 7. Traffic keeps to the right, as on a road: eastward below,
southward on the left. All squares, or links, of a colour are one path, so that 4,096 cores need a
hundred elements. scripts/map.js draws other layers in the same places. If few cores are used, the
picture shows only the part of the chip with them.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import NamedTuple

import numpy as np

from mapper.reporting.cells import Cell, number
from mapper.reporting.colours import LINK_STEPS, STEPS, marks, ramp, rgb
from mapper.reporting.machine import end_lines
from mapper.reporting.members import PopulationView
from mapper.reporting.view import (
    EMPTY,
    LAYERS,
    LINKS,
    POPULATION,
    UNAVAILABLE,
    USED,
    Grid,
    View,
    shown,
    steps,
)

PITCH = 10
SEGMENTS = 4
"""Maximum number of populations drawn in a core; one on chips of more cores than `SEGMENTED`."""
SEGMENTED = 1024
OTHERS = {"light": "#9aa1ad", "dark": "#6b7280"}
"""Colour of the populations without their own."""


class Path(NamedTuple):
    """Shapes of one colour."""

    name: str
    path: str


class Picture(NamedTuple):
    light: str
    dark: str


class Map(NamedTuple):
    """The map of one mapping, showing its first layer and the links of the chip's delivery.

    mapping : its index in the page's data
    across, down : first and last column and row of cores that are shown
    box : left, top, width and height of the shown part
    picture : replaces shapes if there are too many
    ends : boundaries of tiles, chips and boards
    """

    mapping: int
    label: str
    layer: str
    across: tuple[int, int]
    down: tuple[int, int]
    box: tuple[int, int, int, int]
    ratio: float
    most: int
    picture: Picture | None
    links: list[Path]
    cells: list[Path]
    idle: list[Path]
    ends: list[Path]


def chip_map(
    view: View, scale: dict[str, float], mapping: int, sent: str, layer: str = "fill"
) -> Map:
    """Return the map.

    scale : of `mapper.reporting.view.scales`; sent : the links to draw; layer : of `LAYERS`
    """
    links, cells, idle = ([], [], []) if view.is_canvas else _shapes(view, scale, sent, layer)
    left, top, wide, high = view.window
    ends = [
        (first * view.tile, min((first + count) * view.tile, side) - 1)
        for first, count, side in ((left, wide, view.chip.width), (top, high, view.chip.height))
    ]
    return Map(
        mapping, view.label, LAYERS[layer][0], ends[0], ends[1],
        (PITCH * left, PITCH * top, PITCH * wide, PITCH * high), wide / high,
        # Large enough to see, no higher than the window, cores no larger than a thumb.
        96 * wide, _picture(view, scale, layer) if view.is_canvas else None,
        links, cells, idle, [Path(*one) for one in end_lines(view.chip, view.tile).items()],
    )  # fmt: skip


def _shapes(
    view: View, scale: dict[str, float], sent: str, layer: str
) -> tuple[list[Path], list[Path], list[Path]]:
    """Return paths of links, used cells and other cells."""
    people = view.populations if layer == POPULATION else None
    in_use = (view.state == USED) & (people is None)
    level = steps(view.layers[layer], scale[layer], STEPS)
    cells = [squares(f"c{step}", in_use & (level == step)) for step in range(STEPS)]
    if view.populations is not None:
        drawn = {} if people is None else _segments(view, people)
        names = [f"p{colour}" for colour in range(view.populations.colours)] + ["px"]
        cells += [Path(name, "".join(drawn.get(name, ()))) for name in names]
    loads = view.links[sent]
    strength = steps(loads, scale[f"links {sent}"], LINK_STEPS)
    links = [strokes(f"l{step}", (loads > 0) & (strength == step)) for step in range(LINK_STEPS)]
    return links, cells, [squares("empty", view.state == EMPTY), crosses(view.state == UNAVAILABLE)]


def squares(name: str, where: Grid) -> Path:
    """Return squares; where : bool, shape (rows, columns)."""
    ys, xs = np.nonzero(where)
    squares = (f"M{10 * x} {10 * y}h7v7h-7z" for x, y in zip(xs, ys, strict=True))
    return Path(name, "".join(squares))


def segments_of(view: View) -> int:
    """Return the maximum number of populations drawn in a core."""
    return 1 if view.is_canvas or view.rows * view.columns > SEGMENTED else SEGMENTS


def _segments(view: View, people: PopulationView) -> dict[str, list[str]]:
    """Return rectangles of the populations in each core, by colour; map.js has the same formula."""
    found: dict[str, list[str]] = {}
    most = segments_of(view)
    for cell in range(view.rows * view.columns):
        listed = slice(int(people.start[cell]), int(people.start[cell + 1]))
        if listed.start == listed.stop or view.state.flat[cell] != USED:
            continue
        y, x = divmod(cell, view.columns)
        neurons = people.neurons[listed].tolist()
        rows = list(zip(people.population[listed].tolist(), neurons, strict=True))
        few = sorted(rows[:1] + [row for row in rows[1:most] if row[1] >= 0.08 * sum(neurons)])
        total, before = sum(count for _, count in few), 0
        for population, count in few:
            left = int(70 * before / total + 0.5)
            before += count
            wide = int(70 * before / total + 0.5) - left
            colour = people.colour[population]
            place = f"M{_tenths(100 * x + left)} {10 * y}h{_tenths(wide)}v7h{_tenths(-wide)}z"
            found.setdefault("px" if colour < 0 else f"p{colour}", []).append(place)
    return found


def _tenths(count: int) -> str:
    """Return tenths as a number without a trailing zero."""
    whole, rest = divmod(abs(count), 10)
    return f"{'-' * (count < 0)}{whole}" + (f".{rest}" if rest else "")


def crosses(where: Grid) -> Path:
    """Return crosses; where : bool, shape (rows, columns)."""
    ys, xs = np.nonzero(where)
    lines = (f"M{10 * x + 1.5} {10 * y + 1.5}l4 4m0-4l-4 4" for x, y in zip(xs, ys, strict=True))
    return Path("off", "".join(lines))


_STARTS = ((7, 5.1, "h3"), (0, 1.9, "h-3"), (1.9, 7, "v3"), (5.1, 0, "v-3"))


def strokes(name: str, where: Grid) -> Path:
    """Return strokes of links; where : bool, shape (4, rows, columns)."""
    strokes = (
        f"M{10 * x + _STARTS[d][0]:g} {10 * y + _STARTS[d][1]:g}{_STARTS[d][2]}"
        for d, y, x in zip(*(axis.tolist() for axis in np.nonzero(where)), strict=True)
    )
    return Path(name, "".join(strokes))


def _picture(view: View, scale: dict[str, float], layer: str) -> Picture:
    """Return images with a pixel per cell, in both themes; map.js replaces them by a canvas."""
    people = view.populations if layer == POPULATION else None
    count = 0
    if people is None:
        level = steps(view.layers[layer], scale[layer], STEPS)
    else:
        count = people.colours
        colour = np.array([*people.colour, -1])[people.largest].reshape(view.state.shape)
        level = np.where(colour < 0, count, colour)
    pixels = np.where(view.state == USED, level + 2, np.where(view.state == EMPTY, 0, 1))
    left, top, wide, high = view.window
    pixels = pixels[top : top + high, left : left + wide].astype(np.uint8)
    light, dark = (_png(pixels, _palette(theme, count)) for theme in ("light", "dark"))
    return Picture(light, dark)


def _palette(theme: str, populations: int) -> list[tuple[int, int, int]]:
    """Return the colours of empty and unavailable cores, and of the ramp or of populations."""
    plain = ["#ffffff", "#8b8f98"] if theme == "light" else ["#16191f", "#6b7280"]
    used = [*marks(populations, theme), OTHERS[theme]] if populations else ramp("c", theme)
    return [rgb(colour) for colour in (*plain, *used)]


def _png(pixels: Grid, palette: list[tuple[int, int, int]]) -> str:
    """Return an indexed-colour image as a data URI. pixels : uint8, shape (rows, columns)."""
    rows, columns = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    lines = np.zeros((rows, columns + 1), np.uint8)  # each row starts with its filter type: none
    lines[:, 1:] = pixels
    parts = [
        b"\x89PNG\r\n\x1a\n",
        chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
        chunk(b"PLTE", bytes(value for colour in palette for value in colour)),
        chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
        chunk(b"IEND", b""),
    ]
    return "data:image/png;base64," + base64.b64encode(b"".join(parts)).decode()


class Ramp(NamedTuple):
    """The legend of a colour ramp."""

    kind: str
    family: str
    steps: int
    title: str
    ticks: list[Cell]


def ramps(scale: dict[str, float], sent: str) -> list[Ramp]:
    """Return the legends of the fill of cores and of the links."""
    fills = [Cell(value, f"{value:.0%}") for value in _ticks(scale["fill"])]
    loads = [Cell(value, number(float(value))) for value in _ticks(scale[f"links {sent}"])]
    return [
        Ramp("cells", "c", STEPS, LAYERS["fill"][0], fills),
        Ramp("links", "l", LINK_STEPS, "Link load", loads),
    ]


def _ticks(top: float) -> tuple[float, float, float]:
    top = int(top) if float(top).is_integer() else top
    return 0, top / 2, top


class Switch(NamedTuple):
    """A group of radio buttons, for standard keyboard control."""

    name: str
    title: str
    choices: dict[str, str]
    chosen: str


def first_layer(views: list[View]) -> str:
    """Return the layer that a page shows first."""
    return POPULATION if all(view.first == POPULATION for view in views) else "fill"


def switches(views: list[View], sent: str) -> list[Switch]:
    """Return the controls that select layers; sent : the links shown first."""
    cores = {name: LAYERS[name][0] for name in shown(LAYERS, views)}
    people = views[0].populations
    if POPULATION in cores and people is not None:
        cores[POPULATION] = people.traffic.kind.capitalize()
    strokes = {name: name.capitalize() for name in shown(LINKS, views)} | {"none": "None"}
    found = [
        Switch("layer", "Cores", cores, first_layer(views)),
        Switch("links", "Links", strokes, sent),
    ]
    if any(view.window != (0, 0, view.columns, view.rows) for view in views):
        zoom = {"used": "Used cores", "whole": "Whole chip"}
        found.append(Switch("zoom", "Show", zoom, "used"))
    return found
