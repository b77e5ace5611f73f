"""What the simulator of the mesh found: latency, load, saturation, and the busiest links."""

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

NOTE = (
    "The mesh alone, flit by flit: routers, links, and packets between different cores, sent at "
    "random at constant mean rates. Cores are not simulated, nor are packets within a core. Cycles "
    "are those of the mesh; a chip needs at least as many for a time step, and those of its cores."
)
PACKETS = {
    "synapse": "one packet per synapse",
    "core": "one packet per neuron and other core that it reaches",
}


def simulations(views: list[View]) -> Html:
    """The section of all mappings that were simulated; nothing if none was."""
    parts = []
    for index, view in enumerate(views):
        found = view.report.get("simulation")
        if isinstance(found, dict) and isinstance(found.get("latency"), dict):
            who = Html(f"<h3>{swatch(index, view.label)}{text(view.label)}</h3>")
            parts.append(join([who if len(views) > 1 else Html(""), _simulation(found)]))
    return section("simulation", "The mesh, simulated", join(parts), NOTE) if parts else Html("")


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
        ["Mesh cycles per unit of time", found.get("tick_cycles")],
        ["Flits per unit of time", found.get("flits_per_tick")],
        ["Left out: flits within a core", found.get("flits_per_tick_own_core")],
        ["Offered, flits per core per cycle", found.get("offered")],
        ["Delivered, flits per core per cycle", found.get("delivered")],
        ["Link load, mean, flits per cycle", found.get("link_load_mean")],
    ]
    knee = found.get("saturation")
    if isinstance(knee, dict):
        rows += [
            ["Saturation of the mesh: largest load scale carried", knee.get("load_scale")],
            ["fewest mesh cycles per unit of time", knee.get("tick_cycles")],
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
    heads = ("Leaves x, y", "Busy", "Expected")
    note = "Share of the cycles in which a flit went over the link, and what the load asks of it."
    return Html(f"{table('Busiest links', heads, rows, hidden=True)}<p class=note>{note}</p>")
