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
from mapper.reporting.cells import Cell, Fact, Head, Series, Table, number, table
from mapper.reporting.charts import distance_chart, link_charts
from mapper.reporting.chipmap import (
    OTHERS,
    Map,
    chip_map,
    first_layer,
    ramps,
    segments_of,
    switches,
)
from mapper.reporting.colours import LINK_STEPS, STEPS, variables
from mapper.reporting.machine import end_lines
from mapper.reporting.members import LISTED
from mapper.reporting.simulated import NOTE, TICKS_NOTE, simulated_ticks, simulations
from mapper.reporting.view import LAYERS, LINKS, View, by_series, page_data, scales
from mapper.results.activity import traffic_in, traffic_line
from mapper.version import version
from storage.printable import plain_lines

if TYPE_CHECKING:
    from jinja2 import Environment

BUSIEST = 6
"""Number of cores, and of links, in a table."""
LEADING = 4
"""Number of figures next to the map."""
SCRIPTS = ("base", "map", "story", "events", "search", "tables")
"""Parts of the script, in order."""


def render(views: list[View]) -> bytes:
    """Return the page of one mapping, or of several side by side, as UTF-8."""
    style, script = asset("page.css"), _script()
    first, cards = views[0], figures.key_figures(views)
    if len(views) == 1:
        title = f"{first.network} on {first.chip.name}"
    else:
        title = f"{', '.join(view.label for view in views[:-1])} and {views[-1].label}"
    colours = max(0 if one.populations is None else one.populations.colours for one in views)
    return page_bytes(
        "page.html.j2",
        title=title,
        style=colour_style(colours) + style,
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        version=version(),
        data=page_data(views) | _names(views),
        mappings=_mappings(views),
        cards=cards[:LEADING],
        more_cards=cards[LEADING:],
        comparison=figures.comparison(views, cards[:LEADING]) if len(views) > 2 else None,
        kind="population" if first.populations is None else first.populations.traffic.kind,
        searched=first.populations is not None,
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


def _script() -> str:
    """Return the script of the page."""
    parts = "".join(asset(f"scripts/{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


def _names(views: list[View]) -> dict[str, object]:
    """Return texts and counts that the script shares with the static page."""
    titles = {name: title for name, (title, _) in LAYERS.items()}
    meanings = {name: meaning for name, (_, meaning) in LAYERS.items()}
    return {
        "titles": titles, "meanings": meanings, "routes": LINKS, "steps": STEPS,
        "linkSteps": LINK_STEPS, "sent": views[0].sent, "first": first_layer(views),
        "segments": min(map(segments_of, views)),
    }  # fmt: skip


def colour_style(populations: int = 0) -> str:
    """Return the colours of both themes and their fills; dark on screens only, not in print.

    populations : number of their colours
    """
    names = [*range(populations), "x"] if populations else []
    people = "".join(
        f".p{i}{{fill:var(--p{i})}}.swatch.p{i}{{background:var(--p{i})}}" for i in names
    )
    cells = "".join(f".c{i}{{fill:var(--c{i})}}" for i in range(STEPS))
    links = "".join(
        f".l{i}{{fill:var(--l{i});stroke:var(--l{i});stroke-width:{link_width(i):.2f}}}"
        for i in range(LINK_STEPS)
    )
    light, dark = (
        variables(theme, populations) + f"--px:{OTHERS[theme]};" for theme in ("light", "dark")
    )
    dark = f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return f":root{{{light}}}{dark}{cells}{people}{links}.ramp rect{{stroke:none}}"


def link_width(step: int) -> float:
    """Return the stroke width of a link, where a core is 10 wide; map.js has the same formula."""
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
    """A chip, with the tables shown until a story is opened: populations, busiest cores and links.

    more : the other populations, if there are many
    """

    series: Series | None
    map: Map
    hint: str
    populations: Table | None
    more: Table | None
    cores: Table
    links: Table
    ends: Table
    sent: str


def _boards(views: list[View]) -> list[Board]:
    scale = scales(views)
    return [
        Board(
            series,
            chip_map(view, scale, index, views[0].sent, first_layer(views)),
            *_panel(view, index),
            view.sent,
        )
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
    """Return the note on boundary lines and broken links, if there are any."""
    drawn = {name for view in views for name in end_lines(view.chip, view.tile)}
    notes, parts = [], [f"{name}s" for name in PARTS if name in drawn]
    if parts:
        names = " and ".join(parts)
        notes.append(
            f"Lines are boundaries of {names}; wider lines are boundaries of larger parts."
        )
    if "broken" in drawn:
        notes.append("Short bars across a gap are broken links.")
    return " ".join(notes)


POPULATIONS = 12
"""Number of populations that are listed at once."""


def _populations(view: View, index: int) -> tuple[Table | None, Table | None]:
    """Return tables of the first populations, the legend of the map, and of the others."""
    people = view.populations
    if people is None:
        return None, None
    kind, names = people.traffic.kind, people.traffic.names[:LISTED]
    rows = [
        [
            Head(
                name, jump=f"population:{index}:{at}",
                mark="px" if people.colour[at] < 0 else f"p{people.colour[at]}",
            ),
            people.table["neurons"][at].item(),
            people.table["cores"][at].item(),
            people.table["hops_mean"][at].item(),
        ]
        for at, name in enumerate(names)
    ]  # fmt: skip
    heads = (kind.capitalize(), "Neurons", "Cores", "Hops")
    shown, rest = rows[:POPULATIONS], rows[POPULATIONS:]
    more = table(f"More {kind}s", heads, rest, hidden=True) if rest else None
    return table(f"{kind.capitalize()}s", heads, shown, hidden=True), more


def _panel(view: View, index: int) -> tuple[str, Table | None, Table | None, Table, Table, Table]:
    """Return the contents of the panel; index : of the mapping on the page."""
    kind = "" if view.populations is None else f"a {view.populations.traffic.kind}, "
    hint = f"Choose {kind}a core or a link to see more."
    outgoing = view.layers["outgoing"].ravel()
    cores = [
        [
            Head(_place(view, *divmod(cell, view.columns)), jump=f"core:{index}:{cell}"),
            *(_cell(view, n, cell) for n in _ENDS),
        ]
        for cell in (-outgoing).argsort(kind="stable")[:BUSIEST].tolist()
        if outgoing[cell] > 0
    ]
    loads = view.links[view.sent]
    links = []
    for at in (-loads).argsort(axis=None, kind="stable")[:BUSIEST].tolist():
        d, cell = divmod(at, view.rows * view.columns)
        if loads.flat[at] > 0:
            name = f"{_place(view, *divmod(cell, view.columns))} {DIRECTIONS[d]}"
            links.append([Head(name, jump=f"link:{index}:{d}:{cell}"), loads.flat[at].item()])
    return (
        hint,
        *_populations(view, index),
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
