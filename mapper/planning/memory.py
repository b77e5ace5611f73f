"""Memory plan of a run: estimated peak of each stage, and division of the memory budget.

The constants are upper estimates in bytes per neuron, connection and thread. They are derived from
the arrays that are alive together in a stage and checked against measured peaks
(scripts/bench_scale.py).
"""

from __future__ import annotations

from math import exp, log

from chipsim.chip.model import Chip
from mapper.planning.plan import REFINED_BY, Plan
from mapper.planning.sampling import levels_of
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
SAMPLE_BYTES = 24  # bytes per connection of a sample: all levels, and their accumulation
FIRST_SAMPLE_BYTES = 18  # same for a sample of clusters of neurons, whose levels shrink fast
SCRATCH_BYTES = 3.6  # bytes per connection in a zstd block, ids in random order
SMALL_WEIGHT = 50  # mean weight; hardly any weight of such a network exceeds a byte
NEAR_VERTICES = 60_000  # vertices per block that fit two-byte ids, with some slack
LIGHT_WEIGHT = 256  # smallest weight that does not fit in a byte
CHECKED_BYTES = 0.2  # bytes per connection: degrees, heads, and values that do not fit a unit
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


def _interpreter(network: NetworkFile) -> int:
    """Return the bytes before any work: Python, kernels, and names of neurons if any."""
    labels = [about.labels or [] for about in network.meta.attributes.values()]
    count = sum(map(len, labels))
    if count <= FEW_LABELS:
        return INTERPRETER
    letters = sum(len(label) for some in labels for label in some)
    return INTERPRETER + LABEL_BYTES * count + 2 * letters


