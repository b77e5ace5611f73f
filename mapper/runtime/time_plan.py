"""How long a run will take, stage by stage, before it starts: processor time of all threads.

Entries times nanoseconds, as measured on one core of the machine of the benchmarks (a cortex of
1,048,576 neurons, 52 million synapses, natural ids); other processors are as much faster or slower
in all stages. Shuffled ids take longer from some 10^8 neurons on, where labels outgrow the caches.
"""

from __future__ import annotations

from chipsim.chip.model import Chip
from mapper.runtime.memory_plan import Plan, gathered_bytes, most_parts
from mapper.settings import Settings
from storage.store.network import NetworkFile

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
PLACE = 380_000  # of a group
PASSES = 0.6  # of the passes of refinement that are allowed are made
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
    batches = -(-gathered_bytes(network, settings) * m // plan.gathered)
    nanoseconds = {
        "read": READ * m,
        "coarsen": CLUSTER * rounds * m,
        "initial partition": (SAMPLE + (CONTRACT if above else 0)) * m
        + above * (SORT + EDGES * (CLUSTER * rounds + SAMPLE))
        + COARSE * plan.sample.kept,
        "refine blocks": MOVE * PASSES * settings.block_passes * m,
        "split blocks": (SPLIT + GATHER * (batches - 1)) * m,
        "uncoarsen and refine": MOVE * max(1, PASSES * settings.refinement_passes) * m,
        "groups": GROUPS * m,
        "placement": PLACE * most_parts(network, chip),
        "score": SCORE * network.connections,
    }
    return {stage: round(value / 1e9, 1) for stage, value in nanoseconds.items()}
