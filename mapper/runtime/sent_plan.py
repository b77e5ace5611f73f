"""What goes through the network and the shared folder in each stage, before a run starts.

The formulas follow what is sent: to each worker the state as a whole where a pass begins, then what
changes (`mapper.distributed.state_log`); from them their results (`mapper.distributed.sent`).
Numbers take as many bytes as packing finds for them. How many neurons want to move, and which
synapses stay near, only the run can tell: shares are those of sheets of cortex.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

from chipsim.chip.model import Chip
from mapper.runtime.memory_plan import most_parts
from mapper.runtime.plan import Plan
from mapper.runtime.sample import CLUSTERED, CLUSTERED_AGAIN
from mapper.settings import Settings
from storage.store.network import NetworkFile

GATHERED = 4  # ranges of blocks for each worker, one after the other, where all is scored
MOST_GATHERED = 1 << 29  # connections of such a range, so that its sums of pairs fit
TAKEN = 0.82  # of a sample of connections of clusters: thresholds are whole numbers, and clusters
# have some within
ENTRIES = 0.95  # of the connections, in rows: two between the same neurons are one
PASSES = 2  # of refinement, after which little moves, if there may be more
SIZE = 1  # bytes of the size of a neuron
GAP = 1  # of the place of one behind the one before that moves, too
JOINS, PROPOSALS = (
    0.84,
    0.89,
)  # neurons that join another cluster in all rounds, and that propose to
MOVED = {"refine blocks": 0.05, "uncoarsen and refine": 0.03, "refine by hops": 0.13}  # in a pass
WANTED = {"refine blocks": 0.115, "uncoarsen and refine": 0.1, "refine by hops": 0.25}
WANT = 4.5  # bytes of one that wants to: place, target, gain, heaviest connection
INNER = 0.75  # entries of rows that stay in their block
INNER_ENTRY = {False: 2.05, True: 2.85}  # packed bytes of one, whether ids are scattered or not
LEVEL_ENTRY = 2.6  # packed bytes of a connection between clusters, for rows of these
REPEATED = 1.5  # times the bytes of an entry of all rows: what repeats there does so here
FAR = 0.095  # synapses that go anywhere, and meet few others between the same cores
NEAR = 24  # other cores that most of a core's synapses go to
FEW = 255  # numbers below take a byte
SPARSE = 16  # of so many sums one is not zero: those alone are sent
PAIR = 6.0  # packed bytes of two groups with traffic, of a chunk
SWEPT_PAIR = 2.0  # bytes of two cores with traffic where all is scored: their place, and the sum
SWEPT_BYTES = 4  # packed, of a number that each core or router has in what a range gives
SWEPT_CORE = 3 + 5  # such numbers of a core: what it holds and does
SWEPT_LINKS, SWEPT_TURNS = 4, 8  # of a router: routes that begin and end there, and turn


class Sent(NamedTuple):
    """Bytes of a stage: sent to all workers, and by them, and what they write for each other."""

    to: int
    back: int
    shared: int


def ranges_for(connections: int, chunks: int, workers: int) -> int:
    """Ranges of chunks that workers gather from, which add up to all of them."""
    return min(chunks, max(GATHERED * workers, -(-connections // MOST_GATHERED)))


def plan_sent(
    network: NetworkFile, chip: Chip, settings: Settings, plan: Plan, count: int, summed: bool
) -> dict[str, Sent]:
    """By stage, of those that are looked at by `count` workers.

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
        "refine by hops": (min(hops, PASSES), core),
    }
    each = {
        "read": 0.0,
        "coarsen": rounds * (label + SIZE) + JOINS * (GAP + label),
        "initial partition": cluster + levels.to / n,
        "split blocks": block + 4,  # and the place of each in its block, not packed
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
    at_home = {"split blocks": n}  # sizes go where the part of each is at home, once
    return {
        name: Sent(
            int(each[name] * n * count + at_home.get(name, 0)),
            int(back[name]),
            int(shared.get(name, 0)),
        )
        for name in ("read", *plan.stages)
        if name in each
    }


def _levels_sent(n: int, plan: Plan, rounds: int) -> tuple[Sent, float]:
    """Of levels above that of `n` neurons, to one worker, and bytes of a cluster of the last one.

    Each is clustered in as many rounds as the neurons are, and what is kept of it goes to who has
    rows of the next.
    """
    to = back = 0.0
    vertices = n / CLUSTERED
    for _ in plan.contractions:
        label, above = packed_bytes(vertices), packed_bytes(vertices / CLUSTERED_AGAIN)
        to += (rounds * (label + SIZE) + JOINS * (GAP + label) + above) * vertices
        back += (1 + rounds * label + PROPOSALS * (GAP + label)) * vertices
        vertices /= CLUSTERED_AGAIN
    shared = LEVEL_ENTRY * sum(plan.contractions)
    return Sent(int(to), int(back), int(shared)), packed_bytes(vertices)


def packed_bytes(labels: float) -> float:
    """Bytes of a number below `labels`, any of which is as likely, among many that are packed.

    See `storage.scratch.packed`: numbers that do not fit are there twice, and cost more than that.
    """
    beyond = {size: max(0.0, 1 - (2 ** (8 * size) - 1) / labels) for size in (1, 2)}
    costs = {size: size + 16 * share for size, share in beyond.items()} | {4: 4.0}
    best = min(costs, key=lambda size: costs[size])
    return best + 4 * beyond.get(best, 0.0)


def _pairs(sources: float, parts: int, synapses: float) -> float:
    """Pairs of a source core among some and any other with traffic, of so many synapses."""
    every = max(1.0, sources * parts)
    near = min(NEAR, parts) * sources
    return min(every, near + every * (1 - exp(-FAR * synapses / every)))


def _matrix_bytes(network: NetworkFile, parts: int) -> float:
    """Of the sums of all pairs of parts, in one order."""
    every = parts * (parts + 1) / 2
    found = _pairs(parts / 2, parts, network.connections / 2)
    unit = _unit(network.meta.total_weight / every)
    if SPARSE * found <= every:
        return found * (GAP + unit)
    return unit * every + (4 - unit) * min(every, NEAR / 2 * parts)  # the largest follow on these


def _unit(mean: float) -> int:
    return 1 if mean < FEW else 2 if mean < FEW**2 else 4


def _scored_bytes(network: NetworkFile, chip: Chip, plan: Plan, parts: int, count: int) -> float:
    """Of what all ranges of blocks give: numbers of all cores and routers, and sums of pairs."""
    ranges = ranges_for(network.connections, network.block_count, count)
    columns, rows = chip.routers
    noted = 2 * SWEPT_LINKS  # of packets to cores and of trees; turns where the chip sends these
    noted += SWEPT_TURNS * ((chip.delivery != "synapse") + (chip.delivery == "tree"))
    swept = SWEPT_BYTES * (SWEPT_CORE * chip.cores + noted * columns * rows)
    sources = parts if plan.scattered else parts / ranges
    pairs = _pairs(sources, parts, network.connections / 2 / ranges)
    return ranges * (swept + SWEPT_PAIR * pairs)
