"""Annealing of the cycles of a tick: single vertices move or swap.

A tick lasts as long as its slowest core or link (`chipsim.traffic.ticks`). The maximum does not
change with moves elsewhere, so a high norm of all bounds replaces it, sum of (cycles / most) ** 16,
whose gradient is dominated by the slowest ones. Once the maximum falls no further, hops are saved,
and only cycles above the best maximum have a price.

Every bound is kept up to date: neurons, packets out and packets in of each core, flits of each
link on the XY routes of packets to cores.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mapper.concurrency.stop_flag import StopFlag, slices
from mapper.graph.distance import along
from mapper.graph.members import members_of, relocate, swap
from mapper.hop_refinement.mesh import CoreMesh
from mapper.hypergraph.thin_nets import CORE, SYNAPSE, TickNets
from mapper.hypergraph.trees import Trees, arrive, leave, new_trees, propose, total_hops
from mapper.random_numbers import accepted, next_random
from storage.arrays import Float64, Int32

OUT, IN, LINKS = 1, 2, 3  # rows of `TickLoads.cycles` after the row of neurons
HOT = 512  # of 1024 proposals: a vertex of one of the slowest cores
COOL = 400  # of 1024 proposals: to one of the fastest cores
SHARE = 8  # one core in SHARE counts as slowest, and one as fastest
ABOVE = 1e6  # price in hops of doubling the maximum
DRIFT = 1e-9  # tolerance for accumulated rounding errors
SPARE = 32  # slots per core beyond the vertices of the fullest core


class TickCosts(NamedTuple):
    """Cycles of the parts of a tick, for a spike of rate 1.

    neuron : per unit of size
    packet_out, packet_in, event, link : as in `chipsim.chip.time`
    barrier, begin : offsets of the bounds of neurons, and of all others
    delivery : `SYNAPSE`, `CORE` or `TREE`
    links : whether links bound a tick
    """

    neuron: float
    packet_out: float
    packet_in: float
    event: float
    link: float
    barrier: float
    begin: float
    delivery: int
    links: bool


class TickLoads(NamedTuple):
    """Bounds of all cores and links under a mapping.

    cycles : shape (3 + 4, cores): neurons, packets out, packets in with their events; then flits
        of the links to the east, west, south and north
    neurons : size of each vertex
    events : rate of the spikes that each vertex receives
    packets : outgoing packets of each net, see `TickNets`
    scale : shape (3,), 1 / maximum of cycles, price of a hop at rate 1, and price of cycles above
        the maximum; 0 if the norm is the price
    """

    cycles: Float64
    neurons: Float64
    events: Float64
    packets: Float64
    scale: Float64


@njit(cache=True, nogil=True)
def _add(loads, kind, core, cycles):
    """Add cycles to a bound; return the change of the price."""
    before = loads.cycles[kind, core]
    after = before + cycles
    loads.cycles[kind, core] = after
    return _price(loads, after) - _price(loads, before)


@njit(cache=True, nogil=True)
def _price(loads, cycles):
    """Return the price of a bound: its term of the norm, or its excess over the maximum."""
    x = cycles * loads.scale[0]
    if loads.scale[2] > 0:
        return loads.scale[2] * max(0.0, x - 1.0)
    x *= x
    x *= x
    x *= x
    return x * x


@njit(cache=True, nogil=True)
def _route(t, costs, loads, source, target, rate):
    """Add a packet from core to core along its route; return the change of the price."""
    far = along(t.x[source], t.x[target], t.round_x) + along(t.y[source], t.y[target], t.round_y)
    price = rate * loads.scale[1] * far
    if not costs.links:
        return price
    flits = rate * costs.link
    width = t.low.size
    at, x, y = np.int64(source), source % width, source // width
    end_x, end_y = target % width, target // width
    while x != end_x:
        east = end_x > x
        price += _add(loads, LINKS if east else LINKS + 1, at, flits)
        x += 1 if east else -1
        at += 1 if east else -1
    while y != end_y:
        south = end_y > y
        price += _add(loads, LINKS + 2 if south else LINKS + 3, at, flits)
        y += 1 if south else -1
        at += width if south else -width
    return price


@njit(cache=True, nogil=True)
def _source(t, costs, loads, e, core, sign):
    """Add the packets of a net from the core of its source, or remove them (sign -1)."""
    first, used = t.slot_start[e], t.used[e]
    rate = sign * float(t.weights[e])
    packets = float(used) if costs.delivery == CORE else loads.packets[e]
    price = _add(loads, OUT, core, rate * packets * costs.packet_out)
    for at in range(first, first + used):
        flits = float(t.slot_count[at]) if costs.delivery == SYNAPSE else 1.0
        price += _route(t, costs, loads, core, t.slot_part[at], rate * flits)
    return price


@njit(cache=True, nogil=True)
def _reach(t, costs, loads, home, core, rate):
    """Add a core that a net reaches, or remove it (negative rate)."""
    price = _route(t, costs, loads, home, core, rate)
    if costs.delivery == SYNAPSE:
        return price
    price += _add(loads, IN, core, rate * costs.packet_in)
    if costs.delivery == CORE:
        price += _add(loads, OUT, home, rate * costs.packet_out)
    return price


@njit(cache=True, nogil=True)
def move(t, costs, loads, v, b):
    """Move v to core b, and update all bounds; return the change of the price."""
    a = t.core[v]
    t.core[v] = b
    t.block_weights[a] -= t.sizes[v]
    t.block_weights[b] += t.sizes[v]
    size = loads.neurons[v] * costs.neuron
    each = costs.event + (costs.packet_in if costs.delivery == SYNAPSE else 0.0)
    events = loads.events[v] * each
    price = _add(loads, 0, a, -size) + _add(loads, 0, b, size)
    price += _add(loads, IN, a, -events) + _add(loads, IN, b, events)
    for i in range(t.vertex_start[v], t.vertex_start[v + 1]):
        e = t.nets[i]
        source = t.pins[t.start[e]]
        if source == v:
            price += _source(t, costs, loads, e, a, -1.0) + _source(t, costs, loads, e, b, 1.0)
            continue
        home, rate = t.core[source], float(t.weights[e])
        left = leave(t, e, a)
        if left or costs.delivery == SYNAPSE:
            price += _reach(t, costs, loads, home, a, -rate)
        comes = arrive(t, e, b)
        if comes or costs.delivery == SYNAPSE:
            price += _reach(t, costs, loads, home, b, rate)
    return price


@njit(cache=True, nogil=True)
def _count(t, costs, loads):
    """Compute all bounds of the mapping."""
    loads.cycles[0, :] = costs.barrier
    loads.cycles[1:, :] = costs.begin
    loads.scale[:] = 0.0
    for v in range(t.core.size):
        each = costs.event + (costs.packet_in if costs.delivery == SYNAPSE else 0.0)
        loads.cycles[0, t.core[v]] += loads.neurons[v] * costs.neuron
        loads.cycles[IN, t.core[v]] += loads.events[v] * each
    for e in range(t.weights.size):
        home = t.core[t.pins[t.start[e]]]
        _source(t, costs, loads, e, home, 1.0)
        if costs.delivery != SYNAPSE:
            for at in range(t.slot_start[e], t.slot_start[e] + t.used[e]):
                loads.cycles[IN, t.slot_part[at]] += float(t.weights[e]) * costs.packet_in


@njit(cache=True, nogil=True)
def _anneal(t, costs, loads, members, count, place, width, order, proposals, temperature, state):
    """Propose moves at one temperature.

    members, count, place : vertices of each core (rows with free places at the end), their number,
        and the position of each vertex in its row; changed in place
    order : usable cores, slowest first
    """
    some = max(1, order.size // SHARE)
    height = t.capacities.size // width
    for _ in range(proposals):
        v = next_random(state) % np.int64(t.core.size)
        if next_random(state) % 1024 < HOT:
            a = order[next_random(state) % some]
            if count[a] == 0:
                continue
            v = np.int64(members[a, next_random(state) % count[a]])
        a = t.core[v]
        if t.vertex_start[v] == t.vertex_start[v + 1] or next_random(state) % 1024 < COOL:
            b = np.int64(order[order.size - 1 - next_random(state) % some])
        else:
            b = np.int64(propose(t, v, width, height, state))
        if b < 0 or b == a or t.capacities[b] == 0:
            continue
        if t.block_weights[b] + t.sizes[v] <= t.capacities[b] and count[b] < members.shape[1]:
            if t.block_weights[a] - t.sizes[v] < t.least[a]:
                continue
            if not accepted(move(t, costs, loads, v, b), temperature, state):
                move(t, costs, loads, v, a)
                continue
            relocate(members, count, place, v, a, b)
        elif count[b] > 0:
            u = members[b, next_random(state) % count[b]]
            more = t.sizes[v] - t.sizes[u]
            if (
                t.block_weights[b] + more > t.capacities[b]
                or t.block_weights[a] - more > t.capacities[a]
                or t.block_weights[b] + more < t.least[b]
                or t.block_weights[a] - more < t.least[a]
            ):
                continue
            change = move(t, costs, loads, v, b)
            change += move(t, costs, loads, u, a)
            if not accepted(change, temperature, state):
                move(t, costs, loads, u, b)
                move(t, costs, loads, v, a)
                continue
            swap(members, place, v, a, u, b)


def tick_state(
    nets: TickNets, core: Int32, mesh: CoreMesh, costs: TickCosts
) -> tuple[Trees, TickLoads]:
    """Return the bounds of a mapping; they share its array of cores."""
    graph = nets.graph
    trees, _ = new_trees(graph, core, mesh, 0, False)
    loads = TickLoads(
        np.zeros((7, mesh.capacities.size)), nets.neurons.astype(np.float64), nets.events,
        nets.packets, np.zeros(3),
    )  # fmt: skip
    _count(trees, costs, loads)
    return trees, loads


def most_cycles(loads: TickLoads, costs: TickCosts) -> float:
    """Return the cycles of the slowest core or link."""
    return float(loads.cycles[: 7 if costs.links else LINKS].max())


class TickSchedule(NamedTuple):
    """Length and temperatures of annealing.

    steps : temperatures of each phase
    proposals : proposals at each temperature
    falling : first and last temperature while the maximum falls, in units of the slowest bound's
        term of the norm; all hops of the start together cost `hops` of these
    saving : first and last temperature while hops are saved, in hops of the mean spike
    """

    proposals: int
    steps: int = 10
    falling: tuple[float, float] = (1e-4, 1e-6)
    hops: float = 0.1
    saving: tuple[float, float] = (1.0, 0.05)


def anneal_ticks(
    nets: TickNets,
    core: Int32,
    mesh: CoreMesh,
    costs: TickCosts,
    schedule: TickSchedule,
    seed: int,
    stop: StopFlag | None = None,
) -> Int32:
    """Return the core of every vertex, in the best state at the end of a temperature.

    No core that is within its capacity is filled beyond it, and none gets below its least size.
    """
    graph = nets.graph
    trees, loads = tick_state(nets, core.copy(), mesh, costs)
    best, best_core = most_cycles(loads, costs), core.copy()
    if graph.net_count == 0 or schedule.proposals == 0:
        return best_core
    cores = members_of(core, mesh.capacities.size, SPARE)
    state = np.random.default_rng([seed, core.size]).integers(1, 1 << 62, 1).astype(np.uint64)
    usable = np.flatnonzero(mesh.capacities)

    def step(index: int, temperature: float) -> float:
        if stop is not None:
            stop.begin(f"temperature {index} of {2 * schedule.steps}")
        slowest = np.argsort(-loads.cycles[:LINKS, usable].max(axis=0), kind="stable")
        for some in slices(schedule.proposals, stop):
            _anneal(
                trees, costs, loads, *cores, mesh.width, usable[slowest], some, temperature, state
            )
        return most_cycles(loads, costs)

    hops = max(1.0, float(_hops(trees)))
    for index, temperature in enumerate(np.geomspace(*schedule.falling, schedule.steps), 1):
        loads.scale[:] = 1 / most_cycles(loads, costs), schedule.hops / hops, 0.0
        now = step(index, float(temperature))
        if now < best:
            best, best_core = now, trees.core.copy()
    # Recompute the sums, which have accumulated errors; from here a hop of the mean spike costs 1.
    trees, loads = tick_state(nets, best_core.copy(), mesh, costs)
    cores = members_of(best_core, mesh.capacities.size, SPARE)
    mean = max(1.0, float(graph.weights.mean()))
    least = _hops(trees)
    saving = np.geomspace(*schedule.saving, schedule.steps)
    for index, temperature in enumerate(saving, 1 + schedule.steps):
        loads.scale[:] = 1 / best, 1 / mean, ABOVE
        now = step(index, float(temperature))
        saved = total_hops(graph, trees.core, mesh, branches=False)
        if now <= best * (1 + DRIFT) and saved < least:
            least, best_core = saved, trees.core.copy()
    return best_core


@njit(cache=True, nogil=True)
def _hops(t):
    """Return the initial hops, with a packet to each core."""
    total = 0
    for e in range(t.weights.size):
        total += t.weights[e] * t.tree_cost[e]
    return total
