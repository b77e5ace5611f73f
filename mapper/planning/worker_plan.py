"""Memory and traffic of workers, estimated before a run starts.

Bytes are counted from the messages and arrays of the code, and checked against measurements
(scripts/bench_workers.py). Each worker receives the whole state at the start of a pass, then the
changes (`mapper.distributed.state_log`); workers send results (`mapper.executors.sent`). Numbers
take the packed size. The numbers of moving neurons and of local synapses are unknown before the
run: the shares are measured on sheets of cortex.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import NamedTuple

from chipsim.chip.model import Chip
from mapper.errors import DoesNotFitError
from mapper.planning.core_limits import CoreLimits
from mapper.planning.memory import (
    CORE_BYTES,
    LEAST_MATRICES,
    LEVEL_ROW_BYTES,
    MATRIX_BYTES,
    NEURON_BYTES_PER_THREAD,
    PAIR_BYTES,
    block_bytes,
    most_parts,
)
from mapper.planning.plan import Plan, megabytes
from mapper.planning.rounds import cut_passes, hop_rounds
from mapper.planning.sampling import CLUSTERED, CLUSTERED_AGAIN
from mapper.settings import Settings
from storage.store.network import RATE, NetworkFile

INTERPRETER = 280 << 20  # resident bytes: Python, Dask, the compiled kernels, and their libraries
TERMINATE = 0.95  # share of its memory above which a worker is terminated
# approximate entries per shard: a worker holds the results of one window at a time
SHARD_ENTRIES = 1 << 23
RESULT_BYTES = 8  # upper bound of bytes per entry in packed results
SECTION_BYTES = 6  # bytes per entry of a shard in a run file, packed, and while it is held
SORTED_CONNECTIONS = 1 << 19  # connections between clusters that are sorted and packed at a time
PIECE_BYTES = 80  # bytes per connection of a piece: two received for each one sorted and packed
MADE_BYTES = 48  # bytes per received connection while rows are built: as received, and sorted
LEAST_SHARDS = 256  # least number of shards, if there are as many chunks, for load balance
CUT_BYTES = 32  # bytes per entry of a block being cut: the rows, rows of a piece, coarse levels
RATE_BYTES = 8  # bytes per neuron with a firing rate, in scoring
HOME_BYTES = 32  # bytes per neuron on the worker that cuts its block
EXCHANGED_SHARE = 4  # 1/EXCHANGED_SHARE of a worker's memory is for rows received from others
NEURON_BYTES = {  # bytes per neuron and worker: arrays as received and as unpacked
    "read": 4,
    "coarsen": 4 + 8 + 8 + 8,  # labels, loads and sizes, and their packed form
    "initial partition": 8,
    "refine blocks": 4 + 8 + 8,
    "split blocks": 16,  # parts and ranks (not packed), and the vertices of home parts
    "uncoarsen and refine": 4 + 8 + 8,
    "groups": 8,
    "hop refinement": 4 + 8 + 8,
    "score": 4 + 4,  # plus rates, if there are any
}
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


def looked_at_here(settings: Settings, plan: Plan, chip: Chip, constrained: bool) -> str:
    """Return why workers cannot scan the rows of a network; an empty text if they can."""
    if settings.method == "classic":
        return "the preset classic runs in one process"
    if plan.nets_held:
        return f"objective {settings.objective} holds the nets in memory"
    if plan.levels or plan.held:
        return "the network is held in memory"
    if chip.core_limits:
        return "chips whose cores have unlike limits run in one process"
    if settings.bounds_fill:
        return "runs with min_fill or spread run in one process"
    return "networks with constraints run in one process" if constrained else ""


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """Workers of a run.

    count, threads : number of workers, and threads per worker
    memory : bytes that each worker needs, including the interpreter; driver : memory budget of the
        driver; disk : average bytes per worker, for its rows
    window, beside : parts of `memory`: least bytes for received rows in an exchange; everything
        else in a stage with an exchange
    sent : traffic by stage, in bytes
    """

    count: int
    threads: int
    memory: int
    driver: int
    disk: int
    window: int
    beside: int
    sent: dict[str, SentBytes]

    def shortage(self, given: int, host: str = "") -> str:
        """Return a message if a worker with `given` bytes has too little memory; else empty."""
        if self.memory <= given * TERMINATE:
            return ""
        need, where = int(self.memory / TERMINATE), f" on {host}" if host else ""
        return (
            f"each worker needs {megabytes(need)}, one{where} has {megabytes(given)} "
            f"({megabytes(need - given)} short); give --worker-memory {-(-need // (1 << 20))}MiB"
            + (", or fewer --worker-threads" if self.threads > 1 else "")
        )

    def require(self, limits: list[tuple[str, int]]) -> None:
        """Raise `DoesNotFitError` if a worker has too little memory.

        limits : host and bytes of each worker, 0 if unknown
        """
        for host, given in limits:
            if given and (short := self.shortage(given, host)):
                raise DoesNotFitError(f"--workers: {short}")

    def exchanged(self, limits: list[tuple[str, int]], together: int = 1) -> int:
        """Return the bytes of rows that a worker may hold in an exchange.

        limits : as above; together : number of workers that share one limit
        """
        known = [given // together for _, given in limits if given]
        if not known:
            return self.window
        left = int(TERMINATE * min(known)) - self.beside
        return max(self.window, min(min(known) // EXCHANGED_SHARE, left))

    def facts(self, given: int | None) -> dict[str, object]:
        """Return the plan as JSON; given : bytes per worker, if known."""
        return {
            "count": self.count,
            "threads": self.threads,
            "memory": self.memory,
            "given": given,
            "driver": self.driver,
            "disk": self.disk,
            "stages": [
                {
                    "name": name,
                    "bytes_to": sent.to,
                    "bytes_from": sent.back,
                    "bytes_shared": sent.shared,
                }
                for name, sent in self.sent.items()
            ],
        }


def plan_workers(
    network: NetworkFile, chip: CoreLimits, settings: Settings, plan: Plan, count: int, threads: int
) -> WorkerPlan:
    """Return the plan of workers for a run that streams its network; plan : of the driver."""
    settings = settings.resolved(chip.delivery)
    n = network.vertices
    m = min(network.connections, settings.degree * n)
    parts = most_parts(network, chip)
    chunk = block_bytes(network)
    at_work = threads * chunk
    window = RESULT_BYTES * min(SHARD_ENTRIES, m)
    scratch = threads * NEURON_BYTES_PER_THREAD * n
    names = [name for name in NEURON_BYTES if name == "read" or name in plan.stages]
    matrix = MATRIX_BYTES * parts * parts
    summed = LEAST_MATRICES * matrix <= plan.summed  # otherwise pairs are sent chunk by chunk
    totals = matrix * threads + matrix // 4
    stages = {name: NEURON_BYTES[name] * n + at_work + window for name in names}
    stages["coarsen"] += scratch
    section = SECTION_BYTES * min(SHARD_ENTRIES, m // LEAST_SHARDS)
    block = int(CUT_BYTES * INNER * m / n * min(n, settings.block_vertices))
    stages["split blocks"] += threads * max(0, max(section, block) - chunk)
    stages["split blocks"] += HOME_BYTES * n // count
    if summed:
        stages["groups"] += totals - window
    ranges = ranges_for(network.connections, network.block_count, count)
    pairs = min(network.connections // (2 * ranges), parts * parts)  # upper bound per range
    stages["score"] += PAIR_BYTES * pairs + CORE_BYTES * chip.cores * threads - window
    stages["score"] += RATE_BYTES * n if RATE in network.meta.attributes else 0
    beside = stages["split blocks"] - window
    levels = _plan_levels(network, plan, m, threads)
    if plan.contractions:
        beside = max(beside, levels.neurons + at_work)
        need = levels.neurons + at_work + max(window, levels.sending)
        stages["initial partition"] = max(stages["initial partition"], need)
    sent = plan_sent(network, chip, settings, plan, count, summed)
    disk = (plan.rows + levels.disk) // count
    return WorkerPlan(
        count, threads, INTERPRETER + max(stages.values()), plan.memory, disk, window,
        INTERPRETER + beside, sent,
    )  # fmt: skip


class _Levels(NamedTuple):
    """Bytes for levels of clusters above the neurons.

    neurons : state of a worker; sending : of a worker, while connections are packed
    disk : of all workers
    """

    neurons: int = 0
    sending: int = 0
    disk: int = 0


def _plan_levels(network: NetworkFile, plan: Plan, m: int, threads: int) -> _Levels:
    """m : number of connections that are read"""
    if not plan.contractions:
        return _Levels()
    n = network.vertices
    vertices = [n / CLUSTERED / CLUSTERED_AGAIN**depth for depth in range(len(plan.contractions))]
    at_once = sum(vertices[:2])  # a level is deleted once the next one exists
    shards = min(network.block_count, max(LEAST_SHARDS, m // SHARD_ENTRIES))
    sent = 2 * plan.contractions[0] // max(1, shards)  # by a shard, with some slack
    scratch = threads * NEURON_BYTES_PER_THREAD * vertices[0]
    return _Levels(
        int(4 * n + NEURON_BYTES["coarsen"] * at_once + scratch),
        threads * PIECE_BYTES * min(SORTED_CONNECTIONS, sent) + SECTION_BYTES * sent,
        int(LEVEL_ROW_BYTES * sum(plan.contractions[:2])),
    )


def ranges_for(connections: int, chunks: int, workers: int) -> int:
    """Return the number of consecutive chunk ranges in a gather on workers."""
    return min(chunks, max(GATHERED * workers, -(-connections // MOST_GATHERED)))


def plan_sent(
    network: NetworkFile, chip: CoreLimits, settings: Settings, plan: Plan, count: int, summed: bool
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
    hops, _ = hop_rounds(settings, ENTRIES * m)
    passes = {
        "refine blocks": (min(settings.block_passes, PASSES), block),
        "uncoarsen and refine": (min(cut_passes(settings, ENTRIES * m), PASSES), part),
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


def _scored_bytes(
    network: NetworkFile, chip: CoreLimits, plan: Plan, parts: int, count: int
) -> float:
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