def plan_by_connections(network: NetworkFile, chip: Chip, settings: Settings) -> Plan:
    """Return the plan of a run that partitions by connections.

    Only the number of threads depends on the requested threads. The division of the memory affects
    the result, which must be the same for any number of threads.
    """
    n, memory = network.vertices, settings.memory_bytes
    m = min(network.connections, settings.degree * n)
    block = block_bytes(network)
    for_each = block + NEURON_BYTES_PER_THREAD * n
    most = min(max(memory // THREADS_SHARE, 2 * for_each), MOST_THREADS * for_each)
    threads = max(1, min(settings.threads, most // max(for_each, 1)))
    interpreter = _interpreter(network)
    base = interpreter + threads * block
    neurons = {name: size * n for name, size in NEURON_BYTES.items()}
    cycles = settings.cycles if m * WORTH_A_CYCLE <= settings.hop_budget else 0
    chained = CHAIN_NEURON_BYTES * n if cycles else 0
    neurons["hop refinement"] += chained
    if chip.axons_in is not None or chip.out_limit is not None:
        neurons["limits"] = LIMITS_BYTES * n
    free = memory - interpreter - most - max(neurons.values())
    # Rows in memory may take half of the free bytes, which leaves room for samples and blocks.
    held = HELD_BYTES * m <= free // 2
    rows = HELD_BYTES * m if held else 0
    # During accumulation a sample exists twice, along with its levels and the gathered rows.
    left = max(free - rows, 0)
    sampled = max(1 << 16, min(m, left // (4 * HELD_BYTES)))
    shared = memory - interpreter - most - rows
    # No connections are visited, even if half of them are opposite directions of others.
    idle = "limits" not in neurons and not cycles and m // 2 > settings.hop_budget
    gather = {"split blocks", "limits"} | (set() if idle else {"hop refinement"})
    gathering = max(size for name, size in neurons.items() if name in gather)
    gathered = max(1 << 22, min(HELD_BYTES * m, (shared - gathering) * 3 // 4))
    # With further clustering, everything except the clusters is in scratch.
    above = max(shared - ABOVE_BYTES * n, 0)
    sampled_above = max(1 << 16, min(m, above // SAMPLE_BYTES))
    contracted = max(1 << 22, above * 3 // 4)
    parts = most_parts(network, chip)
    grouped = max(1 << 24, left * 3 // 4)
    summed = max(1 << 24, (shared - neurons["groups"]) * 7 // 8)
    matrix = MATRIX_BYTES * max(1, parts * parts)
    pairs = min(m // 2, parts * parts // 2)  # in one order; far fewer if most traffic is local
    if summed // matrix >= LEAST_MATRICES:
        half = HALF_MATRIX_BYTES * parts * parts
        sums = half + max(half * (min(threads, summed // matrix - 1) - 1), SUMMED_BYTES * pairs)
    else:
        sums = min(summed, GROUP_BYTES * m)
    pairs = min(pairs, summed // PLACER_BYTES)
    stages = {name: base + rows + size for name, size in neurons.items()}
    # during proposals vertices are not renumbered yet, see `number_clusters`
    proposing = WISHING_BYTES + threads * NEURON_BYTES_PER_THREAD
    stages["coarsen"] = max(stages["coarsen"], base + rows + proposing * n)
    stages["split blocks"] += min(gathered, gathered_bytes(network, settings) * m)
    # A level of a V-cycle, and the accumulation of the next; a single chain has room for a sample.
    level = LEVEL_BYTES * m
    levels = held and m <= settings.level_budget and 2 * level <= left
    if settings.objective == "multicast":  # small networks hold all nets in memory or none
        after = base + rows + level + net_bytes(network, most_parts(network, chip))
        few = (
            network.connections <= settings.level_budget
        )  # including connections that a run does not read
        levels &= few and not small(network) and after <= memory
    chains = CHAINS if (CHAINS + levels) * level + (CHAINS - 1) * chained <= left else 1
    stages["hop refinement"] += max(
        chains * LEVEL_BYTES * min(m, sampled) + (chains - 1) * chained if cycles else 0,
        0 if held else gathered,
    ) + (level if levels else 0)
    if idle:
        stages["hop refinement"] = base + rows + IDLE_BYTES * n
    stages["groups"] += sums
    if "limits" in stages:
        stages["limits"] += min(grouped, AXON_BYTES * network.connections // 2)
        if "hop refinement" in stages:  # exchanges may follow in that stage
            stages["hop refinement"] = max(stages["hop refinement"], stages["limits"])
    stages["placement"] = interpreter + rows + 12 * n + PLACER_BYTES * pairs
    stages["placement"] += level if levels else 0
    stages["score"] += PAIR_BYTES * pairs + CORE_BYTES * chip.cores * threads
    refined = settings.hop_passes + settings.exchanges + cycles
    stop = max(1, parts * settings.block_vertices // max(1, n))
    samples = levels_of(n, m, settings.coarse_degree, (sampled, sampled_above), -(-parts // stop))
    stages["initial partition"] += FIRST_SAMPLE_BYTES * samples[0].kept
    contractions = () if levels or stop >= parts else tuple(one.whole for one in samples[1:])
    if contractions:
        kept = SAMPLE_BYTES * samples[-1].kept
        contracted = min(contracted, BYTES_PER_ENTRY * contractions[0])
        stages["initial partition"] = base + rows + ABOVE_BYTES * n + max(kept, contracted)
    if chip.synapse_limit is not None:
        stages["check"] = base + 40 * n
    nets_after, share = False, 0.0
    if settings.objective in BY_NETS:
        pins, need = net_pins(network), net_bytes(network, parts)
        sampled_nets = 0
        if settings.objective != "time" and not levels:
            share = net_share(n, pins - n, parts, memory - base - rows)
            sampled_nets = sample_bytes(n, pins - n, parts, share)
        if share or (settings.objective == "multicast" and not levels):
            streamed = base + rows + STREAMED_NET_BYTES * n
            stages["net refinement"] = streamed + sampled_nets
        if settings.objective == "time":
            need = NET_NEURON_BYTES * n + NET_BYTES * THIN_PINS * n + stages["score"] - base
        need += base + rows + (level if levels else 0)
        nets_after = need <= memory and (settings.objective != "multicast" or levels)
        if settings.objective == "core":
            nets_after &= PACKET_WORK * pins <= settings.hop_budget
        if nets_after:
            stages[REFINED_BY[settings.objective]] = need
            refined += settings.net_cycles
        elif share and settings.objective == "multicast":
            stages[REFINED_BY["multicast"]] = stages["net refinement"]
    in_scratch = 0 if held else int(row_bytes(network) * m)
    return Plan(
        memory,
        stages,
        int(
            in_scratch
            + LEVEL_ROW_BYTES * sum(contractions[:2])
            + (STEP_BYTES + REFINED_BYTES * refined) * n
        ),
        max(0, int(RECORD_BYTES * max(contractions, default=0)) - contracted * 3 // 8),
        held,
        sampled,
        gathered,
        grouped,
        threads,
        levels,
        cycles,
        chains,
        nets_after=nets_after,
        net_share=share,
        sample=None if levels or stop >= parts else samples[-1],
        sampled_above=sampled_above,
        contracted=contracted,
        contractions=contractions,
        summed=summed,
        rows=in_scratch,
    )


def plan_by_nets(network: NetworkFile, chip: Chip, settings: Settings, other: Plan) -> Plan | None:
    """Return the plan with all nets in memory; None if these exceed the memory or the settings.

    other : plan of the same run by connections
    """
    n, memory = network.vertices, settings.memory_bytes
    parts, need = most_parts(network, chip), net_bytes(network, most_parts(network, chip))
    base = _interpreter(network) + other.threads * block_bytes(network)
    table = max(1 << 22, min(8 * n * parts, (memory - base - need) * 3 // 4))
    if base + need + table > memory or net_pins(network) > settings.net_pins:
        return None
    pairs = min(n * settings.degree, network.connections, parts * parts) // 2
    pairs = min(pairs, other.summed // PLACER_BYTES)
    stages = dict.fromkeys(("read", REFINED_BY[settings.objective]), base + need)
    stages["partition"] = base + need + table
    stages["placement"] = base + need + PLACER_BYTES * pairs
    for name in ("check", "score"):
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


def most_parts(network: NetworkFile, chip: Chip) -> int:
    """Return the most cores that a mapping may use; demand by axons is unknown in advance."""
    cores = max(1, chip.usable_count)
    if chip.axons_in is not None or chip.out_limit is not None:
        return cores
    parts = -(-network.meta.total_size // max(1, int(chip.neurons * FILL)))
    if chip.synapse_limit is not None:
        parts += -(-network.connections // max(1, int(chip.synapse_limit * FILL)))
    return max(1, min(cores, parts))


def plan_classic(network: NetworkFile, settings: Settings) -> Plan:
    """Return the plan of the classic method.

    Coarsening by pairs of at most a fifteenth of a core leaves a few tenths of the connections for
    the coarsest graph, which is always held in memory.
    """
    n, m = network.vertices, network.connections
    base = _interpreter(network) + 3 * settings.threads * block_bytes(network)
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


CHECKED = 5  # one in CHECKED nets of a sample is held out for validation
NETS_SEEN = 40  # sampled nets per neuron, on average
FEWEST_SEEN = 16  # with fewer nets the sample overfits
SCORES = 4_000_000_000  # limit of move costs added up per pass; about a second
PIN_BYTES = 24  # bytes per pin of the sample: both lists, and joining them
COUNT_BYTES = 8  # bytes per net and part: pins, and the cost of one more


def net_share(neurons: int, synapses: int, parts: int, memory: int) -> float:
    """Return the share of nets for refinement of streamed parts; 0 if a sample does not help.

    parts : number of parts that refinement moves neurons between; memory : bytes free for the
        sample

    Only nets that reach most parts are sampled: their connectivity is flat, see
    `mapper.hypergraph.expected_reach`. Small nets are all used.
    """
    degree = synapses / max(1, neurons)
    if degree < parts:
        return 0.0
    each = neurons * (PIN_BYTES + COUNT_BYTES * parts / degree)
    seen = min(NETS_SEEN, degree, SCORES / (neurons * parts), memory / each)
    if seen < FEWEST_SEEN:
        return 0.0
    return min(1.0, seen / degree * CHECKED / (CHECKED - 1))


def sample_bytes(neurons: int, synapses: int, parts: int, share: float) -> int:
    """Return the bytes of the sample."""
    return int(share * (PIN_BYTES * synapses + COUNT_BYTES * neurons * parts))
