"""Estimated traffic on the network and in the shared folder, per stage.

The formulas follow the protocol: each worker receives the whole state at the start of a pass, then
the changes (`mapper.distributed.state_log`); workers send results (`mapper.executors.sent`).
Numbers take the packed size. The numbers of moving neurons and of local synapses are unknown before
the run: the shares are measured on sheets of cortex.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

from chipsim.chip.model import Chip
from mapper.planning.memory import most_parts
from mapper.planning.plan import Plan
from mapper.planning.sampling import CLUSTERED, CLUSTERED_AGAIN
from mapper.settings import Settings
from storage.store.network import NetworkFile

GATHERED = 4  # consecutive ranges of blocks per worker in scoring
MOST_GATHERED = 1 << 29  # connections per range, so that its sums of pairs fit in memory
# share of a sample of connections between clusters: thresholds are integers, and some connections
# are within clusters
TAKEN = 0.82
ENTRIES = 0.95  # row entries per connection: parallel connections are merged
PASSES = 2  # passes of refinement, after which little moves, even if more are allowed
SIZE = 1  # bytes per size of a neuron
GAP = 1  # bytes per gap between moving neurons
# per neuron, in all rounds: moves to another cluster, and proposals
JOINS, PROPOSALS = (0.84, 0.89)
# share of neurons that move, and that propose to, per pass
MOVED = {"refine blocks": 0.05, "uncoarsen and refine": 0.03, "hop refinement": 0.13}
WANTED = {"refine blocks": 0.115, "uncoarsen and refine": 0.1, "hop refinement": 0.25}
WANT = 4.5  # bytes per proposal: place, target, gain, heaviest connection
INNER = 0.75  # share of entries within their block
INNER_ENTRY = {False: 2.05, True: 2.85}  # packed bytes per inner entry, by `scattered`
LEVEL_ENTRY = 2.6  # packed bytes per connection between clusters, for the exchange of rows
REPEATED = 1.5  # ratio to the bytes per entry of all rows: repetitions occur here as well
FAR = 0.095  # share of long-range synapses, which rarely share their pair of cores
NEAR_CORES = 24  # other cores that most synapses of a core lead to
BYTE_MOST = 255  # smaller numbers take one byte
SPARSE = 16  # ratio of all sums to nonzero ones above which only the latter are sent
PAIR = 6.0  # packed bytes per pair of groups with traffic, per chunk
SWEPT_PAIR = 2.0  # bytes per pair of cores with traffic in scoring: place and sum
SWEPT_BYTES = 4  # packed bytes per number and core or router in the result of a range
SWEPT_CORE = 3 + 5  # numbers per core: contents and activity
SWEPT_LINKS, SWEPT_TURNS = 4, 8  # numbers per router: routes that begin and end there, and turn


class SentBytes(NamedTuple):
    """Bytes per stage: sent to all workers, sent by them, and written for each other."""

    to: int
    back: int
    shared: int


def ranges_for(connections: int, chunks: int, workers: int) -> int:
    """Return the number of consecutive chunk ranges in a gather on workers."""
    return min(chunks, max(GATHERED * workers, -(-connections // MOST_GATHERED)))


def plan_sent(
    network: NetworkFile, chip: Chip, settings: Settings, plan: Plan, count: int, summed: bool
) -> dict[str, SentBytes]:
    """Return the traffic by stage, for the stages that run on `count` workers.

    summed : groups are summed in matrices, not chunk by chunk
    """
    n, parts = network.vertices, most_parts(network, chip)
    m = min(network.connections, settings.degree * n)
    rounds = settings.cluster_rounds
    label, cluster = packed_bytes(n), packed_bytes(n / CLUSTERED)
    levels, last = _levels_sent(n, plan, rounds)
    block, part, core = map(packed_bytes, (n / settings.block_vertices, parts, chip.cores))
    hops = min(settings.hop_passes, int(settings.hop_budget // max(1.0, ENTRIES * m)))
    passes = {
        "refine blocks": (min(settings.block_passes, PASSES), block),
        "uncoarsen and refine": (min(settings.refinement_passes, PASSES), part),
        "hop refinement": (min(hops, PASSES), core),
    }
    each = {
        "read": 0.0,
        "coarsen": rounds * (label + SIZE) + JOINS * (GAP + label),
        "initial partition": cluster + levels.to / n,
        "split blocks": block + 4,  # and the unpacked place of each vertex in its block
        "groups": part,
        "score": core,
    }
    kept = min(plan.sampled, settings.coarse_degree * n / CLUSTERED, m)
    if plan.sample is not None and plan.contractions:
        kept = plan.sample.kept
    back = {
        "read": n,
        "coarsen": (rounds * 4 + PROPOSALS * (GAP + label)) * n,
        "initial partition": n + (last + 1) * TAKEN * kept + levels.back,
        "split blocks": n,
        "groups": count * _matrix_bytes(network, parts) if summed else PAIR * min(parts**2, m),
        "score": _scored_bytes(network, chip, plan, parts, count),
    }
    for name, (some, label) in passes.items():
        each[name] = some * (label + SIZE + MOVED[name] * (GAP + label))
        back[name] = some * WANT * WANTED[name] * n
    entry = min(INNER_ENTRY[plan.scattered], REPEATED * plan.rows / max(1, m))
    shared = {"split blocks": INNER * entry * m, "initial partition": levels.shared}
    at_home = {"split blocks": n}  # sizes are sent once, to the home of each part
    return {
        name: SentBytes(
            int(each[name] * n * count + at_home.get(name, 0)),
            int(back[name]),
            int(shared.get(name, 0)),
        )
        for name in ("read", *plan.stages)
        if name in each
    }


def _levels_sent(n: int, plan: Plan, rounds: int) -> tuple[SentBytes, float]:
    """Return the traffic of levels above the neurons per worker, and bytes per label of the last.

    Each level is clustered in as many rounds as the neurons, and its kept connections are sent to
    the owners of the rows of the next level.
    """
    to = back = 0.0
    vertices = n / CLUSTERED
    for _ in plan.contractions:
        label, above = packed_bytes(vertices), packed_bytes(vertices / CLUSTERED_AGAIN)
        to += (rounds * (label + SIZE) + JOINS * (GAP + label) + above) * vertices
        back += (1 + rounds * label + PROPOSALS * (GAP + label)) * vertices
        vertices /= CLUSTERED_AGAIN
    shared = LEVEL_ENTRY * sum(plan.contractions)
    return SentBytes(int(to), int(back), int(shared)), packed_bytes(vertices)


def packed_bytes(labels: float) -> float:
    """Return the packed bytes per uniformly distributed number below `labels`.

    See `storage.scratch.packed`: numbers that do not fit a unit are stored twice and cost more.
    """
    beyond = {size: max(0.0, 1 - (2 ** (8 * size) - 1) / labels) for size in (1, 2)}
    costs = {size: size + 16 * share for size, share in beyond.items()} | {4: 4.0}
    best = min(costs, key=lambda size: costs[size])
    return best + 4 * beyond.get(best, 0.0)


def _pairs(sources: float, parts: int, synapses: float) -> float:
    """Return the expected number of core pairs with traffic, for some source cores."""
    every = max(1.0, sources * parts)
    near = min(NEAR_CORES, parts) * sources
    return min(every, near + every * (1 - exp(-FAR * synapses / every)))


def _matrix_bytes(network: NetworkFile, parts: int) -> float:
    """Return the bytes of the sums of all pairs of parts, in one order."""
    every = parts * (parts + 1) / 2
    found = _pairs(parts / 2, parts, network.connections / 2)
    unit = _unit(network.meta.total_weight / every)
    if SPARSE * found <= every:
        return found * (GAP + unit)
    # the largest sums follow separately
    return unit * every + (4 - unit) * min(every, NEAR_CORES / 2 * parts)


def _unit(mean: float) -> int:
    return 1 if mean < BYTE_MOST else 2 if mean < BYTE_MOST**2 else 4


def _scored_bytes(network: NetworkFile, chip: Chip, plan: Plan, parts: int, count: int) -> float:
    """Return the bytes of the results of all ranges in scoring: per core, per router, per pair."""
    ranges = ranges_for(network.connections, network.block_count, count)
    columns, rows = chip.routers
    # for packets to cores and trees; turns are counted if the chip sends these
    noted = 2 * SWEPT_LINKS
    noted += SWEPT_TURNS * ((chip.delivery != "synapse") + (chip.delivery == "tree"))
    swept = SWEPT_BYTES * (SWEPT_CORE * chip.cores + noted * columns * rows)
    sources = parts if plan.scattered else parts / ranges
    pairs = _pairs(sources, parts, network.connections / 2 / ranges)
    return ranges * (swept + SWEPT_PAIR * pairs)
