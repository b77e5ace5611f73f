"""How much of a network the first cut sees: a sample of the connections between clusters.

Large networks are cut into blocks from what the memory holds of the connections between clusters of
neurons. On 292,331 clusters of a cortex of a million neurons the mapping is as good with 20 of them
for each cluster as with 64; with 5 it has 11 hops per spike instead of 6.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ENOUGH = 20  # connections that the sample keeps for each cluster: with fewer quality falls
CLUSTERED = 3.6  # neurons of a cluster, measured


@dataclass(frozen=True, slots=True)
class Sample:
    """Connections between clusters, both directions counted.

    clusters : of neurons; kept : connections that the sample has, about; whole : that there are, at
    most
    """

    clusters: int
    kept: int
    whole: int

    @property
    def per_cluster(self) -> float:
        return self.kept / max(1, self.clusters)

    @property
    def thin(self) -> bool:
        """Whether there are fewer than what is enough, though the network has more."""
        return self.kept < min(self.whole, ENOUGH * self.clusters)

    def facts(self, enough: int | None) -> dict[str, Any]:
        """The `sample` of report.json; enough : bytes, of `memory_plan.enough_memory`."""
        return {
            "clusters": self.clusters,
            "connections": self.kept,
            "per_cluster": round(self.per_cluster, 2),
            "enough_memory": enough,
        }

    def describe(self, enough: int | None) -> str:
        """A sentence about it; enough : as in `facts`."""
        found = (
            f"the first cut sees about {self.per_cluster:.2g} connections for each cluster of "
            "neurons"
        )
        if not self.thin:
            return found
        what = (
            f"--set coarse-degree={ENOUGH}"
            if enough is None
            else f"--memory {-(-enough // (1 << 20))}MiB"
        )
        return f"{found}; with fewer than {ENOUGH} the mapping gets much worse: give {what} or more"


def sample_of(clusters: int, degree: int, capacity: int, entries: int) -> Sample:
    """The sample of a network.

    degree : connections that are wanted for each cluster; capacity : that the memory has space for
    entries : connections of the network
    """
    return Sample(clusters, min(degree * clusters, capacity, entries), entries)
