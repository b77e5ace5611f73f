"""What workers will need, and what goes through the network, before a run starts.

Bytes are counted from what the code sends and holds, and compared with measured ones
(scripts/bench_workers.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from chipsim.chip.model import Chip
from mapper.errors import DoesNotFitError
from mapper.runtime.memory_plan import (
    CORE_BYTES,
    LEAST_MATRICES,
    MATRIX_BYTES,
    NEURON_BYTES_PER_THREAD,
    PAIR_BYTES,
    Plan,
    block_bytes,
    megabytes,
    most_parts,
)
from mapper.runtime.sample import CLUSTERED
from mapper.settings import Settings
from storage.store.network import RATE, NetworkFile

INTERPRETER = 280 << 20  # resident: Python, the engine, the compiled kernels, and their libraries
TERMINATE = 0.95  # of its memory, above which a worker is ended
SHARD_ENTRIES = 1 << 23  # of a shard, about: a worker holds the results of so many at a time
RESULT_BYTES = 8  # of an entry in packed results, at most
SECTION_BYTES = 6  # of an entry of a shard in a run file, packed, and as it is held
LEAST_SHARDS = 256  # where there are as many chunks, so that workers have about the same
CUT_BYTES = 32  # of an entry of a block that is cut: the rows, those of a piece, coarse levels
RATE_BYTES = 8  # of a neuron that has a firing rate, where all is scored
HOME_BYTES = 32  # of a neuron on the worker where its block is cut
EXCHANGED_SHARE = 4  # this part of a worker's memory is for rows that come from others
NEURON_BYTES = {  # of a worker: arrays of one entry a neuron, as they come and as they are
    "read": 4,
    "coarsen": 4 + 8 + 8 + 8,  # labels, loads and sizes, and the packed ones they come in
    "initial partition": 8,
    "refine blocks": 4 + 8 + 8,
    "split blocks": 16,  # parts and ranks, the latter not packed, and whose parts are at home
    "uncoarsen and refine": 4 + 8 + 8,
    "groups": 8,
    "refine by hops": 4 + 8 + 8,
    "score": 4 + 4,  # and rates, if there are any
}
TO_EACH = {  # bytes of a neuron to each worker: a whole state or more, and what changes
    "coarsen": 3 * (4 + 1) + 5 * 0.84,
    "initial partition": 4,
    "refine blocks": 3 * 2 + 4 * 0.2,
    "split blocks": 2 + 4,
    "uncoarsen and refine": 2 * 4 + 4 * 0.31,
    "groups": 2,
    "refine by hops": 2 * 4 + 4 * 0.31,
}
FROM_ALL = {  # bytes of a neuron from all workers: wishes, tables of moves, degrees
    "read": 1,
    "coarsen": 3 * 4 + 5 * 0.89,
    "initial partition": 1,
    "refine blocks": 8 * 0.25,
    "split blocks": 1,
    "uncoarsen and refine": 8 * 0.3,
    "groups": 0,
    "refine by hops": 8 * 0.3,
    "score": 0,
}
INNER = 0.57  # entries of rows that stay in their block, where ids are in natural order
ENTRY = 3.2  # packed bytes of an entry that is sent
INNER_ENTRY = 2.75  # of one that goes through the shared folder: places within a block are small
PAIR = 6.0  # packed bytes of two groups with traffic
GATHERED = 4  # ranges of blocks for each worker, one after the other, where all is scored
MOST_GATHERED = 1 << 29  # connections of such a range, so that its sums of pairs fit
SWEPT_PAIR = 4.0  # bytes of two cores with traffic in these sums
SWEPT_BYTES = 4  # packed, of a number that each core or router has in what a range gives
SWEPT_CORE = 3 + 5  # such numbers of a core: what it holds and does
SWEPT_LINKS, SWEPT_TURNS = 4, 8  # of a router: routes that begin and end there, and turn


def ranges_for(connections: int, chunks: int, workers: int) -> int:
    """Ranges of chunks that workers gather from, which add up to all of them."""
    return min(chunks, max(GATHERED * workers, -(-connections // MOST_GATHERED)))


class Sent(NamedTuple):
    """Bytes of a stage: sent to all workers, and by them, and what they write for each other."""

    to: int
    back: int
    shared: int


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """Workers of a run.

    count, threads : how many workers, and threads of each
    memory : bytes that each needs, with what it takes to run at all; driver : that the driver plans
        with; disk : that each needs on average, for its rows
    window, splitting : of the former, for what comes from others while blocks are split, at least,
        and for all else in that stage
    sent : bytes by stage
    """

    count: int
    threads: int
    memory: int
    driver: int
    disk: int
    window: int
    splitting: int
    sent: dict[str, Sent]

    def shortage(self, given: int, host: str = "") -> str:
        """What a worker with so many bytes of memory is short of; empty if it is not."""
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

        limits : host and bytes of each worker, 0 where nobody says
        """
        for host, given in limits:
            if given and (short := self.shortage(given, host)):
                raise DoesNotFitError(f"--workers: {short}")

    def exchanged(self, limits: list[tuple[str, int]], together: int = 1) -> int:
        """Bytes of rows that a worker may hold in an exchange.

        limits : as above; together : workers that have the memory of one of these
        """
        known = [given // together for _, given in limits if given]
        if not known:
            return self.window
        left = int(TERMINATE * min(known)) - self.splitting
        return max(self.window, min(min(known) // EXCHANGED_SHARE, left))

    def facts(self, given: int | None) -> dict[str, object]:
        """For JSON; given : bytes of a worker, if they are known."""
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
    network: NetworkFile, chip: Chip, settings: Settings, plan: Plan, count: int, threads: int
) -> WorkerPlan:
    """The plan of workers for a run that streams its network; plan : of the driver."""
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
    summed = LEAST_MATRICES * matrix <= plan.summed  # else pairs come chunk by chunk
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
    pairs = min(network.connections // (2 * ranges), parts * parts)  # of a range, at most
    stages["score"] += PAIR_BYTES * pairs + CORE_BYTES * chip.cores * threads - window
    stages["score"] += RATE_BYTES * n if RATE in network.meta.attributes else 0
    sent = {}
    clusters = n / CLUSTERED
    extra = {
        "initial partition": ENTRY * min(plan.sampled, settings.coarse_degree * clusters, m),
        "groups": PAIR * min(parts * parts, m) * (count if summed else 1),
        "score": ranges * (_swept_bytes(chip) + SWEPT_PAIR * pairs),
    }
    for name in names:
        each = TO_EACH.get(name, 0.0) if name != "score" else _label_bytes(chip.cores)
        to, back = each * n * count, FROM_ALL[name] * n + extra.get(name, 0.0)
        to += n if name == "split blocks" else 0  # sizes, to where the part of each is at home
        shared = INNER * INNER_ENTRY * m if name == "split blocks" else 0.0
        sent[name] = Sent(int(to), int(back), int(shared))
    rows = plan.rows // count
    splitting = INTERPRETER + stages["split blocks"] - window
    return WorkerPlan(
        count, threads, INTERPRETER + max(stages.values()), plan.memory, rows, window, splitting,
        sent,
    )  # fmt: skip


def _label_bytes(labels: int) -> int:
    """Of one of so many labels, packed (`storage.scratch.packed`)."""
    return 1 if labels < 2**8 else 2 if labels < 2**16 else 4


def _swept_bytes(chip: Chip) -> int:
    """What a range of blocks gives of all cores and routers, packed."""
    columns, rows = chip.routers
    noted = 2 * SWEPT_LINKS  # of packets to cores and of trees; turns where the chip sends these
    noted += SWEPT_TURNS * ((chip.delivery != "synapse") + (chip.delivery == "tree"))
    return SWEPT_BYTES * (SWEPT_CORE * chip.cores + noted * columns * rows)
