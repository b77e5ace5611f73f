"""The page: one HTML file with its style, its script and its data inside.

It asks for nothing outside: its policy forbids it, and lets no script run but its own, named by
hash. The same inputs give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from chipsim.traffic.links import DIRECTIONS
from mapper.report.charts import distance_chart, link_chart
from mapper.report.chipmap import chip_map, legend, toolbar
from mapper.report.colours import LINK_STEPS, STEPS, variables
from mapper.report.figures import all_metrics, key_figures, limits, reproduce
from mapper.report.markup import Html, figure, join, script_data, section, table, text
from mapper.report.simulated import simulations
from mapper.report.stages import run
from mapper.report.view import LAYERS, LINKS, View, page_data, scales
from mapper.results.activity import traffic_in, traffic_line
from mapper.version import version

BUSIEST = 6
"""Cores, and links, that are named in a table."""


def render(views: list[View]) -> bytes:
    """The page of one mapping, or of two side by side, as UTF-8."""
    if not 1 <= len(views) <= 2:
        raise ValueError(f"{len(views)} mappings; a page shows one or two")
    style, script = _asset("page.css"), _asset("page.js")
    first = views[0]
    if len(views) == 1:
        title = f"{first.network} on {first.chip.name}"
    else:
        title = f"{first.label} and {views[1].label}"
    body = join(
        [
            _header(title, views),
            Html('<main id="main">'),
            section("figures", "Key figures", join([key_figures(views), all_metrics(views)])),
            section("chip", "The chip", _chip(views)),
            Html('<div class="pair">'),
            section("distances", "How far traffic travels", distance_chart(views), _DISTANCES),
            section("loads", "How evenly links are loaded", link_chart(views), _LOADS),
            Html("</div>"),
            section("limits", "Limits of a core", limits(views), _LIMITS),
            simulations(views),
            section("run", "The run", run(views)),
            section("reproduce", "To reproduce", reproduce(views)),
            Html("</main>"),
            Html(f"<footer><p>Made by mapper {text(version())}.</p></footer>"),
        ]
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{text(title)} | mapper</title><style>{_colours()}{style}</style></head>"
        f'<body class="{"two" if len(views) == 2 else "one"}">{body}'
        f'<script type="application/json" id="data">{script_data(page_data(views) | _names())}'
        f"</script><script>{script}</script></body></html>\n"
    )
    return page.encode()


_DISTANCES = "Traffic by the number of links it crosses. 0 is traffic that stays in its core."
_LOADS = (
    "All links of the chip in falling order of load. The steeper the curve, the fewer links carry "
    "most of the traffic."
)
_LIMITS = "What the fullest core holds, beside what a core may hold."


def _asset(name: str) -> str:
    return files("mapper.report").joinpath(name).read_text(encoding="utf-8")


def _names() -> dict[str, object]:
    """Words and counts that the script shares with the still page."""
    titles = {name: title for name, (title, _) in LAYERS.items()}
    meanings = {name: meaning for name, (_, meaning) in LAYERS.items()}
    return {
        "titles": titles, "meanings": meanings, "routes": LINKS, "steps": STEPS,
        "linkSteps": LINK_STEPS,
    }  # fmt: skip


def _colours() -> str:
    """Ramps of both themes, and what is filled with which; dark on screens only, not on paper."""
    cells = "".join(f".c{i}{{fill:var(--c{i})}}" for i in range(STEPS))
    links = "".join(
        f".l{i}{{fill:var(--l{i});stroke:var(--l{i});stroke-width:{link_width(i):.2f}}}"
        for i in range(LINK_STEPS)
    )
    dark = f"@media screen and (prefers-color-scheme:dark){{:root{{{variables('dark')}}}}}"
    return f":root{{{variables('light')}}}{dark}{cells}{links}.ramp rect{{stroke:none}}"


def link_width(step: int) -> float:
    """Of a link's stroke, where a core is 10 wide; page.js does the same."""
    return 0.5 + 1.7 * (step + 0.5) / LINK_STEPS


