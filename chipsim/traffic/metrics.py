"""The metrics of a mapping: one dict of plain numbers, names as in the report.

d is the distance in hops between the cores at the two ends of a synapse: the links between routers
on its XY route; cores of a tile share a router and are no hop apart. w is its weight, W the sum of
all w. Everything but the entries under ``core`` and ``multicast`` treats each spike on each
synapse as a packet of its own, and is a function of the sums per core pair.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chipsim.chip.limits import MEMORY, uses
from chipsim.chip.model import Chip
from chipsim.errors import ChipError
from chipsim.protocols import Int64Array
from chipsim.traffic.arrays import Traffic
from chipsim.traffic.congestion_sample import SAMPLED
from chipsim.traffic.costs import latency_max, links_cost
from chipsim.traffic.energies import energy_parts
from chipsim.traffic.latency import mapped_latency
from chipsim.traffic.links import existing
from chipsim.traffic.machines import PARTS, crossings
from chipsim.traffic.ticks import tick_bounds
from chipsim.traffic.turns import entering, of_routers


def summarise(chip: Chip, traffic: Traffic) -> dict[str, Any]:
    """The metrics that ``traffic`` amounts to, ready for ``json.dumps``.

    cut_weight, cut_fraction
        Sum of w between different cores; that over W.
    hops_total, hops_mean, hops_max
        Sum of w * d; that over W; largest d over synapses with w > 0.
    energy
        Sum of w * ((d + 1) * energy_router + d * energy_link) between different cores: that of the
        network on the chip, routers and links, for unicast spikes; cores take none here.
    latency_mean, latency_max
        (d + 1) * latency_router + d * latency_link between different cores: mean weighted by w, and
        largest. Where links east-west and north-south differ, each counts by itself, in energies
        too.
    link_load_max, link_load_mean, link_load_p99
        Over all directed links of the mesh, under XY routing.
    router_load_max, router_load_mean
        Over all routers, spikes that pass them, under XY routing.
    congestion_mean, congestion_max
        Over all routers, expected load if spikes spread over all minimal paths, as on a mesh with
        adaptive routers.
    congestion, congestion_pairs, congestion_share
        Only where the largest of these was measured of a sample of the traffic
        (`chipsim.traffic.congestion_sample`): the word "sampled", pairs of different cores that
        were followed, and their share of all.
    core.packets, core.hops_total, core.link_load_*, core.router_load_*
        One packet per spike and other core that it reaches, along its XY route: sum of rate * other
        cores reached; sum of rate * d over them; loads of the links and routers.
    multicast.connectivity, multicast.hops_total, multicast.link_load_*, multicast.router_load_*
        Sum of rate * other cores reached; sum of rate * links of the multicast tree; loads of the
        trees on the links and routers.
    multicast.unicast_hops_total
        Sum over synapses of rate of the source * d: hops at the same rates, were every synapse sent
        a packet of its own. Never less than multicast.hops_total. Each edge of an undirected
        network is two synapses, one each way.
    machine.cost_total, machine.cost_mean, machine.cost_max
        On a machine, with c the distance of the cores by its coordinates: sum of w * c; that over
        W; largest c. `core.cost_total` is the sum of rate * c over packets to cores,
        `multicast.cost_total` that of rate * cost over the links of the trees.
    machine.cut_tiles, machine.cut_chips, machine.cut_boards
        Sum of w between different tiles, chips and boards, where the machine has such.
    crossings_chips, crossings_boards, crossing_load_max
        Of machine, core and multicast: sum of the loads of links over the ends of chips and boards
        (an end of a board is one of a chip), and the largest of them over its bandwidth.
    cores_used, core_fill_mean, core_fill_max
        Cores with a neuron; size used over capacity, over those cores.
    copies
        Copies of neurons that reach more cores than one, where a neuron has a single target.
    memory_fill_mean, memory_fill_max
        Bits of the memory for synapses that are used, over those that a core has, over those cores;
        of chips that count them.
    energy_parts.*
        Of `chipsim.traffic.energies`: of the network, of events, of neurons, of chips that know
        any of them in real units; their sum, and what it lacks.
    tick_cycles, tick_bound, tick_bounds.*
        Cycles of a mean tick of a chip whose cycles are known, which of `chipsim.traffic.ticks`
        bounds it, and the largest of each.
    noc_latency.*
        Mean cycles of what the chip sends from core to core if it spreads evenly over such ticks,
        with and without waiting: `chipsim.traffic.latency`.

    Sums and largest loads are int if their unit is exactly 1, else float. Without traffic the
    fractions, means and largest values are 0.
    """
    unit = traffic.weight_unit
    totals = traffic.totals
    total, cut, hops, farthest = totals.weight, totals.cut, totals.hops, totals.farthest
    trees, links = traffic.multicast_links, traffic.unicast_links
    visits = hops + cut  # of routers: one more than links
    found: dict[str, Any] = {
        "cut_weight": _scaled(cut, unit),
        "cut_fraction": _ratio(cut, total),
        "hops_total": _scaled(hops, unit),
        "hops_mean": _ratio(hops, total),
        "hops_max": farthest,
        "energy": (visits * chip.energy_router + links_cost(links, chip.link_energies)) * unit,
        "latency_mean": _ratio(
            visits * chip.latency_router + links_cost(links, chip.link_latencies), cut
        ),
        "latency_max": latency_max(chip, traffic) if cut else 0.0,
        **_link_loads(chip, links, unit),
        **_router_loads(chip, links, traffic.profile.outgoing, unit),
        "congestion_mean": float(traffic.congestion.mean()) * unit,
        "congestion_max": float(traffic.congestion.max()) * unit,
        **_sampled(traffic),
        "core": {
            "packets": _scaled(traffic.connectivity, traffic.rate_unit),
            "hops_total": _scaled(int(traffic.core_links.sum()), traffic.rate_unit),
            **_link_loads(chip, traffic.core_links, traffic.rate_unit),
            **_router_loads(chip, traffic.core_links, traffic.activity.sent, traffic.rate_unit),
            **_crossings(chip, traffic.core_links, traffic.rate_unit, traffic.core_cost),
        },
        "multicast": {
            "connectivity": _scaled(traffic.connectivity, traffic.rate_unit),
            "hops_total": _scaled(int(trees.sum()), traffic.rate_unit),
            "unicast_hops_total": _scaled(traffic.unicast_hops, traffic.rate_unit),
            **_link_loads(chip, trees, traffic.rate_unit),
            **_router_loads(chip, trees, traffic.activity.spikes, traffic.rate_unit),
            **_crossings(chip, trees, traffic.rate_unit),
        },
        **_machine(chip, traffic),
        **_fill(chip, traffic),
        **energy_parts(chip, traffic),
        **_time(chip, traffic),
    }
    parts = [part for part in found.values() if isinstance(part, dict)]
    for name, value in [one for part in (found, *parts) for one in part.items()]:
        if isinstance(value, float) and not math.isfinite(value):
            raise ChipError(
                f"chip {chip.name}: {name} goes beyond 1e308; scale the weights of the network, or "
                "the energy and latency of the chip, down"
            )
    return found


def _sampled(traffic: Traffic) -> dict[str, Any]:
    """What congestion was measured of; nothing where it was all traffic."""
    sample = traffic.congestion_sample
    if sample is None:
        return {}
    return {
        "congestion": SAMPLED,
        "congestion_pairs": sample.pairs,
        "congestion_share": sample.share,
    }


def _machine(chip: Chip, traffic: Traffic) -> dict[str, Any]:
    """What a report says of a machine; nothing of a chip that is none."""
    machine = chip.machine
    if machine is None:
        return {}
    unit, costs = traffic.weight_unit, traffic.costs
    parts = zip(PARTS, (machine.tile, machine.chip, machine.board), costs.cut, strict=True)
    return {
        "machine": {
            **_crossings(chip, traffic.unicast_links, unit, costs.total),
            "cost_mean": _ratio(costs.total * machine.unit, traffic.totals.weight),
            "cost_max": _scaled(costs.farthest, machine.unit),
            **{f"cut_{name}": _scaled(int(cut), unit) for name, part, cut in parts if part},
        }
    }


def _crossings(
    chip: Chip, links: Int64Array, unit: float, cost: int | None = None
) -> dict[str, Any]:
    """What crosses the ends of chips and boards; cost : instead of that of the links."""
    found = crossings(chip, links)
    if chip.machine is None:
        return found
    if cost is not None:
        found["cost_total"] = cost
    units = {"cost_total": unit * chip.machine.unit}
    return {name: _scaled(value, units.get(name, unit)) for name, value in found.items()}


def _link_loads(chip: Chip, loads: Int64Array, unit: float) -> dict[str, Any]:
    """Largest, mean and 99th percentile of loads of shape (4, rows, columns)."""
    links = existing(loads, "" if chip.machine is None else chip.machine.torus)
    if not len(links):  # a single core
        return {"link_load_max": _scaled(0, unit), "link_load_mean": 0.0, "link_load_p99": 0.0}
    return {
        "link_load_max": _scaled(int(links.max()), unit),
        "link_load_mean": int(links.sum()) / len(links) * unit,
        "link_load_p99": float(np.percentile(links, 99)) * unit,
    }


def _router_loads(chip: Chip, links: Int64Array, sent: Int64Array, unit: float) -> dict[str, Any]:
    """Largest and mean load of the routers.

    links : loads, shape (4, rows, columns); sent : what leaves each core for another
    """
    loads = entering(links).sum(axis=0) + of_routers(chip, sent)
    return {
        "router_load_max": _scaled(int(loads.max()), unit),
        "router_load_mean": int(loads.sum()) / loads.size * unit,
    }


def _time(chip: Chip, traffic: Traffic) -> dict[str, Any]:
    """The bounds of a tick, and latency; nothing where the cycles are not known."""
    if chip.time is None:
        return {}
    bounds = tick_bounds(chip, traffic, chip.time)
    found = mapped_latency(chip, traffic, chip.time, bounds.cycles)
    return bounds.to_json() | ({} if found is None else {"noc_latency": found.to_json()})


def _fill(chip: Chip, traffic: Traffic) -> dict[str, Any]:
    used = traffic.usage.count > 0
    whole = {"core": traffic.usage.neurons / chip.neurons}
    if chip.memory_bits is not None:
        whole["memory"] = uses(chip, traffic.usage)[MEMORY] / chip.memory_bits
    found: dict[str, Any] = {"cores_used": int(used.sum())}
    if chip.single_target:
        found["copies"] = int(traffic.usage.axons_out.sum() - traffic.usage.count.sum())
    for name, fills in whole.items():
        fill = fills[used]
        found[f"{name}_fill_mean"] = float(fill.mean()) if len(fill) else 0.0
        found[f"{name}_fill_max"] = float(fill.max(initial=0.0))
    return found


def _scaled(value: int, unit: float) -> int | float:
    """An exact int where the unit is 1."""
    return value if unit == 1 else value * unit


def _ratio(part: float, whole: int) -> float:
    """part / whole, and 0 where there is nothing."""
    return float(part / whole) if whole else 0.0
