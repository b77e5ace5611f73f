"""The chip as a picture: cores as squares, links as strokes in the gaps between them.

A core is 10 units wide, its square 7. Traffic keeps to the right, as on a road: eastward below,
southward on the left. All squares, or links, of a colour are one path, so that 4,096 cores need a
hundred elements. page.js draws other layers in the same places.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import NamedTuple

import numpy as np

from mapper.reporting.cells import Cell, number
from mapper.reporting.colours import LINK_STEPS, STEPS, ramp, rgb
from mapper.reporting.machine import end_lines
from mapper.reporting.view import EMPTY, LAYERS, LINKS, UNAVAILABLE, USED, Grid, View, shown, steps

PITCH = 10
FIRST = "fill"
"""The layer shown without JavaScript."""


class Path(NamedTuple):
    """Shapes of one colour."""

    name: str
    path: str


class Picture(NamedTuple):
    light: str
    dark: str


class Map(NamedTuple):
    """The map of one mapping, showing the layer `FIRST` and the links of the chip's delivery.

    mapping : its index in the page's data
    picture : replaces shapes if there are too many
    ends : boundaries of tiles, chips and boards
    """

    mapping: int
    label: str
    layer: str
    across: int
    down: int
    width: int
    height: int
    ratio: float
    most: int
    picture: Picture | None
    links: list[Path]
    cells: list[Path]
    idle: list[Path]
    ends: list[Path]


def chip_map(view: View, scale: dict[str, float], mapping: int, sent: str) -> Map:
    """Return the map; scale : of `mapper.reporting.view.scales`; sent : the links to draw."""
    links, cells, idle = ([], [], []) if view.is_canvas else _shapes(view, scale, sent)
    return Map(
        mapping, view.label, LAYERS[FIRST][0], view.chip.width, view.chip.height,
        PITCH * view.columns, PITCH * view.rows, view.columns / view.rows,
        # Large enough to see, no higher than the window, cores no larger than a thumb.
        96 * view.columns, _picture(view, scale[FIRST]) if view.is_canvas else None,
        links, cells, idle, [Path(*one) for one in end_lines(view.chip, view.tile).items()],
    )  # fmt: skip


def _shapes(
    view: View, scale: dict[str, float], sent: str
) -> tuple[list[Path], list[Path], list[Path]]:
    """Return paths of links, used cells and other cells."""
    layer = steps(view.layers[FIRST], scale[FIRST], STEPS)
    in_use = view.state == USED
    cells = [squares(f"c{step}", in_use & (layer == step)) for step in range(STEPS)]
    loads = view.links[sent]
    strength = steps(loads, scale[f"links {sent}"], LINK_STEPS)
    links = [strokes(f"l{step}", (loads > 0) & (strength == step)) for step in range(LINK_STEPS)]
    return links, cells, [squares("empty", view.state == EMPTY), crosses(view.state == UNAVAILABLE)]


def squares(name: str, where: Grid) -> Path:
    """Return squares; where : bool, shape (rows, columns)."""
    ys, xs = np.nonzero(where)
    squares = (f"M{10 * x} {10 * y}h7v7h-7z" for x, y in zip(xs, ys, strict=True))
    return Path(name, "".join(squares))


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


def _picture(view: View, scale: float) -> Picture:
    """Return images with a pixel per cell, in both themes; page.js replaces them by a canvas."""
    layer = steps(view.layers[FIRST], scale, STEPS)
    pixels = np.where(view.state == USED, layer + 2, np.where(view.state == EMPTY, 0, 1))
    light, dark = (_png(pixels.astype(np.uint8), _palette(theme)) for theme in ("light", "dark"))
    return Picture(light, dark)


def _palette(theme: str) -> list[tuple[int, int, int]]:
    """Return the colours of empty cores, unavailable cores, and the ramp."""
    plain = ["#ffffff", "#8b8f98"] if theme == "light" else ["#16191f", "#6b7280"]
    return [rgb(colour) for colour in (*plain, *ramp("c", theme))]


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
    """Return the legends of the first layer and of the links."""
    fills = [Cell(value, f"{value:.0%}") for value in _ticks(scale[FIRST])]
    loads = [Cell(value, number(float(value))) for value in _ticks(scale[f"links {sent}"])]
    return [
        Ramp("cells", "c", STEPS, LAYERS[FIRST][0], fills),
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


def switches(views: list[View], sent: str) -> list[Switch]:
    """Return the controls that select layers; sent : the links shown first."""
    cores = {name: LAYERS[name][0] for name in shown(LAYERS, views)}
    strokes = {name: name.capitalize() for name in shown(LINKS, views)} | {"none": "None"}
    return [Switch("layer", "Cores", cores, FIRST), Switch("links", "Links", strokes, sent)]
