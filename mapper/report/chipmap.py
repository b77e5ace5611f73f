"""The chip as a picture: cores as squares, links as strokes in the gaps between them.

A core is 10 units wide, its square 7. A link keeps to the right as seen by the traffic on it, as
on a road: eastward below, southward on the left. Squares and links of a colour are one path each,
so that 4,096 cores are a hundred elements. page.js draws other layers in the same places.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from mapper.report.colours import LINK_STEPS, STEPS, ramp, rgb
from mapper.report.markup import Html, figure, join, number, text
from mapper.report.view import EMPTY, LAYERS, LINKS, UNAVAILABLE, USED, Grid, View, steps

PITCH = 10
FIRST = "fill"
"""The layer that is there without JavaScript."""


def chip_map(view: View, scale: dict[str, float], index: int) -> Html:
    """The map of one mapping, with the layer `FIRST` and the unicast links drawn.

    scale : of `mapper.report.view.scales`; index : of the mapping in the page's data
    """
    width, height = PITCH * view.columns, PITCH * view.rows
    picture = _picture(view, scale[FIRST]) if view.is_canvas else _svg(view, scale)
    # Wide enough to see, no higher than the window, cores of small chips not larger than a thumb.
    size = f"--ratio:{view.columns / view.rows:.4f};--most:{96 * view.columns}px"
    what = f"Map of {view.label}: {view.chip.width} by {view.chip.height} cores"
    help_text = "arrow keys go from core to core, Enter chooses one, Escape lets it go"
    return Html(
        f'<div class="map" style="{size}" data-mapping="{index}">'
        f'<div class="edge x" aria-hidden="true">{_edge("x", view.chip.width)}</div>'
        f'<div class="edge y" aria-hidden="true">{_edge("y", view.chip.height)}</div>'
        f'<div class="board" tabindex="0" role="group" '
        f'aria-roledescription="map of cores" aria-label="{text(what)}; {help_text}">{picture}'
        f'<svg class="overlay" viewBox="0 0 {width} {height}" aria-hidden="true">'
        '<g class="rays"></g><rect class="cursor" width="8.6" height="8.6" rx="1.4"/>'
        '<rect class="chosen" width="8.6" height="8.6" rx="1.4"/></svg></div></div>'
    )


def _edge(axis: str, count: int) -> Html:
    last = f"<span>{count - 1}</span>" if count > 1 else ""
    return Html(f"<span>{axis} 0</span>{last}")


def _svg(view: View, scale: dict[str, float]) -> Html:
    width, height = PITCH * view.columns, PITCH * view.rows
    layer = steps(view.layers[FIRST], scale[FIRST], STEPS)
    in_use = view.state == USED
    cells = [_cells(f"c{step}", in_use & (layer == step)) for step in range(STEPS)]
    loads = view.links["unicast"]
    strength = steps(loads, scale["links unicast"], LINK_STEPS)
    links = [_links(f"l{step}", (loads > 0) & (strength == step)) for step in range(LINK_STEPS)]
    return Html(
        f'<svg class="base" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{text(LAYERS[FIRST][0])} of every core">'
        '<g transform="translate(1.5 1.5)">'
        f'<g class="links">{join(links)}</g><g class="cells">{join(cells)}</g>'
        f"{_cells('empty', view.state == EMPTY)}{_crosses(view.state == UNAVAILABLE)}</g></svg>"
    )


def _cells(name: str, where: Grid) -> Html:
    ys, xs = np.nonzero(where)
    squares = (f"M{10 * x} {10 * y}h7v7h-7z" for x, y in zip(xs, ys, strict=True))
    return Html(f'<path class="{name}" d="{"".join(squares)}"/>')


def _crosses(where: Grid) -> Html:
    ys, xs = np.nonzero(where)
    lines = (f"M{10 * x + 1.5} {10 * y + 1.5}l4 4m0-4l-4 4" for x, y in zip(xs, ys, strict=True))
    return Html(f'<path class="off" d="{"".join(lines)}"/>')


_STARTS = ((7, 5.1, "h3"), (0, 1.9, "h-3"), (1.9, 7, "v3"), (5.1, 0, "v-3"))


def _links(name: str, where: Grid) -> Html:
    """where : bool, shape (4, rows, columns)."""
    strokes = (
        f"M{10 * x + _STARTS[d][0]:g} {10 * y + _STARTS[d][1]:g}{_STARTS[d][2]}"
        for d, y, x in zip(*(axis.tolist() for axis in np.nonzero(where)), strict=True)
    )
    return Html(f'<path class="{name}" d="{"".join(strokes)}"/>')


def _picture(view: View, scale: float) -> Html:
    """A pixel a cell, in both themes; page.js draws a canvas in its place."""
    layer = steps(view.layers[FIRST], scale, STEPS)
    pixels = np.where(view.state == USED, layer + 2, np.where(view.state == EMPTY, 0, 1))
    light, dark = (_png(pixels.astype(np.uint8), _palette(theme)) for theme in ("light", "dark"))
    return Html(
        '<picture class="still"><source media="screen and (prefers-color-scheme:dark)" '
        f'srcset="{dark}"><img src="{light}" alt="{text(LAYERS[FIRST][0])} of every core">'
        '</picture><canvas class="base" hidden></canvas>'
    )


def _palette(theme: str) -> list[tuple[int, int, int]]:
    """Empty cores, unavailable ones, the ramp."""
    plain = ["#ffffff", "#8b8f98"] if theme == "light" else ["#16191f", "#6b7280"]
    return [rgb(colour) for colour in (*plain, *ramp("c", theme))]


def _png(pixels: Grid, palette: list[tuple[int, int, int]]) -> str:
    """An image of indexed colours as a data URI. pixels : uint8, shape (rows, columns)."""
    rows, columns = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    lines = np.zeros((rows, columns + 1), np.uint8)  # each starts with its filter: none
    lines[:, 1:] = pixels
    parts = [
        b"\x89PNG\r\n\x1a\n",
        chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
        chunk(b"PLTE", bytes(value for colour in palette for value in colour)),
        chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
        chunk(b"IEND", b""),
    ]
    return "data:image/png;base64," + base64.b64encode(b"".join(parts)).decode()


def legend(scale: dict[str, float]) -> Html:
    """What the colours of the first layer and of the unicast links stand for."""
    return Html(
        '<div class="legends">'
        + _ramp("cells", "c", STEPS, LAYERS[FIRST][0], scale[FIRST], "{:.0%}")
        + _ramp("links", "l", LINK_STEPS, "Link load", scale["links unicast"], "")
        + '<ul class="keys"><li><svg viewBox="0 0 10 10" aria-hidden="true">'
        '<path class="empty" d="M1.5 1.5h7v7h-7z"/></svg><span id="hollow">no neurons</span></li>'
        '<li><svg viewBox="0 0 10 10" aria-hidden="true">'
        '<path class="off" d="M3 3l4 4m0-4l-4 4"/></svg>unavailable</li></ul></div>'
    )


def _ramp(kind: str, family: str, count: int, title: str, top: float, form: str) -> str:
    bars = "".join(
        f'<rect class="{family}{i}" x="{i}" width="1" height="1"/>' for i in range(count)
    )
    top = int(top) if float(top).is_integer() else top
    ticks = "".join(
        f"<span>{figure(value, form.format(value) if form else number(float(value)))}</span>"
        for value in (0, top / 2, top)
    )
    return (
        f'<figure class="legend" data-legend="{kind}"><figcaption>{text(title)}</figcaption>'
        f'<svg class="ramp" viewBox="0 0 {count} 1" preserveAspectRatio="none" '
        f'shape-rendering="crispEdges" aria-hidden="true">'
        f'{bars}</svg><div class="ticks">{ticks}</div></figure>'
    )


def toolbar() -> Html:
    """Which layers to show: radio buttons, so that keys work as everywhere."""
    cores = {name: title for name, (title, _) in LAYERS.items()}
    strokes = {name: name.capitalize() for name in LINKS} | {"none": "None"}
    return Html(
        '<form class="toolbar needs-js" autocomplete="off">'
        + _switch("layer", "Cores", cores, FIRST)
        + _switch("links", "Links", strokes, "unicast")
        + "</form>"
    )


def _switch(name: str, title: str, choices: dict[str, str], chosen: str) -> str:
    buttons = "".join(
        f'<label><input type="radio" name="{name}" value="{value}"'
        f"{' checked' if value == chosen else ''}><span>{text(label)}</span></label>"
        for value, label in choices.items()
    )
    return f'<fieldset class="switch"><legend>{title}</legend><div>{buttons}</div></fieldset>'
