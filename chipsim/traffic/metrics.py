"""Metrics of a mapping: one dict of plain numbers, named as in the report.

d is the distance in hops between the cores of a synapse: the links between routers on its XY route
or, if links are broken, on the route that avoids them (`chipsim.detours`); "XY routing" below
stands for both. Cores of a tile share a router, at a distance of 0. w is its weight, W the sum of
all w. All metrics except those under ``core`` and ``multicast`` assume one packet per spike and
synapse, and are functions of the sums per core pair.

cut_weight, cut_fraction
    Sum of w between different cores; the sum divided by W.
hops_total, hops_mean, hops_max
    Sum of w * d; the sum divided by W; largest d over synapses with w > 0.
energy
    Sum of w * ((d + 1) * energy_router + d * energy_link) between different cores: energy of
    the network on the chip, routers and links, for unicast spikes, without cores.
latency_mean, latency_max
    (d + 1) * latency_router + d * latency_link between different cores: mean weighted by w, and
    largest. East-west and north-south links are counted with their own values, also in
    energies.
link_load_max, link_load_mean, link_load_p99
    Over all directed links of the mesh, under XY routing.
router_load_max, router_load_mean
    Spikes through a router, over all routers, under XY routing.
congestion_mean, congestion_max
    Over all routers, expected load if spikes spread over all minimal paths, as on a mesh with
    adaptive routers; if links are broken, the router loads.
congestion, congestion_pairs, congestion_share
    Only if congestion was measured on a sample of the traffic
    (`chipsim.traffic.congestion_sample`): the word "sampled", the sampled pairs of different
    cores, and their share of all.
core.packets, core.hops_total, core.link_load_*, core.router_load_*
    One packet per spike and other core that it reaches, along its XY route: sum of rate * other
    cores reached; sum of rate * d over them; loads of the links and routers.
multicast.connectivity, multicast.hops_total, multicast.link_load_*, multicast.router_load_*
    Sum of rate * other cores reached; sum of rate * links of the multicast tree; loads of the
    trees on the links and routers.
multicast.unicast_hops_total
    Sum over synapses of rate of the source * d: hops at the same rates with one packet per
    synapse. Never less than multicast.hops_total. Each edge of an undirected network is two
    synapses, one each way.
machine.cost_total, machine.cost_mean, machine.cost_max
    On a machine, with c the distance of the cores by its coordinates: sum of w * c; the sum
    divided by W; largest c. `core.cost_total` is the sum of rate * c over packets to cores,
    `multicast.cost_total` the sum of rate * cost over the links of the trees.
machine.cut_tiles, machine.cut_chips, machine.cut_boards
    Sum of w between different tiles, chips and boards, if the machine has them.
crossings_chips, crossings_boards, crossing_load_max
    Under machine, core and multicast: sum of the link loads across chip and board boundaries (a
    board boundary is also a chip boundary), and the largest of them over its bandwidth.
cores_used, core_fill_mean, core_fill_max
    Cores with a neuron; size used over capacity, over those cores.
copies
    Copies of neurons that reach more than one core, on chips with a single target per neuron.
memory_fill_mean, memory_fill_max
    Bits of synaptic memory used over the bits per core, over the same cores; for chips that
    count them.
energy_parts.*
    From `chipsim.traffic.energies`: energy of network, events and neurons, for chips with any
    of them in real units; their sum, and its missing parts.
tick_cycles, tick_bound, tick_bounds.*
    For chips with known cycles: cycles of a mean tick, its bottleneck (one of the bounds of
    `chipsim.traffic.ticks`), the largest value of each bound, and the cycles of the queues
    (`chipsim.traffic.queues`).
noc_latency.*
    Mean latency in cycles of packets between cores that spread evenly over such ticks, with and
    without waiting: `chipsim.traffic.latency`.

Sums and largest loads are int if their unit is exactly 1, else float. Without traffic the
fractions, means and largest values are 0.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from chipsim.chip.faults import working_links
from chipsim.chip.limits import MEMORY, uses
from chipsim.chip.model import Chip
from chipsim.chip.unlike import limit_of_cores
from chipsim.errors import ChipError
from chipsim.protocols import Int64Array
from chipsim.traffic.arrays import Traffic
from chipsim.traffic.congestion_sample import SAMPLED
from chipsim.traffic.costs import latency_max, links_cost
from chipsim.traffic.energies import energy_parts
from chipsim.traffic.latency import mapped_latency
from chipsim.traffic.machines import PARTS, crossings
from chipsim.traffic.queues import tick_queues
from chipsim.traffic.ticks import tick_bounds
from chipsim.traffic.turns import entering, of_routers


def summarise(chip: Chip, traffic: Traffic) -> dict[str, Any]:
    """Return the metrics of ``traffic``, listed above, ready for ``json.dumps``."""
    unit = traffic.rate_unit
    found: dict[str, Any] = {
        **_unicast(chip, traffic),
        **_sampled(traffic),
        "core": {
            "packets": _scaled(traffic.connectivity, unit),
            "hops_total": _scaled(int(traffic.core_links.sum()), unit),
            **_link_loads(chip, traffic.core_links, unit),
            **_router_loads(chip, traffic.core_links, traffic.activity.sent, unit),
            **_crossings(chip, traffic.core_links, unit, traffic.core_cost),
        },
        "multicast": {
            "connectivity": _scaled(traffic.connectivity, unit),
            "hops_total": _scaled(int(traffic.multicast_links.sum()), unit),
            "unicast_hops_total": _scaled(traffic.unicast_hops, unit),
            **_link_loads(chip, traffic.multicast_links, unit),
            **_router_loads(chip, traffic.multicast_links, traffic.activity.spikes, unit),
            **_crossings(chip, traffic.multicast_links, unit),
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
                f"chip {chip.name}: {name} exceeds 1e308; scale down the weights of the network or "
                "the energy and latency of the chip"
            )
    return found


def _unicast(chip: Chip, traffic: Traffic) -> dict[str, Any]:
    """Return the metrics of one packet per spike and synapse."""
    unit = traffic.weight_unit
    totals = traffic.totals
    total, cut, hops = totals.weight, totals.cut, totals.hops
    links = traffic.unicast_links
    visits = hops + cut  # router visits: one more than links
    return {
        "cut_weight": _scaled(cut, unit),
        "cut_fraction": _ratio(cut, total),
        "hops_total": _scaled(hops, unit),
        "hops_mean": _ratio(hops, total),
        "hops_max": totals.farthest,
        "energy": (visits * chip.energy_router + links_cost(links, chip.link_energies)) * unit,
        "latency_mean": _ratio(
            visits * chip.latency_router + links_cost(links, chip.link_latencies), cut
        ),
        "latency_max": latency_max(chip, traffic) if cut else 0.0,
        **_link_loads(chip, links, unit),
        **_router_loads(chip, links, traffic.profile.outgoing, unit),
        "congestion_mean": float(traffic.congestion.mean()) * unit,
        "congestion_max": float(traffic.congestion.max()) * unit,
    }


def _sampled(traffic: Traffic) -> dict[str, Any]:
    """Return the metrics of the congestion sample; empty if all traffic was processed."""
    sample = traffic.congestion_sample
    if sample is None:
        return {}
    return {
        "congestion": SAMPLED,
        "congestion_pairs": sample.pairs,
        "congestion_share": sample.share,
    }


def _machine(chip: Chip, traffic: Traffic) -> dict[str, Any]:
    """Return the metrics of a machine; empty for other chips."""
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
    """Return the traffic across boundaries; cost : replaces the cost of the links"""
    found = crossings(chip, links)
    if chip.machine is None:
        return found
    if cost is not None:
        found["cost_total"] = cost
    units = {"cost_total": unit * chip.machine.unit}
    return {name: _scaled(value, units.get(name, unit)) for name, value in found.items()}


def _link_loads(chip: Chip, loads: Int64Array, unit: float) -> dict[str, Any]:
    """Largest, mean and 99th percentile of loads of shape (4, rows, columns)."""
    links = loads[working_links(chip)]
    if not len(links):  # a single core
        return {"link_load_max": _scaled(0, unit), "link_load_mean": 0.0, "link_load_p99": 0.0}
    return {
        "link_load_max": _scaled(int(links.max()), unit),
        "link_load_mean": int(links.sum()) / len(links) * unit,
        "link_load_p99": float(np.percentile(links, 99)) * unit,
    }


def _router_loads(chip: Chip, links: Int64Array, sent: Int64Array, unit: float) -> dict[str, Any]:
    """Return largest and mean load of the routers.

    links : loads, shape (4, rows, columns)
    sent : packets that leave each core for another
    """
    loads = entering(links).sum(axis=0) + of_routers(chip, sent)
    return {
        "router_load_max": _scaled(int(loads.max()), unit),
        "router_load_mean": int(loads.sum()) / loads.size * unit,
    }


def _time(chip: Chip, traffic: Traffic) -> dict[str, Any]:
    """Return tick bounds and latency; empty if the cycles are unknown."""
    if chip.time is None:
        return {}
    bounds = tick_bounds(chip, traffic, chip.time)
    bounds = replace(bounds, queues=tick_queues(chip, traffic, chip.time, bounds.cycles))
    found = mapped_latency(chip, traffic, chip.time, bounds.cycles)
    return bounds.to_json() | ({} if found is None else {"noc_latency": found.to_json()})


def _fill(chip: Chip, traffic: Traffic) -> dict[str, Any]:
    used = traffic.usage.count > 0
    neurons, memory = (limit_of_cores(chip, name) for name in ("neurons", "memory_bits"))
    assert neurons is not None, "every core has a limit on neurons"
    whole = {"core": traffic.usage.neurons / neurons}
    if memory is not None:
        whole["memory"] = uses(chip, traffic.usage)[MEMORY] / memory
    found: dict[str, Any] = {"cores_used": int(used.sum())}
    if chip.single_target:
        found["copies"] = int(traffic.usage.axons_out.sum() - traffic.usage.count.sum())
    if chip.sharing == "offset":
        found["list_words"] = int(traffic.usage.synapses.sum())
    for name, fills in whole.items():
        fill = fills[used]
        found[f"{name}_fill_mean"] = float(fill.mean()) if len(fill) else 0.0
        found[f"{name}_fill_max"] = float(fill.max(initial=0.0))
    return found


def _scaled(value: int, unit: float) -> int | float:
    """Return an exact int if the unit is 1."""
    return value if unit == 1 else value * unit


def _ratio(part: float, whole: int) -> float:
    """Return part / whole, or 0 if whole is 0."""
    return float(part / whole) if whole else 0.0
