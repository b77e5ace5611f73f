"""The page: one HTML file that contains its style, script and data.

Its content security policy forbids external requests and all scripts but its own, identified by
hash. The same inputs give the same bytes. This module supplies the numbers; templates/ defines
their appearance and escapes them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from chipsim.chip.machine import PARTS
from chipsim.traffic.links import DIRECTIONS
from mapper.reporting import figures, stages
from mapper.reporting.cells import Cell, Fact, Series, Table, number, table
from mapper.reporting.charts import distance_chart, link_charts
from mapper.reporting.chipmap import Map, chip_map, ramps, switches
from mapper.reporting.colours import LINK_STEPS, STEPS, variables
from mapper.reporting.machine import end_lines
from mapper.reporting.simulated import NOTE, TICKS_NOTE, simulated_ticks, simulations
from mapper.reporting.view import LAYERS, LINKS, View, by_series, page_data, scales
from mapper.results.activity import traffic_in, traffic_line
from mapper.version import version
from storage.printable import plain_lines

if TYPE_CHECKING:
    from jinja2 import Environment

BUSIEST = 6
"""Number of cores, and of links, in a table."""


def render(views: list[View]) -> bytes:
    """Return the page of one mapping, or of two side by side, as UTF-8."""
    if not 1 <= len(views) <= 2:
        raise ValueError(f"{len(views)} mappings; a page shows one or two")
    style, script = asset("page.css"), asset("page.js")
    first = views[0]
    if len(views) == 1:
        title = f"{first.network} on {first.chip.name}"
    else:
        title = f"{first.label} and {views[1].label}"
    return page_bytes(
        "page.html.j2",
        title=title,
        style=colour_style() + style,
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        version=version(),
        data=page_data(views) | _names() | {"sent": views[0].sent},
        mappings=_mappings(views),
        cards=figures.key_figures(views),
        metrics=figures.all_metrics(views),
        limits=figures.limits(views),
        commands=figures.commands(views),
        settings=figures.settings(views),
        boards=_boards(views),
        ramps=ramps(scales(views), views[0].sent),
        switches=switches(views, views[0].sent),
        tiles_note=_tiles(views),
        ends_note=_ends_note(views),
        distances=distance_chart(views),
        loads=link_charts(views),
        simulations=simulations(views),
        simulation_note=NOTE,
        ticks=simulated_ticks(views),
        ticks_note=TICKS_NOTE,
        runs=stages.runs(views),
        both_resources=stages.resources(views) if len(views) > 1 else None,
    )


def page_bytes(template: str, **values: Any) -> bytes:
    """Return a page as UTF-8, without characters that people cannot see or that reorder a line."""
    return plain_lines(templates().get_template(template).render(**values)).encode()


def _data_text(value: Any, **options: Any) -> str:
    """Return JSON whose strings are printable also after a script has parsed them."""
    text = json.dumps(value, **options)
    if "\\u" not in text and "\x7f" not in text:
        return text
    return json.dumps(_printable(value), **options)


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return plain_lines(value)
    if isinstance(value, dict):
        return {plain_lines(name): _printable(each) for name, each in value.items()}
    return [_printable(each) for each in value] if isinstance(value, list | tuple) else value


@cache
def templates() -> Environment:
    """Return the templates; jinja2 is imported here to keep other commands fast."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from jinja2.ext import Extension

    class Joined(Extension):
        """Removes line breaks and indentation of templates from the page."""

        def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
            return re.sub(r"\n *", "", source)

    made = Environment(
        loader=PackageLoader("mapper.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        extensions=[Joined],
    )
    made.filters |= {"number": number, "exact": json.dumps}
    made.policies["json.dumps_function"] = _data_text
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


def asset(name: str) -> str:
    return files("mapper.reporting").joinpath(name).read_text(encoding="utf-8")


def _names() -> dict[str, object]:
    """Return texts and counts that the script shares with the static page."""
    titles = {name: title for name, (title, _) in LAYERS.items()}
    meanings = {name: meaning for name, (_, meaning) in LAYERS.items()}
    return {
        "titles": titles, "meanings": meanings, "routes": LINKS, "steps": STEPS,
        "linkSteps": LINK_STEPS,
    }  # fmt: skip


def colour_style() -> str:
    """Return the ramps of both themes and their fills; dark on screens only, not in print."""
    cells = "".join(f".c{i}{{fill:var(--c{i})}}" for i in range(STEPS))
    links = "".join(
        f".l{i}{{fill:var(--l{i});stroke:var(--l{i});stroke-width:{link_width(i):.2f}}}"
        for i in range(LINK_STEPS)
    )
    dark = f"@media screen and (prefers-color-scheme:dark){{:root{{{variables('dark')}}}}}"
    return f":root{{{variables('light')}}}{dark}{cells}{links}.ramp rect{{stroke:none}}"


def link_width(step: int) -> float:
    """Return the stroke width of a link, where a core is 10 wide; page.js has the same formula."""
    return 0.5 + 1.7 * (step + 0.5) / LINK_STEPS


class MappingView(NamedTuple):
    series: Series | None
    network: str
    facts: list[Fact]


def _mappings(views: list[View]) -> list[MappingView]:
    """Return the network, chip and settings of each mapping."""
    lines = []
    for series, view in by_series(views):
        network, settings = view.report["network"], view.report["settings"]
        words = [
            traffic_line(traffic_in(view.report)),
            f"{view.chip.width} x {view.chip.height} cores",
            *(f"{name} {settings.get(name)}" for name in ("preset", "objective", "seed")),
        ]
        facts = [Fact(Cell(network[name]), after=name) for name in ("neurons", "synapses")]
        lines.append(
            MappingView(series, view.network, facts + [Fact(Cell(word)) for word in words])
        )
    return lines


class Board(NamedTuple):
    """A chip, with the tables shown until a core is chosen: the busiest cores and links."""

    series: Series | None
    map: Map
    hint: str
    cores: Table
    links: Table
    ends: Table
    sent: str


def _boards(views: list[View]) -> list[Board]:
    scale = scales(views)
    return [
        Board(series, chip_map(view, scale, index, views[0].sent), *_panel(view), view.sent)
        for index, (series, view) in enumerate(by_series(views))
    ]


def _tiles(views: list[View]) -> str:
    return " ".join(
        f"{f'{view.label}: a' if len(views) > 1 else 'A'} square stands for {view.tile} x "
        f"{view.tile} cores and shows the highest value among them."
        for view in views
        if view.tile > 1
    )


def _ends_note(views: list[View]) -> str:
    """Return the note on boundary lines, if there are any."""
    parts = [name for name in PARTS if any(name in end_lines(v.chip, v.tile) for v in views)]
    if not parts:
        return ""
    names = " and ".join(f"{name}s" for name in parts)
    return f"Lines are boundaries of {names}; wider lines are boundaries of larger parts."


def _panel(view: View) -> tuple[str, Table, Table, Table]:
    hint = "Choose a core to see where its traffic goes."
    if view.destination is None:
        hint = "Point at a core to see its numbers."
    outgoing = view.layers["outgoing"].ravel()
    cores = [
        [_place(view, *divmod(cell, view.columns)), *(_cell(view, n, cell) for n in _ENDS)]
        for cell in (-outgoing).argsort(kind="stable")[:BUSIEST].tolist()
        if outgoing[cell] > 0
    ]
    loads = view.links[view.sent]
    links = []
    for at in (-loads).argsort(axis=None, kind="stable")[:BUSIEST].tolist():
        d, cell = divmod(at, view.rows * view.columns)
        if loads.flat[at] > 0:
            name = f"{_place(view, *divmod(cell, view.columns))} {DIRECTIONS[d]}"
            links.append([name, loads.flat[at].item()])
    return (
        hint,
        table("Largest senders", ("x, y", "Sends", "Receives"), cores, hidden=True),
        table("Busiest links", ("Leaves x, y", "Load"), links, hidden=True),
        table(
            "Traffic that leaves chips",
            ("Leaves chip x, y", "Load", "Busiest link / bandwidth"),
            [[end.name, end.load, end.busiest] for end in view.ends[:BUSIEST]],
            hidden=True,
        ),
    )


_ENDS = ("outgoing", "incoming")


def _place(view: View, row: int, column: int) -> str:
    """Return column and row of a cell's first core."""
    return f"{column * view.tile}, {row * view.tile}"


def _cell(view: View, layer: str, cell: int) -> float:
    value: float = view.layers[layer].ravel()[cell].item()
    return value