def _header(title: str, views: list[View]) -> Html:
    lines = []
    for index, view in enumerate(views):
        network, settings = view.report["network"], view.report["settings"]
        facts = [
            f"{figure(network['neurons'])} neurons",
            f"{figure(network['synapses'])} synapses",
            text(traffic_line(traffic_in(view.report))),
            f"{view.chip.width} x {view.chip.height} cores",
            f"preset {text(settings.get('preset'))}",
            f"objective {text(settings.get('objective'))}",
            f"seed {text(settings.get('seed'))}",
        ]
        if len(views) > 1:
            mark = f'<span class="swatch s{index}"></span>'
            facts.insert(0, f"{mark}<b>{text(view.label)}</b> {text(view.network)}")
        lines.append(f"<p>{' <i>&middot;</i> '.join(facts)}</p>")
    what = "Mapping report" if len(views) == 1 else "Two mappings"
    return Html(
        f'<header><p class="eyebrow">{what}</p><h1>{text(title)}</h1>{"".join(lines)}</header>'
    )


def _chip(views: list[View]) -> Html:
    scale = scales(views)
    boards = []
    for index, view in enumerate(views):
        name = f'<h3><span class="swatch s{index}"></span>{text(view.label)}</h3>'
        panel = (
            f'<aside class="panel" data-mapping="{index}" aria-live="polite" '
            f'aria-label="Numbers of {text(view.label)}">{_panel(view)}</aside>'
        )
        boards.append(
            f'<div class="chip">{name if len(views) > 1 else ""}'
            f"{chip_map(view, scale, index)}{panel}</div>"
        )
    note = " ".join(
        f"{f'{view.label}: a' if len(views) > 1 else 'A'} square stands for {view.tile} x "
        f"{view.tile} cores and shows the highest of them."
        for view in views
        if view.tile > 1
    )
    return join(
        [
            toolbar(),
            Html('<p class="note" id="says"></p>'),
            Html(f'<p class="note">{text(note)}</p>' if note else ""),
            legend(scale),
            Html(f'<div class="boards">{"".join(boards)}</div>'),
            Html(f'<p class="note">{text(_ROADS)}</p>'),
            Html('<div id="tip" role="status" hidden></div>'),
        ]
    )


_ROADS = (
    "Links are drawn in the gaps: wider and stronger, the more they carry. Traffic keeps to the "
    "right, as on a road: what goes right runs in the lower lane."
)


def _panel(view: View) -> Html:
    """What stands beside the chip until a core is chosen: the busiest cores and links."""
    hint = "Choose a core to see where its traffic goes."
    if view.destination is None:
        hint = "Point at the chip to see its numbers."
    said = Html(f'<p class="hint needs-js">{hint}</p>')
    outgoing = view.layers["outgoing"].ravel()
    cores = [
        [_place(view, *divmod(cell, view.columns)), *(_cell(view, n, cell) for n in _ENDS)]
        for cell in (-outgoing).argsort(kind="stable")[:BUSIEST].tolist()
        if outgoing[cell] > 0
    ]
    if not cores:
        return join([said, Html('<p class="hint">No traffic leaves any core.</p>')])
    loads = view.links["unicast"]
    links = []
    for at in (-loads).argsort(axis=None, kind="stable")[:BUSIEST].tolist():
        d, cell = divmod(at, view.rows * view.columns)
        if loads.flat[at] > 0:
            name = f"{_place(view, *divmod(cell, view.columns))} {DIRECTIONS[d]}"
            links.append([name, loads.flat[at].item()])
    return join(
        [
            said,
            Html("<h3>Cores that send most</h3>"),
            table("Cores that send most", ("x, y", "Sends", "Receives"), cores, hidden=True),
            Html("<h3>Busiest links, unicast</h3>"),
            table("Busiest links", ("Leaves x, y", "Load"), links, hidden=True),
        ]
    )


_ENDS = ("outgoing", "incoming")


def _place(view: View, row: int, column: int) -> str:
    """Column and row of a cell's first core."""
    return f"{column * view.tile}, {row * view.tile}"


def _cell(view: View, layer: str, cell: int) -> float:
    value: float = view.layers[layer].ravel()[cell].item()
    return value
