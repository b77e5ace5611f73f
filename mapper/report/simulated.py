"""What the flit-level simulator found: latency, load, saturation, and the busiest links."""

from __future__ import annotations

from typing import Any

from mapper.report.markup import (
    Html,
    figure,
    join,
    meter,
    percent,
    safe,
    section,
    swatch,
    table,
    text,
)
from mapper.report.view import View

PACKETS = {
    "synapse": "a packet for each spike and synapse",
    "core": "a packet for each spike and other core that it reaches",
}


def simulations(views: list[View]) -> Html:
    """The section of all mappings that were simulated; nothing if none was."""
    parts = []
    for index, view in enumerate(views):
        found = view.report.get("simulation")
        if isinstance(found, dict) and isinstance(found.get("latency"), dict):
            who = Html(f"<h3>{swatch(index, view.label)}{text(view.label)}</h3>")
            parts.append(join([who if len(views) > 1 else Html(""), _simulation(found)]))
    note = "Every router, buffer and flit of the mesh, cycle by cycle."
    return section("simulation", "Simulated flit by flit", join(parts), note) if parts else Html("")


def _simulation(found: dict[str, Any]) -> Html:
    numbers = table("Latency and load", ("", "Value"), _numbers(found), hidden=True)
    links = _links(found.get("links"))
    return Html(
        f"<p class=note>{text(_said(found))}</p>"
        f'<div class="pair"><div><h3>Latency and load</h3>{numbers}</div>'
        f"<div><h3>Busiest links</h3>{links}</div></div>"
    )


def _said(found: dict[str, Any]) -> str:
    """The load in words."""
    cycles, warmup, packets = (found.get(name) for name in ("cycles", "warmup", "packets_per"))
    said = [f"{_plain(cycles)} cycles after a warm-up of {_plain(warmup)}"]
    said.append(PACKETS.get(str(packets), "packets as the simulator was asked for"))
    said.append(f"buffers of {_plain(found.get('depth'))} flits")
    words = ", ".join(said) + "."
    if found.get("packets") == 0:
        words += " There was no packet to send."
    if found.get("saturated") is True:
        words += (
            " This load is above saturation: queues grew as long as it lasted, and latency with "
            "them."
        )
    if _number(found.get("undelivered")):
        words += f" Of {_plain(found.get('packets'))} packets {_plain(found['undelivered'])} had"
        words += " not arrived at the end; latency is that of the others."
    return words


def _plain(value: Any) -> str:
    return f"{value:,}" if _number(value) is not None else "some"


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _numbers(found: dict[str, Any]) -> list[list[Any]]:
    delay = found["latency"]
    rows = [
        ["Latency in cycles, mean", delay.get("mean")],
        ["50th percentile", delay.get("p50")],
        ["99th percentile", delay.get("p99")],
        ["max", delay.get("max")],
        ["Load scale", found.get("load_scale")],
        ["Cycles that a unit of time lasts", found.get("tick_cycles")],
        ["Offered, flits a core and cycle", found.get("offered")],
        ["Delivered, flits a core and cycle", found.get("delivered")],
        ["Link load, mean, flits a cycle", found.get("link_load_mean")],
    ]
    knee = found.get("saturation")
    if isinstance(knee, dict):
        rows += [
            ["Saturation: largest load scale that is carried", knee.get("load_scale")],
            ["fewest cycles that a unit of time can last", knee.get("tick_cycles")],
        ]
    else:
        rows.append(["Saturation", safe(Html("not looked for"))])
    return rows


def _links(links: Any) -> Html:
    """The busiest links; a link carries a flit a cycle at most."""
    if not isinstance(links, list) or not links:
        return Html("<p class=note>No flit went over a link.</p>")
    rows = []
    for link in links:
        load = link["flits_per_cycle"]
        bar = Html(f"{meter(load)} {figure(load, percent(load))}")
        name = f"{link['x']}, {link['y']} {link['direction']}"
        rows.append([name, safe(bar), safe(figure(link["expected"], percent(link["expected"])))])
    heads = ("Leaves x, y", "Busy", "Asked for")
    note = "Share of the cycles in which a flit went over the link, and what the load asks of it."
    return Html(f"{table('Busiest links', heads, rows, hidden=True)}<p class=note>{note}</p>")
