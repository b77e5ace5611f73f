"""How long a run will take, stage by stage, before it starts: processor time of all threads.

Numbers of connections, pins or neurons times nanoseconds, as measured on one core of a cloud
machine with networks of 7,717 to a million neurons (`scripts/bench_estimates.py`);
`mapper.runtime.processor` measures how much slower another processor is. Reading a label takes
longer the more labels there are, as fewer fit the caches (`Size.crowding`). Shuffled ids take
longer still from some 10^8 neurons on. `mapper.runtime.search_time` estimates the stages that
search until their budget is used up.
"""

from __future__ import annotations

from chipsim.chip.model import Chip
from mapper.runtime.memory_plan import gathered_bytes
from mapper.runtime.plan import REFINED_BY, Plan
from mapper.runtime.search_time import (
    NETS,
    Size,
    hops_seconds,
    level_seconds,
    partition_seconds,
    refinement_seconds,
    size_of,
)
from mapper.settings import Settings
from storage.store.network import NetworkFile

READ = 38  # of a connection: inflated, decoded, both directions added, packed
READ_PIN = 35  # of a pin of nets in memory
CLUSTER = 8  # of a connection and round of label propagation
SAMPLE = 15  # of a connection: one look, which contracts
COARSE = 260  # of a connection of the sample: all levels in memory
CONTRACT = 20  # of a connection that is contracted into scratch
SORT = 80  # of a connection that is kept then
EDGES = 0.6  # connections on levels in scratch for each that the plan counts: parallel ones merge
MOVE = 7.2  # of a connection and pass of refinement
PASSES = 0.6  # of the passes over blocks that are allowed are made, if these were cut on one level
LAST_PASSES = 0.4  # of those over cores
SPLIT, SPLIT_FM = 35, 5  # of a connection: gathered once, and all bisections; of a pass of FM
SPLIT_NEURON, SPLIT_NEURON_FM = 2000, 2000  # of a neuron, for the same
GATHER = 4  # of a connection in each further pass of gathering
GROUPS = 9  # of a connection
GROUP_PIN = 55  # of a pin of streamed nets
NET_MOVE = 85  # of a connection and pass of refinement by streamed nets
NET_PASSES = 0.8  # of the passes that are allowed are made
SEEN_PIN = 25  # of a pin, read for a sample of the nets
THIN_PIN = 50  # of a pin, read for some targets of each net
REACH = 3  # of a part and pin of the sample, in all passes
SCORE, SCORE_NEURON = 18, 1300  # of a connection, and of a neuron
PLACE = {"fast": 450_000, "default": 950_000, "strong": 16_000_000}
"""Of a group, for up to `STANDARD` of them, by effort."""
STANDARD = 4096  # groups; for more the work of a placement grows with this power of them
GROWTH = 0.65
START = 1.0  # seconds of a run besides its stages


def processor_seconds(
    network: NetworkFile, chip: Chip, settings: Settings, plan: Plan
) -> dict[str, float]:
    """Seconds of each stage; none for the preset classic."""
    if settings.method == "classic":
        return {}
    settings = settings.resolved(chip.delivery)
    size = size_of(network, chip, settings)
    if plan.nets_held:
        nanoseconds: dict[str, float] = {"read": READ_PIN * size.pins, "groups": GROUPS * size.pins}
        seconds = {"partition": partition_seconds(size, settings, plan.brief)}
    else:
        nanoseconds = {
            "read": READ * size.connections,
            "groups": GROUPS * size.crowding * size.seen,
        }
        if plan.sample is not None:
            nanoseconds |= _block_nanoseconds(network, settings, plan, size)
        elif not plan.levels:
            nanoseconds |= _cut_nanoseconds(settings, size, 1)
        seconds = level_seconds(size, settings, plan.cycles) if plan.levels else {}
        if settings.objective not in ("cut", "multicast") and not plan.levels:
            seconds["refine by hops"] = hops_seconds(size, settings, plan.cycles)
        if "refine by nets" in plan.stages:
            nanoseconds |= _streamed_nets(settings, plan, size)
    if plan.nets_held or plan.nets_after:
        refined = refinement_seconds(size, settings, plan.net_work)
        if plan.nets_after and settings.objective == "time":
            refined += (THIN_PIN * size.pins + 2 * _score(size)) / 1e9
        seconds[REFINED_BY[settings.objective]] = refined
    crowded = max(1.0, size.parts / STANDARD) ** (GROWTH - 1)
    nanoseconds["placement"] = PLACE[settings.placement] * size.parts * crowded
    nanoseconds["score"] = _score(size)
    seconds |= {stage: value / 1e9 for stage, value in nanoseconds.items()}
    return {stage: round(value, 2) for stage, value in seconds.items()}


def _score(size: Size) -> float:
    """Nanoseconds of a pass over the network that measures a mapping."""
    return SCORE * size.connections + SCORE_NEURON * size.crowding * size.neurons


def _block_nanoseconds(
    network: NetworkFile, settings: Settings, plan: Plan, size: Size
) -> dict[str, float]:
    """Nanoseconds of the stages that cut a network into blocks."""
    assert plan.sample is not None
    m, above, rounds = size.seen, sum(plan.contractions), settings.cluster_rounds
    batches = -(-gathered_bytes(network, settings) * m // plan.gathered)
    passes = settings.block_passes * (1.0 if above else PASSES)
    return {
        "coarsen": CLUSTER * size.crowding * rounds * m,
        "initial partition": (SAMPLE + (CONTRACT if above else 0)) * m
        + above * (SORT + EDGES * (CLUSTER * rounds + SAMPLE))
        + COARSE * plan.sample.kept,
        "refine blocks": MOVE * size.crowding * passes * m,
        **_cut_nanoseconds(settings, size, batches),
    }


def _cut_nanoseconds(settings: Settings, size: Size, batches: int) -> dict[str, float]:
    """Nanoseconds of the stages that cut blocks, or a small network, into cores."""
    passes = max(1, LAST_PASSES * settings.refinement_passes)
    connection = SPLIT + SPLIT_FM * settings.fm_passes + GATHER * (batches - 1)
    neuron = SPLIT_NEURON + SPLIT_NEURON_FM * settings.fm_passes
    return {
        "split blocks": connection * size.seen + neuron * size.neurons,
        "uncoarsen and refine": MOVE * size.crowding * passes * size.seen,
    }


def _streamed_nets(settings: Settings, plan: Plan, size: Size) -> dict[str, float]:
    """Nanoseconds of refinement by nets that are not in memory."""
    if not plan.net_share:
        passes = NET_PASSES * settings.block_passes
        alike = size.density**NETS.density
        return {
            "refine by nets": NET_MOVE * size.crowding * alike * passes * size.seen,
            "groups": GROUP_PIN * size.crowding * alike * size.pins,
        }
    reach = REACH * size.parts * plan.net_share * size.pins
    found = {"refine by nets": SEEN_PIN * size.pins + reach}
    if settings.objective == "multicast":
        found[REFINED_BY["multicast"]] = reach
    return found
