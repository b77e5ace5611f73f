"""Time estimates of stages that search until their budget is used up.

The cost of a move depends on the network, so the estimates are products of powers of its size,
fitted to measured runs of ten kinds of networks (`scripts/bench_estimates.py`). In regular
networks, such as convolutions, many neurons have the same targets: they compress well and are
searched quickly.
"""

from __future__ import annotations

from typing import NamedTuple

from chipsim.chip.model import Chip
from mapper.planning.memory import most_parts, net_pins
from mapper.settings import Settings
from storage.store.network import NetworkFile

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


def size_of(network: NetworkFile, chip: Chip, settings: Settings) -> Size:
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
    most = settings.hop_budget // size.seen
    passes, rounds = min(settings.hop_passes, most), min(settings.exchanges, most)
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
