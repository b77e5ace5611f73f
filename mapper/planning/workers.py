"""Memory and traffic of workers, estimated before a run starts.

Bytes are counted from the messages and arrays of the code, and checked against measurements
(scripts/bench_workers.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from chipsim.chip.model import Chip
from mapper.errors import DoesNotFitError
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
from mapper.planning.sampling import CLUSTERED, CLUSTERED_AGAIN
from mapper.planning.traffic import INNER, SentBytes, plan_sent, ranges_for
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
    network: NetworkFile, chip: Chip, settings: Settings, plan: Plan, count: int, threads: int
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
