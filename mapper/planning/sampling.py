"""Sample sizes: connections between clusters for the initial partition, and nets for refinement.

Large networks are cut into blocks based on the connections between clusters of neurons that memory
holds. On 292,331 clusters of a cortex of a million neurons, 20 connections per cluster give as good
a mapping as 64; with 5 it has 11 hops per spike instead of 6.4. If memory does not hold 20, the
clusters are clustered again (`mapper.partitioning.levels`) until it holds 50, since on 28,067
clusters of the same network 21 are too few: 6.67 hops per spike, compared with 6.40 for 52.

Coarser levels need more connections: with 50 kept per cluster and per vertex of the levels above,
the result is 6.9 hops per spike; with 50 and `LEVEL_DEGREE` it is as good as with 100.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ENOUGH = 20  # connections per cluster in the sample: with fewer, quality falls
ENOUGH_ABOVE = 50  # same after further clustering
CLUSTERED = 3.6  # neurons per cluster, measured
CLUSTERED_AGAIN = 3.2  # clusters per cluster of the next level, measured
LEVEL_DEGREE = 100  # connections kept per vertex of a coarser level; fewer give worse results
KEPT = 64  # approximate connections per cluster of a level in scratch
CLUSTERS_OF_BLOCK = 32  # least clusters per block, so that blocks can have about equal sizes
CLUSTERS_SLACK = 1.6  # ratio of the number of clusters to the number of full ones
LEAST_SHRINK = 0.95  # a level with more than this share of the previous clusters is the last
CHECKED = 5  # one in CHECKED nets of a sample is held out for validation
NETS_SEEN = 40  # sampled nets per neuron, on average
FEWEST_SEEN = 16  # with fewer nets the sample overfits
SCORES = 4_000_000_000  # limit of move costs added up per pass; about a second
PIN_BYTES = 24  # bytes per pin of the sample: both lists, and joining them
COUNT_BYTES = 8  # bytes per net and part: pins, and the cost of one more


@dataclass(frozen=True, slots=True)
class Sample:
    """Connections between clusters, both directions counted.

    clusters : number of clusters of neurons; kept : approximate connections in the sample; whole :
        upper bound of all connections
    levels : number of levels between the neurons and these clusters
    """

    clusters: int
    kept: int
    whole: int
    levels: int = 0

    @property
    def per_cluster(self) -> float:
        return self.kept / max(1, self.clusters)

    @property
    def shown(self) -> str:
        """Connections per cluster, formatted for display."""
        each = self.per_cluster
        return f"{each:,.0f}" if each >= 100 else f"{each:.2g}"

    @property
    def thin(self) -> bool:
        """Whether the sample is too small though the network has more connections."""
        return self.kept < min(self.whole, ENOUGH * self.clusters)

    def facts(self, enough: int | None) -> dict[str, Any]:
        """Return the entry `sample` of report.json; enough : bytes, by `planning.enough_memory`."""
        return {
            "levels": self.levels,
            "clusters": self.clusters,
            "connections": self.kept,
            "per_cluster": round(self.per_cluster, 2),
            "enough_memory": enough,
        }

    def describe(self, enough: int | None) -> str:
        """Return a sentence about the sample; enough : as in `facts`."""
        more = f"{self.levels} more level{'s' if self.levels > 1 else ''} of clusters"
        found = (
            f"the initial partition uses about {self.shown} connections per cluster of "
            f"neurons{f', after {more}' if self.levels else ''}"
        )
        if not self.thin:
            return found
        what = (
            f"--set coarse-degree={ENOUGH}"
            if enough is None
            else f"--memory {-(-enough // (1 << 20))}MiB"
        )
        return f"{found}; fewer than {ENOUGH} give a much worse mapping: use {what} or more"


def sample_of(clusters: int, degree: int, capacity: int, entries: int, levels: int = 0) -> Sample:
    """Return the sample of a network.

    degree : desired connections per cluster of neurons, `coarse_degree`
    capacity : number of connections that memory holds
    entries : number of connections of the network, or of the last level
    """
    if levels:
        degree = max(degree, LEVEL_DEGREE)
    return Sample(clusters, min(degree * clusters, capacity, entries), entries, levels)


def suffices(sample: Sample, degree: int) -> bool:
    """Return whether the sample is large enough; degree : as in `sample_of`."""
    enough = ENOUGH_ABOVE if sample.levels else min(ENOUGH, degree)
    return sample.kept >= min(sample.whole, enough * sample.clusters)


def levels_of(
    neurons: int, entries: int, degree: int, capacities: tuple[int, int], blocks: int
) -> list[Sample]:
    """Return the expected sample of each level of a run; the last one is the final sample.

    entries, degree : as in `sample_of`; capacities : of the first level, and of further levels
    blocks : number of blocks that the network is cut into
    """
    clusters = max(1, int(neurons / CLUSTERED))
    found = [sample_of(clusters, degree, capacities[0], entries)]
    fewest = CLUSTERS_OF_BLOCK * blocks * CLUSTERS_SLACK
    while not suffices(found[-1], degree):
        fewer = max(int(clusters / CLUSTERED_AGAIN), int(fewest))
        if fewer > LEAST_SHRINK * clusters:
            break
        entries = min(entries, KEPT * clusters)
        clusters = fewer
        found.append(sample_of(clusters, degree, capacities[1], entries, len(found)))
    return found


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
