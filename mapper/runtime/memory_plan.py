"""What a run will need, stage by stage, before it starts; and how it uses the memory it may have.

The numbers are upper estimates of bytes for each neuron, connection and thread, counted from the
arrays that are alive together in a stage and compared with measured peaks (scripts/bench_scale.py).
"""

from __future__ import annotations

from math import exp, log

from chipsim.chip.model import Chip
from mapper.runtime.net_plan import net_share, sample_bytes
from mapper.runtime.plan import REFINED_BY, Plan
from mapper.runtime.sample import levels_of
from mapper.settings import BY_NETS, Settings
from storage.sorting.sorter import BYTES_PER_ENTRY
from storage.store.network import NetworkFile

INTERPRETER = 190 << 20  # Python, numba and the compiled kernels, measured
LABEL_BYTES = 150  # of a name of a neuron, while the description of the network is read
FEW_LABELS = 10_000  # which are within the measured bytes of the interpreter
BLOCK_BYTES = 64  # of a connection in a block at work: inflated, decoded, narrowed, results
HELD_BYTES = 8  # of a connection in memory: id and weight
NEURON_BYTES = {  # arrays of one entry a neuron that are alive together
    "coarsen": 44,
    "initial partition": 64,
    "refine blocks": 28,
    "split blocks": 40,
    "uncoarsen and refine": 28,
    "groups": 24,
    "refine by hops": 64,
    "score": 24,
}
IDLE_BYTES = 40  # of a neuron in "refine by hops" of networks too large for it
ABOVE_BYTES = 44  # of a neuron in "initial partition" where there are more levels of clusters
LIMITS_BYTES = 90  # of a neuron while axons are counted and vertices exchanged
AXON_BYTES = 28  # of a synapse while vertices are exchanged: in a row, and in a table of pairs
CHAINS = 2  # annealings side by side in a V-cycle, whatever the number of threads
LEVEL_BYTES = 20  # of a connection: all levels, and what is added up to make the next
CHAIN_NEURON_BYTES = 64  # of a neuron in a V-cycle
SMALL = 100_000  # synapses of networks for which time does not matter
PACKET_WORK = 4  # looks at a pin that a V-cycle by packets to cores takes of the same budget
WORTH_A_CYCLE = 4  # looks at all connections that the budget of refinement has for it
WISHING_BYTES = 32  # of a neuron during a round of label propagation
NEURON_BYTES_PER_THREAD = 8  # scratch of that
MOST_THREADS = 64
NET_BYTES = 56  # of a pin: the hypergraph, its coarse levels, its slots, and sorting them
THIN_PINS = 16  # of a net of which some targets stand for all, in large networks
NET_NEURON_BYTES = 300  # of a neuron and its net: arrays of all levels, fingerprints, queues
STREAMED_NET_BYTES = 56  # of a neuron, where nets are streamed
THREADS_SHARE = 8  # this part of the memory is for what each thread has to itself
MATRIX_BYTES = 8  # of two groups, where the traffic of all pairs is summed in matrices
LEAST_MATRICES = 3  # one for each of two threads, and one to work with
HALF_MATRIX_BYTES = 4  # of one of them: what lies below its diagonal is the same
SUMMED_BYTES = 32  # of two groups with traffic when it is summed: in both orders, and copied
GROUP_BYTES = 32  # of a kept connection of groups: as arrays, and packed in runs before
PAIR_BYTES = 8  # of two groups with traffic, while traffic is measured
PLACER_BYTES = 28  # of the same while groups are placed
CORE_BYTES = 280  # of a core and thread while traffic is measured
SAMPLE_BYTES = 24  # of a connection of a sample: all levels, and what is added up to make them
FIRST_SAMPLE_BYTES = 18  # the same where it is of clusters of neurons, whose levels shrink fast
SCRATCH_BYTES = 3.6  # of a connection in a zstd block, ids in random order
SMALL_WEIGHT = 50  # a mean one: hardly any of them is beyond a byte
NEAR_VERTICES = 60_000  # of a block: about so many are told apart by two bytes, with some slack
LIGHT_WEIGHT = 256  # from which on one does not fit a byte
CHECKED_BYTES = 0.2  # of a connection there: degrees, heads, and what does not fit a unit
LEVEL_ROW_BYTES = 3.4  # of a connection of a level in a file of rows
RECORD_BYTES = 5.5  # of a connection between clusters while it is sorted on disk
FILL = 0.97  # of the capacity that cores have on average
STEP_BYTES = 24  # of a neuron in the steps that are kept for `--resume`, compressed
REFINED_BYTES = 2.5  # of the same for each step of refinement by hops
CLASSIC_SHRINK = 0.85  # connections that a round of pairing leaves where there is little structure
CLASSIC_CSR = 12


