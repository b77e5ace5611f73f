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
    LEVEL_ROW_BYTES,
    MATRIX_BYTES,
    NEURON_BYTES_PER_THREAD,
    PAIR_BYTES,
    block_bytes,
    most_parts,
)
from mapper.runtime.plan import Plan, megabytes
from mapper.runtime.sample import CLUSTERED, CLUSTERED_AGAIN
from mapper.runtime.sent_plan import INNER, Sent, plan_sent, ranges_for
from mapper.settings import Settings
from storage.store.network import RATE, NetworkFile

INTERPRETER = 280 << 20  # resident: Python, the engine, the compiled kernels, and their libraries
TERMINATE = 0.95  # of its memory, above which a worker is ended
SHARD_ENTRIES = 1 << 23  # of a shard, about: a worker holds the results of so many at a time
RESULT_BYTES = 8  # of an entry in packed results, at most
SECTION_BYTES = 6  # of an entry of a shard in a run file, packed, and as it is held
PIECE = 1 << 19  # connections between clusters that are sorted and packed at a time
PIECE_BYTES = 80  # of one of these: two of them as they come, for each that is sorted and packed
MADE_BYTES = 48  # of one that others have sent, while rows are made of it: as it came, and sorted
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


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """Workers of a run.

    count, threads : how many workers, and threads of each
    memory : bytes that each needs, with what it takes to run at all; driver : that the driver plans
        with; disk : that each needs on average, for its rows
    window, beside : of the former, for what comes from others in an exchange, at least, and for all
        else in a stage that has one
    sent : bytes by stage
    """

    count: int
    threads: int
    memory: int
    driver: int
    disk: int
    window: int
    beside: int
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
        left = int(TERMINATE * min(known)) - self.beside
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
    """Bytes for levels of clusters above that of the neurons.

    neurons : state of a worker; sending : of a worker, while connections are packed
    disk : of all workers
    """

    neurons: int = 0
    sending: int = 0
    disk: int = 0


def _plan_levels(network: NetworkFile, plan: Plan, m: int, threads: int) -> _Levels:
    """m : connections of the network that are looked at."""
    if not plan.contractions:
        return _Levels()
    n = network.vertices
    vertices = [n / CLUSTERED / CLUSTERED_AGAIN**depth for depth in range(len(plan.contractions))]
    at_once = sum(vertices[:2])  # a level goes when the next one is there
    shards = min(network.block_count, max(LEAST_SHARDS, m // SHARD_ENTRIES))
    sent = 2 * plan.contractions[0] // max(1, shards)  # by a shard, with some slack
    scratch = threads * NEURON_BYTES_PER_THREAD * vertices[0]
    return _Levels(
        int(4 * n + NEURON_BYTES["coarsen"] * at_once + scratch),
        threads * PIECE_BYTES * min(PIECE, sent) + SECTION_BYTES * sent,
        int(LEVEL_ROW_BYTES * sum(plan.contractions[:2])),
    )
