"""Time estimates of a run, per stage: processor time of all threads.

Products of connections, pins or neurons and nanoseconds, as measured on one core of a cloud machine
with networks of 7,717 to a million neurons (`scripts/bench_estimates.py`);
`mapper.planning.processor` measures the speed of another processor. Reading a label takes longer
with more labels, as fewer fit in caches (`Size.crowding`). Shuffled ids take longer still above
about 10^8 neurons. `mapper.planning.search_time` estimates the stages that search until their
budget is used up.
"""

from __future__ import annotations

from chipsim.chip.model import Chip
from mapper.planning.memory import gathered_bytes
from mapper.planning.plan import REFINED_BY, Plan
from mapper.planning.search_time import (
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

READ = 38  # ns per connection: inflated, decoded, both directions added, packed
READ_PIN = 35  # ns per pin of nets in memory
CLUSTER = 8  # ns per connection and round of label propagation
SAMPLE = 15  # ns per connection: one visit, to contract
COARSE = 260  # ns per connection of the sample: all levels in memory
CONTRACT = 20  # ns per connection contracted into scratch
SORT = 80  # ns per connection kept then
EDGES = 0.6  # connections on levels in scratch per planned one: parallel ones merge
MOVE = 7.2  # ns per connection and pass of refinement
PASSES = 0.6  # share of the allowed passes over blocks that run, if these were cut on one level
LAST_PASSES = 0.4  # same for passes over cores
SPLIT, SPLIT_FM = 35, 5  # ns per connection: gathering and all bisections; per pass of FM
SPLIT_NEURON, SPLIT_NEURON_FM = 2000, 2000  # ns per neuron, for the same
GATHER = 4  # ns per connection in each further pass of gathering
GROUPS = 9  # ns per connection
GROUP_PIN = 55  # ns per pin of streamed nets
NET_MOVE = 85  # ns per connection and pass of refinement by streamed nets
NET_PASSES = 0.8  # share of the allowed passes that run
SEEN_PIN = 25  # ns per pin read for a sample of the nets
THIN_PIN = 50  # ns per pin read for some targets of each net
REACH = 3  # ns per part and pin of the sample, in all passes
SCORE, SCORE_NEURON = 18, 1300  # ns per connection, and per neuron
PLACE = {"fast": 450_000, "default": 950_000, "strong": 16_000_000}
"""Nanoseconds per group, for up to `STANDARD` groups, by effort."""
STANDARD = 4096  # groups; above, the work of a placement grows with the power GROWTH
GROWTH = 0.65
START = 1.0  # seconds of a run outside of its stages


def processor_seconds(
    network: NetworkFile, chip: Chip, settings: Settings, plan: Plan
) -> dict[str, float]:
    """Return the seconds of each stage; empty for the preset classic."""
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
            seconds["hop refinement"] = hops_seconds(size, settings, plan.cycles)
        if "net refinement" in plan.stages:
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
    """Return the nanoseconds of a pass over the network that measures a mapping."""
    return SCORE * size.connections + SCORE_NEURON * size.crowding * size.neurons


def _block_nanoseconds(
    network: NetworkFile, settings: Settings, plan: Plan, size: Size
) -> dict[str, float]:
    """Return the nanoseconds of the stages that cut a network into blocks."""
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
    """Return the nanoseconds of the stages that cut blocks, or a small network, into cores."""
    passes = max(1, LAST_PASSES * settings.refinement_passes)
    connection = SPLIT + SPLIT_FM * settings.fm_passes + GATHER * (batches - 1)
    neuron = SPLIT_NEURON + SPLIT_NEURON_FM * settings.fm_passes
    return {
        "split blocks": connection * size.seen + neuron * size.neurons,
        "uncoarsen and refine": MOVE * size.crowding * passes * size.seen,
    }


def _streamed_nets(settings: Settings, plan: Plan, size: Size) -> dict[str, float]:
    """Return the nanoseconds of net refinement that are not in memory."""
    if not plan.net_share:
        passes = NET_PASSES * settings.block_passes
        alike = size.density**NETS.density
        return {
            "net refinement": NET_MOVE * size.crowding * alike * passes * size.seen,
            "groups": GROUP_PIN * size.crowding * alike * size.pins,
        }
    reach = REACH * size.parts * plan.net_share * size.pins
    found = {"net refinement": SEEN_PIN * size.pins + reach}
    if settings.objective == "multicast":
        found[REFINED_BY["multicast"]] = reach
    return found