def block_bytes(network: NetworkFile) -> int:
    """A block at work: a connection takes two bytes of it at least, usually three."""
    return BLOCK_BYTES * min(network.connections, network.meta.largest_block_bytes // 2)


def _interpreter(network: NetworkFile) -> int:
    """What is there before anything is done: Python, kernels, and names of neurons if any."""
    labels = [about.labels or [] for about in network.meta.attributes.values()]
    count = sum(map(len, labels))
    if count <= FEW_LABELS:
        return INTERPRETER
    letters = sum(len(label) for some in labels for label in some)
    return INTERPRETER + LABEL_BYTES * count + 2 * letters


def plan_by_connections(network: NetworkFile, chip: Chip, settings: Settings) -> Plan:
    """Nothing here but the number of threads depends on the threads that are asked for: how the
    memory is shared out decides the result, which is the same for any number of them."""
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
    neurons["refine by hops"] += chained
    if chip.axons_in is not None or chip.out_limit is not None:
        neurons["limits"] = LIMITS_BYTES * n
    free = memory - interpreter - most - max(neurons.values())
    # Held in memory the rows may take half of what is free, so that samples and blocks fit beside.
    held = HELD_BYTES * m <= free // 2
    rows = HELD_BYTES * m if held else 0
    # A sample is there twice while it is added up, and its levels and gathered rows lie beside it.
    left = max(free - rows, 0)
    sampled = max(1 << 16, min(m, left // (4 * HELD_BYTES)))
    shared = memory - interpreter - most - rows
    # No connections are visited, even if half of them are the other direction of another.
    idle = "limits" not in neurons and not cycles and m // 2 > settings.hop_budget
    gather = {"split blocks", "limits"} | (set() if idle else {"refine by hops"})
    gathering = max(size for name, size in neurons.items() if name in gather)
    gathered = max(1 << 22, min(HELD_BYTES * m, (shared - gathering) * 3 // 4))
    # Where clusters are clustered again, all of that lies in scratch but for the clusters.
    above = max(shared - ABOVE_BYTES * n, 0)
    sampled_above = max(1 << 16, min(m, above // SAMPLE_BYTES))
    contracted = max(1 << 22, above * 3 // 4)
    parts = most_parts(network, chip)
    grouped = max(1 << 24, left * 3 // 4)
    summed = max(1 << 24, (shared - neurons["groups"]) * 7 // 8)
    matrix = MATRIX_BYTES * max(1, parts * parts)
    pairs = min(m // 2, parts * parts // 2)  # in one order; far fewer where most traffic is local
    if summed // matrix >= LEAST_MATRICES:
        half = HALF_MATRIX_BYTES * parts * parts
        sums = half + max(half * (min(threads, summed // matrix - 1) - 1), SUMMED_BYTES * pairs)
    else:
        sums = min(summed, GROUP_BYTES * m)
    pairs = min(pairs, summed // PLACER_BYTES)
    stages = {name: base + rows + size for name, size in neurons.items()}
    # where there are proposals nothing is numbered yet, see `number_clusters`
    proposing = WISHING_BYTES + threads * NEURON_BYTES_PER_THREAD
    stages["coarsen"] = max(stages["coarsen"], base + rows + proposing * n)
    stages["split blocks"] += min(gathered, gathered_bytes(network, settings) * m)
    # A level of a V-cycle, and what is added up to make the next; one chain has room for a sample.
    level = LEVEL_BYTES * m
    levels = held and m <= settings.level_budget and 2 * level <= left
    if settings.objective == "multicast":  # small networks have nets in memory or none
        after = base + rows + level + net_bytes(network, most_parts(network, chip))
        few = (
            network.connections <= settings.level_budget
        )  # including those that a run does not read
        levels &= few and not small(network) and after <= memory
    chains = CHAINS if (CHAINS + levels) * level + (CHAINS - 1) * chained <= left else 1
    stages["refine by hops"] += max(
        chains * LEVEL_BYTES * min(m, sampled) + (chains - 1) * chained if cycles else 0,
        0 if held else gathered,
    ) + (level if levels else 0)
    if idle:
        stages["refine by hops"] = base + rows + IDLE_BYTES * n
    stages["groups"] += sums
    if "limits" in stages:
        stages["limits"] += min(grouped, AXON_BYTES * network.connections // 2)
        if "refine by hops" in stages:  # exchanges may follow in that stage, too
            stages["refine by hops"] = max(stages["refine by hops"], stages["limits"])
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
            stages["refine by nets"] = streamed + sampled_nets
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
            stages[REFINED_BY["multicast"]] = stages["refine by nets"]
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
    """The plan with all nets in memory; None if these are too many for it or for the settings.

    other : the same run by connections
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
    """Pins of all nets: synapses, and the neuron of each net."""
    return (2 if network.undirected else 1) * network.meta.synapses + network.vertices


def net_bytes(network: NetworkFile, parts: int) -> int:
    """All nets in memory, with their coarse levels and the traffic of parts."""
    n = network.vertices
    return NET_BYTES * net_pins(network) + NET_NEURON_BYTES * n + MATRIX_BYTES * parts * parts


def small(network: NetworkFile) -> bool:
    """Whether the network is always partitioned by nets, if the memory holds them."""
    return network.meta.synapses <= SMALL


def row_bytes(network: NetworkFile) -> float:
    """Of a connection in a file of rows (`storage.scratch.packed`), ids in random order.

    Differences of ids are as those of random ones; what does not fit their unit follows in four
    bytes. Where weights are large they are shifted to about eight bits, which is two bytes.
    """
    gap = network.vertices**2 / max(1, network.connections)
    beyond = exp(-(2**16) / max(gap, 1.0))
    weight = network.meta.total_weight / max(1, network.meta.synapses)
    return min(2 + 4 * beyond, 4.0) + (1 if weight < SMALL_WEIGHT else 2) + CHECKED_BYTES


def gathered_bytes(network: NetworkFile, settings: Settings) -> int:
    """Of a connection in gathered rows of blocks (`mapper.partitioning.recursive_splitting`).

    A place in the block takes two bytes or four, a weight one or four. Where weights are as
    differences of random times, the heaviest of m is about log(m) mean ones.
    """
    weight = network.meta.total_weight / max(1, network.meta.synapses)
    near = settings.block_vertices <= NEAR_VERTICES
    light = weight * log(max(2, network.connections)) < LIGHT_WEIGHT
    return (2 if near else 4) + (1 if light else 4)


def most_parts(network: NetworkFile, chip: Chip) -> int:
    """Cores that a mapping may use; how many axons ask for is not known before it is made."""
    cores = max(1, chip.usable_count)
    if chip.axons_in is not None or chip.out_limit is not None:
        return cores
    parts = -(-network.meta.total_size // max(1, int(chip.neurons * FILL)))
    if chip.synapse_limit is not None:
        parts += -(-network.connections // max(1, int(chip.synapse_limit * FILL)))
    return max(1, min(cores, parts))


def plan_classic(network: NetworkFile, settings: Settings) -> Plan:
    """Coarsening by pairs with a limit of 1/15 of a core leaves a few tenths of the connections
    for the coarsest graph, which is held in memory whatever the budget."""
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
