"""Memory plan of a run: estimated peak of each stage, and division of the memory budget.

The constants are upper estimates in bytes per neuron, connection and thread. They are derived from
the arrays that are alive together in a stage and checked against measured peaks
(scripts/bench_scale.py).
"""

from __future__ import annotations

from math import exp, log

from mapper.planning.core_limits import CoreLimits
from mapper.planning.plan import REFINED_BY, Plan
from mapper.planning.population_plan import population_stage
from mapper.planning.rounds import hop_rounds
from mapper.planning.sampling import levels_of, net_share, sample_bytes
from mapper.settings import BY_NETS, Settings
from storage.sorting.sorter import BYTES_PER_ENTRY
from storage.store.network import NetworkFile

INTERPRETER = 190 << 20  # bytes: Python, numba and the compiled kernels, measured
LABEL_BYTES = 150  # bytes per neuron name while the network's description is read
FEW_LABELS = 10_000  # names that are covered by the measured bytes of the interpreter
BLOCK_BYTES = 64  # bytes per connection in a block being read: inflated, decoded, narrowed, results
HELD_BYTES = 8  # bytes per connection in memory: id and weight
NEURON_BYTES = {  # bytes per neuron: arrays that are alive together
    "coarsen": 44,
    "initial partition": 64,
    "refine blocks": 28,
    "split blocks": 40,
    "uncoarsen and refine": 28,
    "groups": 24,
    "hop refinement": 64,
    "score": 24,
}
IDLE_BYTES = 40  # bytes per neuron in "hop refinement" if the network is too large for refinement
ABOVE_BYTES = 44  # bytes per neuron in "initial partition" with more levels of clusters
LIMITS_BYTES = 90  # bytes per neuron while axons are counted and vertices exchanged
AXON_BYTES = 28  # bytes per synapse while vertices are exchanged: in a row, and in a table of pairs
CHAINS = 2  # concurrent annealing chains in a V-cycle, for any number of threads
LEVEL_BYTES = 20  # bytes per connection: all levels, and the accumulation of the next one
CHAIN_NEURON_BYTES = 64  # bytes per neuron in a V-cycle
SMALL = 100_000  # synapses; run time of smaller networks does not matter
PACKET_WORK = 4  # pin visits of a V-cycle by packets to cores, per unit of the same budget
WORTH_A_CYCLE = 4  # visits of all connections that the refinement budget must allow for a V-cycle
WISHING_BYTES = 32  # bytes per neuron during a round of label propagation
NEURON_BYTES_PER_THREAD = 8  # bytes per neuron and thread: scratch of label propagation
MOST_THREADS = 64
NET_BYTES = 56  # bytes per pin: the hypergraph, its coarse levels, its slots, and sorting them
THIN_PINS = 16  # pins per net if a sample of targets stands for all, in large networks
NET_NEURON_BYTES = 300  # bytes per neuron and its net: arrays of all levels, fingerprints, queues
STREAMED_NET_BYTES = 56  # bytes per neuron if nets are streamed
THREADS_SHARE = 8  # 1/THREADS_SHARE of the memory is for per-thread arrays
MATRIX_BYTES = 8  # bytes per pair of groups if traffic is summed in matrices
LEAST_MATRICES = 3  # one for each of two threads, and one workspace
HALF_MATRIX_BYTES = 4  # bytes per pair of a symmetric matrix, stored without its lower half
# bytes per pair of groups with traffic while it is summed: both orders, and a copy
SUMMED_BYTES = 32
GROUP_BYTES = 32  # bytes per kept connection of groups: as arrays, and packed in runs before
PAIR_BYTES = 8  # bytes per pair of groups with traffic, while traffic is measured
PLACER_BYTES = 28  # bytes per pair of groups with traffic, while groups are placed
CORE_BYTES = 280  # bytes per core and thread while traffic is measured
ROUTE_BYTES = 2  # bytes per pair of routers, if links are broken (`chipsim.detours.tables`)
SAMPLE_BYTES = 24  # bytes per connection of a sample: all levels, and their accumulation
FIRST_SAMPLE_BYTES = 18  # same for a sample of clusters of neurons, whose levels shrink fast
SCRATCH_BYTES = 3.6  # bytes per connection in a zstd block, ids in random order
SMALL_WEIGHT = 50  # mean weight; hardly any weight of such a network exceeds a byte
NEAR_VERTICES = 60_000  # vertices per block that fit two-byte ids, with some slack
LIGHT_WEIGHT = 256  # smallest weight that does not fit in a byte
CHECKED_BYTES = 0.45  # bytes per connection: degrees, heads, directions, and large values
LEVEL_ROW_BYTES = 3.4  # bytes per connection of a level in a file of rows
RECORD_BYTES = 5.5  # bytes per connection between clusters during an external sort
FILL = 0.97  # average share of the core capacity that is filled
STEP_BYTES = 24  # bytes per neuron in the steps kept for `--resume`, compressed
REFINED_BYTES = 2.5  # same for each step of hop refinement
# share of connections left by a round of pairing in a network with little structure
CLASSIC_SHRINK = 0.85
CLASSIC_CSR = 12


