"""How much of a network the first cut sees: a sample of the connections between clusters.

Large networks are cut into blocks from what the memory holds of the connections between clusters of
neurons. On 292,331 clusters of a cortex of a million neurons the mapping is as good with 20 of them
for each cluster as with 64; with 5 it has 11 hops per spike instead of 6.4. Where memory does not
hold 20, clusters are clustered again (`mapper.partitioning.levels`) until it holds 50, for on
28,067 clusters of the same network 21 are too few: 6.67 hops per spike, with 52 it is 6.40.

The coarser a level, the more of its connections count: with 50 kept for each cluster and each
vertex of the levels above it is 6.9 hops; with 50 and `LEVEL_DEGREE` it is as good as with 100.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ENOUGH = 20  # connections that the sample keeps for each cluster: with fewer quality falls
ENOUGH_ABOVE = 50  # the same where clusters were clustered again
CLUSTERED = 3.6  # neurons of a cluster, measured
CLUSTERED_AGAIN = 3.2  # clusters of a cluster of the next level, measured
LEVEL_DEGREE = 100  # connections kept for each vertex of a coarser level, where fewer show less
KEPT = 64  # connections of each cluster that a level in scratch has, about
CLUSTERS_OF_BLOCK = 32  # at least, so that blocks can have about the same size
CLUSTERS_SLACK = 1.6  # clusters that there are for each that would be full
LEAST_SHRINK = 0.95  # a level of more clusters than this share of the one before is the last


@dataclass(frozen=True, slots=True)
class Sample:
    """Connections between clusters, both directions counted.

    clusters : of neurons; kept : connections that the sample has, about; whole : that there are, at
    most
    levels : between the neurons and these clusters
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
        """Connections for each cluster, for people."""
        each = self.per_cluster
        return f"{each:,.0f}" if each >= 100 else f"{each:.2g}"

    @property
    def thin(self) -> bool:
        """Whether there are fewer than what is enough, though the network has more."""
        return self.kept < min(self.whole, ENOUGH * self.clusters)

    def facts(self, enough: int | None) -> dict[str, Any]:
        """The `sample` of report.json; enough : bytes, of `planning.enough_memory`."""
        return {
            "levels": self.levels,
            "clusters": self.clusters,
            "connections": self.kept,
            "per_cluster": round(self.per_cluster, 2),
            "enough_memory": enough,
        }

    def describe(self, enough: int | None) -> str:
        """A sentence about it; enough : as in `facts`."""
        more = f"{self.levels} more level{'s' if self.levels > 1 else ''} of clusters"
        found = (
            f"the first cut sees about {self.shown} connections for each cluster of "
            f"neurons{f', after {more}' if self.levels else ''}"
        )
        if not self.thin:
            return found
        what = (
            f"--set coarse-degree={ENOUGH}"
            if enough is None
            else f"--memory {-(-enough // (1 << 20))}MiB"
        )
        return f"{found}; with fewer than {ENOUGH} the mapping gets much worse: give {what} or more"


def sample_of(clusters: int, degree: int, capacity: int, entries: int, levels: int = 0) -> Sample:
    """The sample of a network.

    degree : connections that are wanted for each cluster of neurons, `coarse_degree`
    capacity : that the memory has space for
    entries : connections of the network, or of the last level
    """
    if levels:
        degree = max(degree, LEVEL_DEGREE)
    return Sample(clusters, min(degree * clusters, capacity, entries), entries, levels)


def suffices(sample: Sample, degree: int) -> bool:
    """Whether clusters need not be clustered again; degree : as in `sample_of`."""
    enough = ENOUGH_ABOVE if sample.levels else min(ENOUGH, degree)
    return sample.kept >= min(sample.whole, enough * sample.clusters)


def levels_of(
    neurons: int, entries: int, degree: int, capacities: tuple[int, int], blocks: int
) -> list[Sample]:
    """What the memory has of each level that a run is likely to make; of the last the sample.

    entries, degree : as in `sample_of`; capacities : of the first level, and of those above
    blocks : into which the network will be cut
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
