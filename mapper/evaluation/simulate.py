"""Flit-level simulation of the traffic of a mapping: report entries and tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.table import Table

from chipsim.noc.load import measure_load
from chipsim.noc.mesh import Mesh
from chipsim.noc.saturation import TOLERANCE, Saturation, find_saturation
from chipsim.traffic.links import DIRECTIONS
from mapper.evaluation.offered_load import Offered, busiest_links
from mapper.monitoring.callbacks import OnFraction, ignore
from mapper.results.summary import GAP, Row
from mapper.results.tables import columns, facts, number

MODEL = {
    "simulated": "the mesh alone: routers, links and packets of one flit between different cores",
    "sources": "open loop: cores send at random, at constant mean rates, whatever the mesh does",
    "left_out": "packets within a core, although on the hardware they pass its local port",
    "not_modelled": "the cores: the cycles that they need for a time step, its barrier, bursts",
}
"""Scope of the simulation; `model` of the report."""
TILES = "cores of a tile send in turns, by one port into their router, and are reached by one"
"""Addition for machines whose cores share routers."""
CLOCK = (
    "cycles are counted for the mesh alone; a time step of the chip takes at least these and the "
    "cycles of its cores"
)
SHOWN = 10
"""Number of busiest links listed."""
TRIED = 8
"""Approximate number of loads that the search for saturation tries."""
SHORTER = 4
"""Their cycles are the measured cycles divided by this."""


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """Request of the user.

    cycles, warmup : measured cycles, and cycles before them
    scale : factor on the load; seed : of the packets; saturation : whether to search for it
    """

    cycles: int
    warmup: int
    scale: float
    seed: int
    saturation: bool


def simulate(
    offered: Offered, request: SimulationRequest, progress: OnFraction = ignore
) -> dict[str, Any]:
    """Run the model; return the entry `simulation` of report.json.

    Raises `MapperError` if the load is more than a node can send.
    """
    demand = offered.scaled(request.scale)
    span = request.warmup + request.cycles
    # Approximate shares of the time of the two parts.
    share = 1 / (1 + TRIED / SHORTER) if request.saturation else 1.0
    load = measure_load(
        offered.mesh,
        demand,
        cycles=request.cycles,
        warmup=request.warmup,
        seed=request.seed,
        advance=lambda cycle: progress(min(1.0, cycle / span) * share),
    )
    found = None
    if request.saturation:
        found = find_saturation(
            offered.mesh,
            offered.demand,
            cycles=-(-request.cycles // SHORTER),
            warmup=-(-request.warmup // SHORTER),
            seed=request.seed,
            tried=lambda runs: progress(min(1.0, share + (1 - share) * runs / TRIED)),
        )
    links = demand.expected(offered.mesh)[0]
    return {
        "model": MODEL | ({"tiles": TILES} if offered.mesh.shared else {}),
        "depth": offered.mesh.depth,
        "cycles": load.cycles,
        "warmup": load.warmup,
        "drained": load.drained,
        "seed": request.seed,
        "load_scale": request.scale,
        "tick_cycles": _over(offered.tick_cycles, request.scale),
        "flits_per_tick": offered.rate,
        "flits_per_tick_own_core": offered.own,
        "offered": load.offered,
        "delivered": load.accepted,
        "saturated": load.lag > TOLERANCE,
        "busiest_expected": demand.busiest(offered.mesh),
        "packets": load.packets,
        "undelivered": load.undelivered,
        "latency": {
            "mean": load.latency_mean,
            "p50": load.percentile(50),
            "p99": load.percentile(99),
            "max": load.latency_max,
            "expected": offered.latency(request.scale).mean if load.packets else None,
        },
        "link_load_mean": _mean(load.links[offered.mesh.works]) / load.cycles,
        "links": [
            {
                "core": first_core(offered.mesh, x, y),
                "x": x,
                "y": y,
                "direction": DIRECTIONS[d],
                "flits_per_cycle": flits / load.cycles,
                "expected": float(links[d, y, x]),
            }
            for d, y, x, flits in busiest_links(load.links, SHOWN)
        ],
        "saturation": None if found is None else _saturation(found, offered),
    }


def first_core(mesh: Mesh, x: int, y: int) -> int:
    """Return the first core of a router."""
    return y * mesh.tile[1] * mesh.sides[0] + x * mesh.tile[0]


def _saturation(found: Saturation, offered: Offered) -> dict[str, Any]:
    return {
        "load_scale": found.scale,
        "tick_cycles": _over(offered.tick_cycles, found.scale),
        "bound": found.bound,
        "offered": found.offered,
        "delivered": found.accepted,
        "runs": found.runs,
    }


def _over(value: float | None, by: float | None) -> float | None:
    return value / by if value is not None and by else None


def _mean(values: Any) -> float:
    return float(values.mean()) if len(values) else 0.0


def summary_rows(found: dict[str, Any]) -> list[Row]:
    """Return the lines of the summary: throughput, latency, busiest link, saturation."""
    if not found["packets"]:
        return [Row("traffic between cores", "none")]
    latency, links = found["latency"], found["links"]
    rows = [Row("packets", found["packets"], f"in {found['cycles']:,} cycles of the mesh")]
    if found["undelivered"]:
        rows.append(Row("not delivered", found["undelivered"]))
    if latency["mean"] is not None:
        rest = f"cycles on average; 99 % within {number(latency['p99'])}"
        rows.append(Row("latency", latency["mean"], f"{rest}, at most {number(latency['max'])}"))
    rows.append(Row("throughput", found["delivered"], "flits per core and cycle"))
    if links:
        where = f"({links[0]['x']},{links[0]['y']}) {links[0]['direction']}"
        rows += [
            GAP, Row("bottleneck", links[0]["flits_per_cycle"], f"flits per cycle on link {where}"),
        ]  # fmt: skip
    if (saturation := found["saturation"]) is not None:
        cycles = f"of this load: {number(saturation['tick_cycles'])} mesh cycles per unit of time"
        rows.append(Row("saturates at", f"{number(saturation['load_scale'])}x", cycles))
    return rows


def tables(found: dict[str, Any], title: str) -> list[Table]:
    """Return the result as tables for display."""
    latency = found["latency"]
    rows: list[tuple[str, Any]] = [
        ("cycles measured, after warm-up of", f"{found['cycles']:,}, {found['warmup']:,}"),
        ("load scale", found["load_scale"]),
        ("mesh cycles per unit of time", found["tick_cycles"]),
        ("flits per unit of time", found["flits_per_tick"]),
        ("left out: flits within a core", found["flits_per_tick_own_core"]),
        ("offered, flits / core / cycle", found["offered"]),
        ("delivered, flits / core / cycle", found["delivered"]),
        ("packets", found["packets"]),
        ("not delivered", found["undelivered"]),
        ("latency in cycles, mean", latency["mean"]),
        ("expected without simulation", latency["expected"]),
        ("latency, 50th percentile", latency["p50"]),
        ("latency, 99th percentile", latency["p99"]),
        ("latency, max", latency["max"]),
        ("link load, mean, flits / cycle", found["link_load_mean"]),
    ]
    made = [facts(title, rows)]
    if found["links"]:
        links = [
            (
                f"{link['x']},{link['y']} {link['direction']}",
                link["flits_per_cycle"],
                link["expected"],
            )
            for link in found["links"]
        ]
        made.append(columns("busiest links", ("leaves", "flits / cycle", "expected"), links))
    if (saturation := found["saturation"]) is not None:
        made.append(
            facts(
                "saturation of the mesh",
                [
                    ("load scale", saturation["load_scale"]),
                    ("mesh cycles per unit of time, at least", saturation["tick_cycles"]),
                    ("delivered, flits / core / cycle", saturation["delivered"]),
                    ("load scale that no router exceeds", saturation["bound"]),
                ],
            )
        )
    return made