def block_bytes(network: NetworkFile) -> int:
    """Return bytes per block being read; a connection takes at least two bytes, usually three."""
    return BLOCK_BYTES * min(network.connections, network.meta.largest_block_bytes // 2)


def _resident(network: NetworkFile, chip: CoreLimits) -> int:
    """Return the bytes before any work: Python, kernels, names of neurons, routes if any."""
    columns, rows = chip.routers
    start = INTERPRETER + (ROUTE_BYTES * (columns * rows) ** 2 if chip.detoured else 0)
    labels = [about.labels or [] for about in network.meta.attributes.values()]
    count = sum(map(len, labels))
    if count <= FEW_LABELS:
        return start
    letters = sum(len(label) for some in labels for label in some)
    return start + LABEL_BYTES * count + 2 * letters


class _Terms:
    """Terms of a plan by connections: sizes, and the division of the memory, in bytes.

    n, m : neurons, and connections that passes read; parts : most cores in use; see also `Plan`
    Only the number of threads depends on the requested threads. The division of the memory affects
    the result, which must be the same for any number of threads.
    """

    def __init__(self, network: NetworkFile, chip: CoreLimits, settings: Settings) -> None:
        self.network, self.chip, self.settings = network, chip, settings
        self.n, self.memory = network.vertices, settings.memory_bytes
        self.m = min(network.connections, settings.degree * self.n)
        self.parts = most_parts(network, chip)
        block = block_bytes(network)
        for_each = block + NEURON_BYTES_PER_THREAD * self.n
        most = min(max(self.memory // THREADS_SHARE, 2 * for_each), MOST_THREADS * for_each)
        self.threads = max(1, min(settings.threads, most // max(for_each, 1)))
        self.interpreter = _resident(network, chip)
        self.base = self.interpreter + self.threads * block
        self.cycles = settings.cycles if self.m * WORTH_A_CYCLE <= settings.hop_budget else 0
        self.chained = CHAIN_NEURON_BYTES * self.n if self.cycles else 0
        self.neurons = {name: size * self.n for name, size in NEURON_BYTES.items()}
        self.neurons["hop refinement"] += self.chained
        self.limited = chip.axons_in is not None or chip.out_limit is not None
        if self.limited:
            self.neurons["limits"] = LIMITS_BYTES * self.n
        # No rows are gathered, even if half of the connections are opposite directions of others.
        exchanged = hop_rounds(settings, self.m // 2)[1]
        self.idle = not (self.limited or self.cycles or exchanged)
        self._divide(self.memory - self.interpreter - most)
        self._count()
        self._sample()

    def _divide(self, free: int) -> None:
        """Divide the memory that is left by the interpreter and the arrays of threads."""
        # Rows in memory may take half of the free bytes, which leaves room for samples and blocks.
        unused = free - max(self.neurons.values())
        self.held = HELD_BYTES * self.m <= unused // 2
        self.rows = HELD_BYTES * self.m if self.held else 0
        # During accumulation a sample exists twice, along with its levels and the gathered rows.
        self.left = max(unused - self.rows, 0)
        self.sampled = max(1 << 16, min(self.m, self.left // (4 * HELD_BYTES)))
        shared = free - self.rows
        gather = {"split blocks", "limits"} | (set() if self.idle else {"hop refinement"})
        gathering = max(size for name, size in self.neurons.items() if name in gather)
        self.gathered = max(1 << 22, min(HELD_BYTES * self.m, (shared - gathering) * 3 // 4))
        # With further clustering, everything except the clusters is in scratch.
        above = max(shared - ABOVE_BYTES * self.n, 0)
        self.sampled_above = max(1 << 16, min(self.m, above // SAMPLE_BYTES))
        self.contracted = max(1 << 22, above * 3 // 4)
        self.grouped = max(1 << 24, self.left * 3 // 4)
        self.summed = max(1 << 24, (shared - self.neurons["groups"]) * 7 // 8)

    def _count(self) -> None:
        """Count levels, chains, and pairs of groups with traffic."""
        level, most, parts = LEVEL_BYTES * self.m, self.settings.level_budget, self.parts
        self.levels = self.held and self.m <= most and 2 * level <= self.left
        if self.settings.objective == "multicast":  # small networks hold all nets or none
            after = self.base + self.rows + level + net_bytes(self.network, parts)
            few = self.network.connections <= most  # including connections that a run does not read
            self.levels &= few and not small(self.network) and after <= self.memory
        # A level of a V-cycle, and the accumulation of the next; one chain has room for a sample.
        chained = (CHAINS + self.levels) * level + (CHAINS - 1) * self.chained
        self.chains = CHAINS if chained <= self.left else 1
        self.level = level if self.levels else 0
        pairs = min(self.m // 2, parts * parts // 2)  # far fewer if most traffic is local
        matrices = self.summed // (MATRIX_BYTES * max(1, parts * parts))
        self.sums = min(self.summed, GROUP_BYTES * self.m)
        if matrices >= LEAST_MATRICES:
            half = HALF_MATRIX_BYTES * parts * parts
            adding = half * (min(self.threads, matrices - 1) - 1)
            self.sums = half + max(adding, SUMMED_BYTES * pairs)
        self.pairs = min(pairs, self.summed // PLACER_BYTES)  # in one order

    def _sample(self) -> None:
        """Choose the levels of clusters that the network is cut into blocks with."""
        uncut = max(1, self.parts * self.settings.block_vertices // max(1, self.n))  # cores
        capacities, blocks = (self.sampled, self.sampled_above), -(-self.parts // uncut)
        samples = levels_of(self.n, self.m, self.settings.coarse_degree, capacities, blocks)
        cut = not self.levels and uncut < self.parts
        self.sample = samples[-1] if cut else None
        self.contractions = tuple(one.whole for one in samples[1:]) if cut else ()
        self.blocks = self.neurons["initial partition"] + FIRST_SAMPLE_BYTES * samples[0].kept
        if self.contractions:
            self.contracted = min(self.contracted, BYTES_PER_ENTRY * self.contractions[0])
            kept = SAMPLE_BYTES * samples[-1].kept
            self.blocks = ABOVE_BYTES * self.n + max(kept, self.contracted)

    def _hops(self) -> int:
        """Return the bytes of hop refinement."""
        if self.idle:
            return IDLE_BYTES * self.n
        cycle = self.chains * LEVEL_BYTES * min(self.m, self.sampled)
        cycle += (self.chains - 1) * self.chained
        moves = max(cycle if self.cycles else 0, 0 if self.held else self.gathered)
        return self.neurons["hop refinement"] + moves + self.level

    def stages(self) -> dict[str, int]:
        """Return the bytes of each stage, without refinement by nets."""
        network, at, level = self.network, self.base + self.rows, self.neurons
        # during proposals vertices are not renumbered yet, see `number_clusters`
        proposing = (WISHING_BYTES + self.threads * NEURON_BYTES_PER_THREAD) * self.n
        cut = min(self.gathered, gathered_bytes(network, self.settings) * self.m)
        measured = PAIR_BYTES * self.pairs + CORE_BYTES * self.chip.cores * self.threads
        found = {
            "coarsen": at + max(level["coarsen"], proposing),
            "initial partition": at + self.blocks,
            "refine blocks": at + level["refine blocks"],
            "split blocks": at + level["split blocks"] + cut,
            "uncoarsen and refine": at + level["uncoarsen and refine"],
            "groups": at + level["groups"] + self.sums,
            "hop refinement": at + self._hops(),
            "score": at + level["score"] + measured,
        }
        if self.limited:
            fans = min(self.grouped, AXON_BYTES * network.connections // 2)
            found["limits"] = at + level["limits"] + fans
            # exchanges may follow in that stage
            found["hop refinement"] = max(found["hop refinement"], found["limits"])
        found["placement"] = self.interpreter + self.rows + 12 * self.n + self.level
        found["placement"] += PLACER_BYTES * self.pairs
        if self.chip.synapse_limit is not None:
            found["check"] = self.base + 40 * self.n
        found["baselines"] = found["score"] + 8 * self.n
        found |= population_stage(network, self.parts, self.chip, self.threads, self.base)
        return found

    def net_share(self) -> float:
        """Return the share of nets that refines streamed parts."""
        if self.settings.objective not in ("multicast", "core") or self.levels:
            return 0.0
        synapses, free = net_pins(self.network) - self.n, self.memory - self.base - self.rows
        return net_share(self.n, synapses, self.parts, free)

    def net_stages(self, share: float, score: int) -> tuple[dict[str, int], bool]:
        """Return the bytes of refinement by nets, and whether all nets are loaded after the rows.

        share : of the nets, for streamed parts; score : bytes of that stage
        """
        objective, n, pins = self.settings.objective, self.n, net_pins(self.network)
        at, found = self.base + self.rows, {}
        if share or (objective == "multicast" and not self.levels):
            some = sample_bytes(n, pins - n, self.parts, share)
            found["net refinement"] = at + STREAMED_NET_BYTES * n + some
        need = net_bytes(self.network, self.parts)
        if objective == "time":
            need = NET_NEURON_BYTES * n + NET_BYTES * THIN_PINS * n + score - self.base
        need += at + self.level
        after = need <= self.memory and (objective != "multicast" or self.levels)
        if objective == "core":
            after &= PACKET_WORK * pins <= self.settings.hop_budget
        if after:
            found[REFINED_BY[objective]] = need
        elif share and objective == "multicast":
            found[REFINED_BY["multicast"]] = found["net refinement"]
        return found, after


def plan_by_connections(network: NetworkFile, chip: CoreLimits, settings: Settings) -> Plan:
    """Return the plan of a run that partitions by connections."""
    terms = _Terms(network, chip, settings)
    stages, nets_after, share = terms.stages(), False, 0.0
    if settings.objective in BY_NETS:
        share = terms.net_share()
        by_nets, nets_after = terms.net_stages(share, stages["score"])
        stages |= by_nets
    refined = settings.hop_passes + settings.exchanges + terms.cycles
    refined += settings.net_cycles if nets_after else 0
    contractions = terms.contractions
    in_scratch = 0 if terms.held else int(row_bytes(network) * terms.m)
    kept = (STEP_BYTES + REFINED_BYTES * refined) * terms.n
    sorting = int(RECORD_BYTES * max(contractions, default=0)) - terms.contracted * 3 // 8
    return Plan(
        terms.memory,
        stages,
        int(in_scratch + LEVEL_ROW_BYTES * sum(contractions[:2]) + kept),
        max(0, sorting),
        terms.held,
        terms.sampled,
        terms.gathered,
        terms.grouped,
        terms.threads,
        terms.levels,
        terms.cycles,
        terms.chains,
        nets_after=nets_after,
        net_share=share,
        sample=terms.sample,
        sampled_above=terms.sampled_above,
        contracted=terms.contracted,
        contractions=contractions,
        summed=terms.summed,
        rows=in_scratch,
    )


def plan_by_nets(
    network: NetworkFile, chip: CoreLimits, settings: Settings, other: Plan
) -> Plan | None:
    """Return the plan with all nets in memory; None if these exceed the memory or the settings.

    other : plan of the same run by connections
    """
    n, memory = network.vertices, settings.memory_bytes
    parts, need = most_parts(network, chip), net_bytes(network, most_parts(network, chip))
    base = _resident(network, chip) + other.threads * block_bytes(network)
    table = max(1 << 22, min(8 * n * parts, (memory - base - need) * 3 // 4))
    if base + need + table > memory or net_pins(network) > settings.net_pins:
        return None
    pairs = min(n * settings.degree, network.connections, parts * parts) // 2
    pairs = min(pairs, other.summed // PLACER_BYTES)
    stages = dict.fromkeys(("read", REFINED_BY[settings.objective]), base + need)
    stages["partition"] = base + need + table
    stages["placement"] = base + need + PLACER_BYTES * pairs
    for name in ("check", "score", "baselines", "populations"):
        if name in other.stages:
            stages[name] = other.stages[name]
    kept = int((STEP_BYTES + REFINED_BYTES * settings.net_cycles) * n)
    return Plan(memory, stages, kept, 0, True, 0, table, 0, other.threads, nets_held=True)


def net_pins(network: NetworkFile) -> int:
    """Return the pins of all nets: synapses, and one per net for its neuron."""
    return (2 if network.undirected else 1) * network.meta.synapses + network.vertices


def net_bytes(network: NetworkFile, parts: int) -> int:
    """Return the bytes of all nets, with their coarse levels and the traffic of parts."""
    n = network.vertices
    return NET_BYTES * net_pins(network) + NET_NEURON_BYTES * n + MATRIX_BYTES * parts * parts


def small(network: NetworkFile) -> bool:
    """Return whether the network is always partitioned by nets, memory permitting."""
    return network.meta.synapses <= SMALL


def row_bytes(network: NetworkFile) -> float:
    """Return bytes per connection in a file of rows (`storage.scratch.packed`), ids shuffled.

    Assumes gaps of random ids; gaps that do not fit their unit take four extra bytes. Large weights
    are shifted to about eight bits and take two bytes.
    """
    gap = network.vertices**2 / max(1, network.connections)
    beyond = exp(-(2**16) / max(gap, 1.0))
    weight = network.meta.total_weight / max(1, network.meta.synapses)
    return min(2 + 4 * beyond, 4.0) + (1 if weight < SMALL_WEIGHT else 2) + CHECKED_BYTES


def gathered_bytes(network: NetworkFile, settings: Settings) -> int:
    """Return bytes per connection in gathered rows (`mapper.partitioning.recursive_splitting`).

    A place in the block takes two bytes or four, a weight one or four. For exponentially
    distributed weights, the largest of m is about log(m) times the mean.
    """
    weight = network.meta.total_weight / max(1, network.meta.synapses)
    near = settings.block_vertices <= NEAR_VERTICES
    light = weight * log(max(2, network.connections)) < LIGHT_WEIGHT
    return (2 if near else 4) + (1 if light else 4)


def most_parts(network: NetworkFile, chip: CoreLimits) -> int:
    """Return the most cores that a mapping may use; demand by axons is unknown in advance."""
    cores = max(1, chip.usable_count)
    if chip.axons_in is not None or chip.out_limit is not None:
        return cores
    parts = -(-network.meta.total_size // max(1, int(chip.neurons * FILL)))
    if chip.synapse_limit is not None:
        stored = -(-network.connections // max(1, int(chip.synapse_limit * FILL)))
        if chip.shared_bits is not None:
            synapses = network.connections * chip.synapse_bits
            bits = network.meta.total_size * chip.neuron_bits + synapses
            stored = max(stored, -(-bits // max(1, int(chip.shared_bits * FILL))))
        parts += stored
    return max(1, min(cores, parts))


def plan_classic(network: NetworkFile, chip: CoreLimits, settings: Settings) -> Plan:
    """Return the plan of the classic method.

    Coarsening by pairs of at most a fifteenth of a core leaves a few tenths of the connections for
    the coarsest graph, which is always held in memory.
    """
    n, m = network.vertices, network.connections
    base = _resident(network, chip) + 3 * settings.threads * block_bytes(network)
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
    return Plan(settings.memory_bytes, stages, scratch, spilled, False, 0, 0, 0, settings.threads)
