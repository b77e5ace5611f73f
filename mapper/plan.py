"""What a run will need, stage by stage, before it starts; and how it uses the memory it may have.

The numbers are upper estimates of bytes for each neuron, connection and thread, counted from the
arrays that are alive together in a stage and compared with measured peaks (scripts/bench_scale.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from chipsim.chip import Chip
from mapper.errors import DoesNotFitError
from mapper.partition.groups import MATRIX_BYTES
from mapper.partition.groups import PAIR_BYTES as GROUP_BYTES
from mapper.settings import Settings
from storage.network import NetworkFile
from storage.sorter import BYTES_PER_ENTRY

INTERPRETER = 190 << 20  # Python, numba and the compiled kernels, measured
BLOCK_BYTES = 64  # of a connection in a block at work: inflated, decoded, narrowed, results
HELD_BYTES = 8  # of a connection in memory: id and weight
NEURON_BYTES = {  # arrays of one entry a neuron that are alive together
    "coarsen": 44,
    "initial partition": 64,
    "refine blocks": 28,
    "split blocks": 64,
    "groups": 24,
    "score": 24,
}
NEURON_BYTES_PER_THREAD = 8  # scratch of label propagation
PAIR_BYTES = 8  # of two groups with traffic, while traffic is measured
PLACER_BYTES = 28  # of the same while groups are placed
CORE_BYTES = 120  # of a core and thread while traffic is measured
SCRATCH_BYTES = 3.6  # of a connection in a zstd block, ids in random order
FILL = 0.97  # of the capacity that cores have on average
STEP_BYTES = 24  # of a neuron in the steps that are kept for `--resume`, compressed
CLASSIC_SHRINK = 0.85  # connections that a round of pairing leaves where there is little structure
CLASSIC_CSR = 12


@dataclass(frozen=True, slots=True)
class Plan:
    """Bytes that each stage needs, and how the memory is shared out.

    budget : what `--memory` allows; stages : peak of each, by name
    scratch, sorting : bytes on disk, the latter only while something is sorted
    held : the whole network is held in memory instead of streamed from scratch
    sampled : connections between clusters that are kept; gathered : bytes for rows of blocks
    grouped : bytes for sums of the traffic between groups
    """

    budget: int
    stages: dict[str, int]
    scratch: int
    sorting: int
    held: bool
    sampled: int
    gathered: int
    grouped: int

    @property
    def memory(self) -> int:
        """The largest of all stages."""
        return max(self.stages.values())

    def require(self) -> None:
        """Raise `DoesNotFitError` if a stage needs more memory than there may be."""
        stage = max(self.stages, key=lambda name: self.stages[name])
        if self.stages[stage] > self.budget:
            raise DoesNotFitError(
                f"the stage {stage!r} needs {megabytes(self.stages[stage])}, --memory is "
                f"{megabytes(self.budget)}: {megabytes(self.stages[stage] - self.budget)} too "
                "little; give more memory or fewer threads"
            )


def megabytes(size: int) -> str:
    return f"{-(-size // (1 << 20)):,} MiB"


def make_plan(network: NetworkFile, chip: Chip, settings: Settings) -> Plan:
    """The plan of a run."""
    if settings.method == "classic":
        return _plan_classic(network, settings)
    return _plan_streamed(network, chip, settings)


def _block_bytes(network: NetworkFile, settings: Settings) -> int:
    """All blocks at work: a connection takes two bytes in a block at least, usually three."""
    entries = min(network.connections, network.meta.largest_block_bytes // 2)
    return settings.threads * BLOCK_BYTES * entries


def _plan_streamed(network: NetworkFile, chip: Chip, settings: Settings) -> Plan:
    n, m, threads = network.vertices, network.connections, settings.threads
    blocks = _block_bytes(network, settings)
    base = INTERPRETER + blocks
    neurons = {name: size * n for name, size in NEURON_BYTES.items()}
    neurons["coarsen"] += NEURON_BYTES_PER_THREAD * threads * n
    free = settings.memory_bytes - base - max(neurons.values())
    # Held in memory the rows may take half of what is free, so that samples and blocks fit beside.
    held = HELD_BYTES * m <= free // 2
    rows = HELD_BYTES * m if held else 0
    # A sample is there twice while it is added up, and its levels and gathered rows lie beside it.
    left = max(free - rows, 0)
    sampled = max(1 << 16, min(m, left // (4 * HELD_BYTES)))
    inner = min(HELD_BYTES * m, left)
    gathered = max(1 << 22, min(inner, left * 3 // 4))
    cores = max(1, min(chip.usable_count, n))
    parts = min(cores, -(-network.meta.total_size // max(1, int(chip.neurons * FILL))))
    grouped = max(1 << 24, left * 2 // 3)
    matrices = MATRIX_BYTES * parts * parts * (threads + 1)
    sums = matrices if matrices <= grouped else min(grouped, GROUP_BYTES * m)
    pairs = min(m, parts * parts, grouped // PLACER_BYTES)
    stages = {name: base + rows + size for name, size in neurons.items()}
    stages["initial partition"] += 4 * HELD_BYTES * min(sampled, settings.coarse_degree * n)
    stages["split blocks"] += gathered
    stages["groups"] += sums
    stages["placement"] = INTERPRETER + 12 * n + PLACER_BYTES * pairs
    stages["score"] += PAIR_BYTES * pairs + CORE_BYTES * chip.cores * threads
    if chip.synapses is not None:
        stages["check"] = base + 40 * n
    return Plan(
        settings.memory_bytes,
        stages,
        int((0 if held else SCRATCH_BYTES * m) + STEP_BYTES * n),
        0,
        held,
        sampled,
        gathered,
        grouped,
    )


def _plan_classic(network: NetworkFile, settings: Settings) -> Plan:
    """Coarsening by pairs with a limit of 1/15 of a core leaves a few tenths of the connections
    for the coarsest graph, which is held in memory whatever the budget."""
    n, m = network.vertices, network.connections
    base = INTERPRETER + 3 * _block_bytes(network, settings)
    budget = settings.memory_bytes // 4
    sort = min(budget, BYTES_PER_ENTRY * m)
    coarsest = int(3 * CLASSIC_CSR * CLASSIC_SHRINK**4 * m)
    stages = {
        "coarsen": base + (4 * settings.matching_repeats + 64) * n + sort,
        "initial partition": base + 64 * n + coarsest,
        "uncoarsen and refine": base + 64 * n,
        "groups": base + 24 * n + sort,
    }
    scratch = int(SCRATCH_BYTES * m * CLASSIC_SHRINK / (1 - CLASSIC_SHRINK))
    spilled = 16 * m if BYTES_PER_ENTRY * m > budget else 0
    return Plan(settings.memory_bytes, stages, scratch, spilled, False, 0, 0, 0)
