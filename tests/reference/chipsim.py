"""Reference implementation of the metrics: sums of traffic over links, routers and cores.

Routes are in `tests.reference.mesh_routes`, link traffic in `tests.reference.link_traffic`. No code
is shared with `chipsim` except the Chip dataclass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil
from typing import Any

from chipsim.chip.model import Chip
from tests.reference.latency import noc_latency
from tests.reference.link_traffic import (
    Edge,
    congestion,
    core_casts,
    flows,
    multicast,
    packets_of,
    rates_of,
    started_by,
    unicast_hops,
    unicast_loads,
)
from tests.reference.mesh_routes import (
    STEPS,
    Link,
    Router,
    all_links,
    cost,
    distance,
    lines,
    route,
    size,
    tile,
    walk,
)
from tests.reference.queues import queues_of
from tests.reference.tick_bounds import sent_by, tick_metrics


def percentile99(values: Sequence[float]) -> float:
    """Return the 99th percentile by linear interpolation between the closest ranks."""
    ranked = sorted(values)
    at = 0.99 * (len(ranked) - 1)
    low = int(at)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (at - low) * (ranked[high] - ranked[low])


def link_metrics(chip: Chip, loads: Counter[Link], unit: float) -> dict[str, float]:
    values = [loads[link] * unit for link in all_links(chip)]
    if not values:
        return {"link_load_max": 0, "link_load_mean": 0.0, "link_load_p99": 0.0}
    return {
        "link_load_max": max(values),
        "link_load_mean": sum(values) / len(values),
        "link_load_p99": percentile99(values),
    }


def router_metrics(chip: Chip, loads: Counter[Link], started: Counter[Router]) -> dict[str, float]:
    """Return the router metrics: traffic that enters routers by links and from their cores."""
    columns, rows = size(chip)
    visits = Counter(started)
    for ((x, y), name), load in loads.items():
        visits[(x + STEPS[name][0]) % columns, (y + STEPS[name][1]) % rows] += load
    return {
        "router_load_max": max(visits.values(), default=0),
        "router_load_mean": sum(visits.values()) / (columns * rows),
    }


def in_units(values: dict[str, float], unit: float) -> dict[str, float]:
    return {name: value * unit for name, value in values.items()}


def usage(
    chip: Chip, core: Sequence[int], edges: Sequence[Edge], sizes: Sequence[int]
) -> dict[str, list[int]]:
    cores = range(chip.cores)
    axons = {(s, core[t]) for s, t, _ in edges}
    return {
        "count": [sum(c == k for c in core) for k in cores],
        "neurons": [sum(z for c, z in zip(core, sizes, strict=True) if c == k) for k in cores],
        "synapses": [sum(core[t] == k for _, t, _ in edges) for k in cores],
        "axons_in": [sum(c == k for _, c in axons) for k in cores],
        "axons_out": [
            sum(max(1, sum(s == v for s, _ in axons)) for v, at in enumerate(core) if at == k)
            if chip.single_target
            else sum(core[s] == k != c for s, c in axons)
            for k in cores
        ],
    }


def fill_metrics(chip: Chip, core: Sequence[int], use: dict[str, list[int]]) -> dict[str, float]:
    fill = [z / chip.neurons for z, n in zip(use["neurons"], use["count"], strict=True) if n]
    return {
        "cores_used": len(fill),
        **({"copies": sum(use["axons_out"]) - len(core)} if chip.single_target else {}),
        "core_fill_mean": sum(fill) / len(fill) if fill else 0.0,
        "core_fill_max": max(fill, default=0.0),
    }


def link_costs(chip: Chip) -> dict[Link, tuple[int, float, int]]:
    """Return cost, bandwidth and boundary flag (chip or board) of every link."""
    machine = chip.machine
    assert machine is not None
    plane, wide_tall = lines(chip, *tile(chip)), tile(chip)
    found = {}
    for (x, y), name in all_links(chip):
        axis = 0 if name in ("east", "west") else 1
        line, side = (plane.x, plane.y)[axis], wide_tall[axis]
        at, length = (x, y)[axis], size(chip)[axis]
        step = at if name in ("east", "south") else (at - 1) % length
        after, last = (step + 1) * side, step == length - 1
        over, bandwidth = 0, 1.0
        for kind, part in ((2, machine.chip), (3, machine.board)):
            if part and (last or after % (part.width, part.height)[axis] == 0):
                over, bandwidth = kind, part.bandwidth
        found[(x, y), name] = line.steps[step], bandwidth, over
    return found


def crossings(
    chip: Chip, loads: Counter[Link], unit: float, cost_total: float | None
) -> dict[str, float]:
    machine = chip.machine
    if machine is None:
        return {}
    table = link_costs(chip)
    over = [(load, *table[link][1:]) for link, load in loads.items() if table[link][2]]
    of_links = sum(load * table[link][0] for link, load in loads.items()) * unit
    found = {"cost_total": (of_links if cost_total is None else cost_total) * machine.unit}
    if machine.chip or machine.board:
        found["crossings_chips"] = sum(load for load, _, _ in over) * unit
    if machine.board:
        found["crossings_boards"] = sum(load for load, _, kind in over if kind == 3) * unit
    if machine.chip or machine.board:
        found["crossing_load_max"] = max([load / b for load, b, _ in over], default=0.0) * unit
    return found


def core_cost(
    chip: Chip, core: Sequence[int], edges: Sequence[Edge], rates: Sequence[int] | None
) -> int:
    """Return rate times cost, summed over one packet per core that a neuron reaches."""
    rate = rates_of(edges, rates)
    return sum(rate[s] * cost(chip, core[s], c) for s, c in {(s, core[t]) for s, t, _ in edges})


def machine_metrics(
    chip: Chip, core: Sequence[int], sent: Sequence[Edge], unit: float
) -> dict[str, Any]:
    machine = chip.machine
    if machine is None:
        return {}
    costs = [(w * unit, cost(chip, core[s], core[t]) * machine.unit) for s, t, w in sent]
    total, weight = sum(w * c for w, c in costs), sum(w for w, _ in costs)
    loads: Counter[Link] = Counter()
    for s, t, w in sent:
        for link in route(chip, core[s], core[t]):
            loads[link] += w
    found = crossings(chip, loads, unit, total / machine.unit) | {
        "cost_mean": total / weight if weight else 0.0,
        "cost_max": max([c for _, c in costs], default=0),
    }
    for name, part in (("tiles", machine.tile), ("chips", machine.chip), ("boards", machine.board)):
        if part:
            where = [(c % chip.width // part.width, c // chip.width // part.height) for c in core]
            found[f"cut_{name}"] = sum(w * unit for s, t, w in sent if where[s] != where[t])
    return {"machine": found}


def energy_parts(
    chip: Chip, sent: Sequence[Edge], core: Sequence[int], reaches: dict[tuple[int, int], int],
    trees: Counter[Link], active: dict[str, Sequence[int]], units: tuple[float, float],
) -> dict[str, Any]:  # fmt: skip
    """Return the energies packet by packet; reaches : rate of each (neuron, reached core) pair"""
    known = chip.energy
    if known is None and chip.energy_unit == "relative":
        return {}
    unit, found = known.unit if known else chip.energy_unit, {}
    out, taken = (known.packet_out or 0, known.packet_in or 0) if known else (0, 0)
    east, north = chip.link_energies

    def way(links: Sequence[Link]) -> float:
        return chip.energy_router + sum(
            chip.energy_router + (east if name in ("east", "west") else north) for _, name in links
        )

    if unit == chip.energy_unit:
        if chip.delivery == "synapse":
            spent = sum(
                w
                * (out + taken + (way(route(chip, core[s], core[t])) if core[s] != core[t] else 0))
                for s, t, w in sent
            )
        elif chip.delivery == "core":
            spent = sum(
                rate * (out + taken + (way(route(chip, core[s], c)) if core[s] != c else 0))
                for (s, c), rate in reaches.items()
            )
        else:
            spent = sum(load * (way([link]) - chip.energy_router) for link, load in trees.items())
            leaving = {s: rate for (s, c), rate in reaches.items() if core[s] != c}
            spent += sum(leaving.values()) * (chip.energy_router + out)
            spent += sum(reaches.values()) * taken
        found["network"] = spent * units[chip.delivery != "synapse"]
    if known and known.event is not None:
        found["events"] = sum(active["events"]) * known.event * units[1]
    if known and known.neuron is not None:
        ticks = 1 / chip.time.tick if chip.time else 1.0
        found["neurons"] = sum(active["sizes"]) * known.neuron * ticks
    lacks = [part for part in ("network", "events", "neurons") if part not in found]
    return {
        "energy_parts": {
            **found, "sum": sum(found.values()), "lacks": ", ".join(lacks), "unit": unit,
        }
    }  # fmt: skip


def score(
    chip: Chip,
    core: Sequence[int],
    edges: Sequence[Edge],
    *,
    sizes: Sequence[int],
    rates: Sequence[int] | None = None,
    undirected: bool = False,
    weight_unit: float = 1.0,
    rate_unit: float = 1.0,
) -> dict[str, Any]:
    """Return the table of metrics, synapse by synapse."""
    sent = flows(edges, undirected)
    used = [(w * weight_unit, distance(chip, core[s], core[t])) for s, t, w in sent]
    total = sum(w for w, _ in used)
    cut = [one for one, (s, t, _) in zip(used, sent, strict=True) if core[s] != core[t]]
    cut_weight = sum(w for w, _ in cut)
    hops = sum(w * d for w, d in used)
    ways_of = [(w, route(chip, core[s], core[t])) for s, t, w in sent if core[s] != core[t]]

    def along(links: Sequence[Link], router: float, pair: tuple[float, float]) -> float:
        across = sum(name in ("east", "west") for _, name in links)
        return (len(links) + 1) * router + across * pair[0] + (len(links) - across) * pair[1]

    latency = [(w, along(way, chip.latency_router, chip.link_latencies)) for w, way in ways_of]
    crowd = [f * weight_unit for row in congestion(chip, core, edges, undirected) for f in row]
    connectivity, trees = multicast(chip, core, edges, rates)
    casts, active = core_casts(chip, core, edges, rates)
    units = weight_unit, (weight_unit if rates is None else rate_unit)
    unit = units[1]
    packets = packets_of(chip, core, edges, rates, undirected)
    routers = [
        (router_metrics(chip, loads, started_by(chip, way)), by)
        for loads, way, by in (
            (unicast_loads(chip, core, edges, undirected), packets["synapse"], weight_unit),
            (casts, packets["core"], unit),
            (trees, packets["tree"], unit),
        )
    ]
    of_flows, of_casts, of_trees = (in_units(*one) for one in routers)
    rate_of = rates_of(edges, rates)
    pairs = {(s, core[t]): rate_of[s] for s, t, _ in edges}
    use = usage(chip, core, edges, sizes)
    return {
        "cut_weight": cut_weight,
        "cut_fraction": cut_weight / total if total else 0.0,
        "hops_total": hops,
        "hops_mean": hops / total if total else 0.0,
        "hops_max": max([d for _, d in used], default=0),
        "energy": sum(
            w * weight_unit * along(way, chip.energy_router, chip.link_energies)
            for w, way in ways_of
        ),
        "latency_mean": sum(w * weight_unit * t for w, t in latency) / cut_weight if cut else 0.0,
        "latency_max": max([t for _, t in latency], default=0.0),
        **link_metrics(chip, unicast_loads(chip, core, edges, undirected), weight_unit),
        **of_flows,
        "congestion_mean": sum(crowd) / len(crowd),
        "congestion_max": max(crowd),
        "core": {
            "packets": sum(active["sent"]) * unit,
            "hops_total": sum(casts.values()) * unit,
            **link_metrics(chip, casts, unit),
            **of_casts,
            **crossings(chip, casts, unit, core_cost(chip, core, edges, rates) * unit),
        },
        "multicast": {
            "connectivity": connectivity * unit,
            "hops_total": sum(trees.values()) * unit,
            "unicast_hops_total": unicast_hops(chip, core, edges, rates) * unit,
            **link_metrics(chip, trees, unit),
            **of_trees,
            **crossings(chip, trees, unit, None),
        },
        **machine_metrics(chip, core, sent, weight_unit),
        **fill_metrics(chip, core, use),
        **energy_parts(chip, sent, core, pairs, trees, {**active, "sizes": sizes}, units),
        **({} if chip.time is None else ticks(chip, core, edges, rates, undirected, units, use)),
    }


def ticks(
    chip: Chip, core: Sequence[int], edges: Sequence[Edge], rates: Sequence[int] | None,
    undirected: bool, units: tuple[float, float], use: dict[str, list[int]],
) -> dict[str, Any]:  # fmt: skip
    """Return the metrics of a tick; units : units of weights and of rates"""
    assert chip.time is not None
    casts, active = core_casts(chip, core, edges, rates)
    weight, rate = (unit * chip.time.tick for unit in units)
    out = [
        sum(w for s, _, w in flows(edges, undirected) if core[s] == k) for k in range(chip.cores)
    ]
    loads, unit = {
        "synapse": (unicast_loads(chip, core, edges, undirected), weight),
        "core": (casts, rate),
        "tree": (multicast(chip, core, edges, rates)[1], rate),
    }[chip.delivery]
    table = link_costs(chip) if chip.machine else {}
    service, ways = {}, {}
    for link in all_links(chip):
        service[link] = max(1.0, chip.time.link / (table[link][1] if table else 1))
        ways[link] = max(1, ceil(hop_cycles(chip, table, link))) + ceil(service[link]) - 1
    packets = packets_of(chip, core, edges, rates, undirected)[chip.delivery]
    walked = [(rate * unit, [walk(chip, a, b) for b in ends]) for rate, a, ends in packets]
    work = sent_by(chip.delivery, active, out, rate, weight)
    own = [n * rate for n in active["local"]]
    if chip.delivery == "synapse":
        own = [
            sum(w for s, t, w in flows(edges, undirected) if core[s] == core[t] == k) * weight
            for k in range(chip.cores)
        ]
    known = chip.delivery != "tree" or tile(chip) == (1, 1)
    found: dict[str, Any] = tick_metrics(
        chip.time, use["neurons"], *work,
        [(n * unit, hop_cycles(chip, table, e)) for e, n in loads.items()],
        [table[e][1] if table else 1.0 for e in loads],
        queues_of(chip, walked, own, work, service) if known else None,
    )  # fmt: skip
    if not known:
        return found
    per_cycle = [(rate / found["tick_cycles"], routes) for rate, routes in walked]
    senders = [a for _, a, _ in packets]
    return found | {"noc_latency": noc_latency(per_cycle, service, ways, senders)}


def hop_cycles(chip: Chip, table: dict[Link, tuple[int, float, int]], link: Link) -> float:
    """Return the cycles of a hop over a link; `table` gives the boundary that it crosses."""
    assert chip.time is not None
    over = table[link][2] if table else 0
    machine = chip.machine
    part = machine and {2: machine.chip, 3: machine.board}.get(over)
    return part.latency if part and part.latency is not None else chip.time.hop
