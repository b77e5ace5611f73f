"""Time estimates of a run, per stage: processor time of all threads.

Products of connections, pins or neurons and nanoseconds, as measured on one core of a cloud machine
with networks of 7,717 to a million neurons (`scripts/bench_estimates.py`); `slowness` measures the
speed of another processor. Reading a label takes longer with more labels, as fewer fit in caches
(`Size.crowding`). Shuffled ids take longer still above about 10^8 neurons.

Some stages search until their budget is used up. The cost of a move depends on the network, so
their estimates are products of powers of its size, fitted to measured runs of ten kinds of
networks. In regular networks, such as convolutions, many neurons have the same targets: they
compress well and are searched quickly.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from mapper.planning.core_limits import CoreLimits
from mapper.planning.memory import gathered_bytes, most_parts, net_pins
from mapper.planning.plan import REFINED_BY, Plan
from mapper.planning.rounds import cut_passes, hop_rounds
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
BYTES = 4.0  # stored bytes per synapse of a random network
WORK = 50_000_000  # connections that annealing examines with default effort
LEAST_PROPOSALS = 30  # see `mapper.hop_refinement.refine`
NANO = 1e-9
LARGE = 100_000  # neurons; data of larger networks does not fit in caches
CROWDING = 0.2  # exponent of the number of neurons above LARGE in the time of a look-up
PASS = 8  # nanoseconds per connection and pass of moves by hops
EXCHANGE = 25  # nanoseconds per connection and round of exchanges
EXCHANGE_NEURON = 5000  # nanoseconds per neuron and round
V_CYCLE = 600  # nanoseconds per connection and V-cycle
V_CYCLE_NEURON = 120_000  # nanoseconds per neuron and V-cycle
REBISECTION = 10  # passes over all pins in a round of bisections of pairs, as in `partition`
REBISECTED = 0.5  # time of such a round relative to a partition
NET_LEVELS = 1600  # nanoseconds per pin: coarse levels of nets, and their trees
DENSE = 70  # nets per neuron above which there are fewer levels and proposals
# seconds of annealing by nets, per V-cycle
SECONDS = {"multicast": 12.0, "core": 17.0, "time": 40.0}
TRIES = 3  # the fastest counts: others may have been interrupted
STEPS = 100_000  # iterations of a Python loop, which measures the core
LOOKS = 1_000_000  # look-ups in an array larger than most caches, which measure memory
USUAL = 0.0034, 0.0040  # seconds of both on the reference machine


def processor_seconds(
    network: NetworkFile, chip: CoreLimits, settings: Settings, plan: Plan
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
    passes = max(1, LAST_PASSES * cut_passes(settings, size.seen))
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


class Size(NamedTuple):
    """The size of a network, as used by estimates.

    seen : connections that each pass reads
    density : stored bytes per synapse relative to a random network, at most 1
    """

    neurons: int
    connections: int
    seen: int
    pins: int
    parts: int
    density: float

    @property
    def crowding(self) -> float:
        """Slowdown of reading a value of a neuron if the values do not fit in caches."""
        return max(1.0, self.neurons / LARGE) ** CROWDING


class Law(NamedTuple):
    """Power law: seconds for a random network of 10,000 neurons and 10^6 entries, and exponents."""

    seconds: float
    neurons: float
    entries: float
    density: float

    def of(self, size: Size, entries: int) -> float:
        return (
            self.seconds
            * (size.neurons / 10_000) ** self.neurons
            * (entries / 1_000_000) ** self.entries
            * size.density**self.density
        )


COARSEN = Law(0.07, 0.5, 0.4, 0.0)
FIRST_PARTS = Law(0.19, 0.85, 0.4, 0.3)
FIRST_ANNEALING = Law(1.2, 0.4, 0.2, 0.2)
EXCHANGES = Law(0.28, 0.8, 0.5, 0.15)
ANNEALING = Law(4.2, 0.2, 0.4, 0.15)
NETS = Law(4.9, 0.8, 0.2, 0.75)


def size_of(network: NetworkFile, chip: CoreLimits, settings: Settings) -> Size:
    """Return the size of a network on a chip."""
    density = network.stored_bytes() / (BYTES * max(1, network.meta.synapses))
    connections = max(1, network.connections)
    return Size(
        max(1, network.vertices),
        connections,
        min(connections, settings.degree * network.vertices),
        net_pins(network),
        most_parts(network, chip),
        min(1.0, max(0.02, density)),
    )


def level_seconds(size: Size, settings: Settings, cycles: int) -> dict[str, float]:
    """Return the seconds of stages on coarsening levels in memory; cycles : number of V-cycles."""
    return {
        "coarsen": COARSEN.of(size, size.seen),
        "initial partition": FIRST_PARTS.of(size, size.seen)
        + _work(size, settings, settings.proposals) * FIRST_ANNEALING.of(size, size.seen),
        "hop refinement": EXCHANGES.of(size, size.seen)
        + (
            _work(size, settings, settings.proposals)
            + cycles * _work(size, settings, settings.cycle_proposals)
        )
        * ANNEALING.of(size, size.seen),
    }


def _work(size: Size, settings: Settings, proposals: int) -> float:
    """Return the connections that annealing examines on a level, divided by `WORK`."""
    most = max(LEAST_PROPOSALS, settings.anneal_budget // size.seen)
    return min(proposals, most) * size.seen / WORK


def hops_seconds(size: Size, settings: Settings, cycles: int) -> float:
    """Return the seconds of hop refinement on rows; cycles : number of V-cycles."""
    passes, rounds = hop_rounds(settings, size.seen)
    move = PASS * size.crowding**2
    exchange = EXCHANGE * size.seen + EXCHANGE_NEURON * size.neurons
    cycle = (V_CYCLE * size.seen + V_CYCLE_NEURON * size.neurons) * NANO
    cycle *= size.density**ANNEALING.density
    cycle += _work(size, settings, settings.cycle_proposals) * ANNEALING.of(size, size.seen)
    return (passes * move * size.seen + rounds * exchange) * NANO + cycles * cycle


def partition_seconds(size: Size, settings: Settings, brief: bool) -> float:
    """Return the seconds of a partition by nets in memory."""
    rounds = min(settings.recuts, settings.net_budget // (REBISECTION * size.pins))
    more = 0 if brief else settings.cycles + REBISECTED * rounds
    return NETS.of(size, size.pins) * (1 + more)


def refinement_seconds(size: Size, settings: Settings, work: float) -> float:
    """Return the seconds of tree, packet or time refinement.

    work : share of its usual effort, as in a plan; its levels are built even if this is 0
    """
    if settings.objective == "time":  # one level, with some targets of each net
        return work * SECONDS["time"]
    levels = NET_LEVELS * size.pins * NANO * size.density**NETS.density
    dense = min(1.0, DENSE * size.neurons / size.pins)
    return settings.net_cycles * dense * (levels + work * SECONDS[settings.objective])


def slowness() -> float:
    """Return the time of this processor relative to the reference, measured in about 0.1 s."""
    place = np.random.default_rng(0).integers(0, 4 * LOOKS, LOOKS)
    values = np.zeros(4 * LOOKS)

    def steps() -> None:
        total = 0
        for step in range(STEPS):
            total += step & 7

    def looks() -> None:
        values[place]

    times = []
    for work in (steps, looks):
        found = []
        for _ in range(TRIES):
            started = time.thread_time()
            work()
            found.append(time.thread_time() - started)
        times.append(min(found))
    ratios = [spent / usual for spent, usual in zip(times, USUAL, strict=True)]
    return float(np.sqrt(ratios[0] * ratios[1]))
