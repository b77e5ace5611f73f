"""How long a run will take, stage by stage, before it starts: processor time of all threads.

Entries times nanoseconds, as measured on one core of the machine of the benchmarks (cortices of 1,
4 and 32 million neurons, natural ids); other processors are as much faster or slower in all stages.
A look at a label takes longer the more of them there are, as fewer are in the caches: about so much
more for each doubling of the neurons above a million. Shuffled ids take longer still from some 10^8
neurons on.
"""

from __future__ import annotations

from math import log2

from chipsim.chip.model import Chip
from mapper.runtime.memory_plan import Plan, gathered_bytes, most_parts
from mapper.settings import Settings
from storage.store.network import NetworkFile

MILLION = 1 << 20  # neurons
READ = 22  # of a connection: inflated, decoded, both directions added, packed
CLUSTER = 9  # of a connection and round of label propagation
SAMPLE = 12  # of a connection: one look, which contracts
COARSE = 212  # of a connection of the sample: all levels in memory
CONTRACT = 20  # of a connection that is contracted into scratch
SORT = 80  # of a connection that is kept then
MOVE = 7.2  # of a connection and pass of refinement
SPLIT = 52  # of a connection: gathered once, and all bisections
GATHER = 4  # of a connection in each further pass of gathering
GROUPS = 9  # of a connection
SCORE = 27  # of a connection
PLACE = 380_000  # of a group, for up to `STANDARD` of them
STANDARD = 4096  # groups; for more the work of a placement grows with this power of them
GROWTH = 0.65
PASSES = 0.6  # of the passes over blocks that are allowed are made, if these were cut on one level
LAST_PASSES = 0.4  # of those over cores
MORE = {  # for each doubling of the neurons
    "read": 1.5, "cluster": 2.3, "move": 1.0, "groups": 1.2, "score": 5.0,
}  # fmt: skip
EDGES = 0.6  # connections on levels in scratch for each that the plan counts: parallel ones merge


def processor_seconds(
    network: NetworkFile, chip: Chip, settings: Settings, plan: Plan
) -> dict[str, float] | None:
    """Seconds of each stage; None for networks that are not cut into blocks.

    Without stages that look at nets or refine by hops: these have budgets of their own.
    """
    if plan.sample is None:
        return None
    m = min(network.connections, settings.degree * network.vertices)
    above = sum(plan.contractions)
    rounds = settings.cluster_rounds
    doublings = log2(max(1.0, network.vertices / MILLION))
    more = {name: doublings * step for name, step in MORE.items()}
    cluster, move = CLUSTER + more["cluster"], MOVE + more["move"]
    block_passes = settings.block_passes * (1.0 if above else PASSES)
    parts = most_parts(network, chip)
    batches = -(-gathered_bytes(network, settings) * m // plan.gathered)
    nanoseconds = {
        "read": (READ + more["read"]) * m,
        "coarsen": cluster * rounds * m,
        "initial partition": (SAMPLE + (CONTRACT if above else 0)) * m
        + above * (SORT + EDGES * (CLUSTER * rounds + SAMPLE))
        + COARSE * plan.sample.kept,
        "refine blocks": move * block_passes * m,
        "split blocks": (SPLIT + GATHER * (batches - 1)) * m,
        "uncoarsen and refine": move * max(1, LAST_PASSES * settings.refinement_passes) * m,
        "groups": (GROUPS + more["groups"]) * m,
        "placement": PLACE * parts * max(1.0, parts / STANDARD) ** (GROWTH - 1),
        "score": (SCORE + more["score"]) * network.connections,
    }
    return {stage: round(value / 1e9, 1) for stage, value in nanoseconds.items()}
