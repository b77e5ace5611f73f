"""Further levels of clusters, beyond memory, until enough connections per cluster fit in memory.

With too few connections per cluster the initial partition misses the structure of the network
(`mapper.planning.sampling`). Connections that do not fit in memory are contracted into scratch, or
onto workers if there are any, and clustered again: little memory costs time, not quality. Every
level is a sample of the previous one, and is processed like the network, step by step, by the same
threads or workers. The rows of a level are deleted once the next level exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import numpy as np

from mapper.graph.by_label import sums_by_label
from mapper.graph.contracted_rows import contract_to_scratch
from mapper.graph.level_rows import contract_on_workers
from mapper.graph.rows import Rows
from mapper.graph.sampled_contraction import sampling_threshold
from mapper.monitoring.context import Context
from mapper.partitioning.label_propagation import number_clusters, propagate, start_clusters
from mapper.planning.sampling import (
    CLUSTERS_OF_BLOCK,
    KEPT,
    LEAST_SHRINK,
    Sample,
    sample_of,
    suffices,
)
from mapper.resume.checkpoint import Arrays
from storage.arrays import Int32


class ClusterLevel(NamedTuple):
    """A graph and its clusters.

    cluster : ndarray[int32], shape (vertices of the rows,), 0 .. clusters - 1
    below : ndarray[int32], the vertex of the rows for every vertex of the network; None if these
        are equal
    made : vertices and connections of each level between the network and the clusters
    """

    rows: Rows
    cluster: Int32
    clusters: int
    below: Int32 | None = None
    made: tuple[tuple[int, int], ...] = ()

    def of_network(self, values: Int32) -> Int32:
        """Project values of the clusters to the vertices of the network."""
        found: Int32 = values[self.cluster]
        return found if self.below is None else found[self.below]


def sample_at(level: ClusterLevel, context: Context) -> Sample:
    """Return the sample of the connections between the clusters of a level that memory holds."""
    settings, plan, *_ = context
    capacity = plan.sampled_above if level.made else plan.sampled
    levels, entries = len(level.made), level.rows.entries
    return sample_of(level.clusters, settings.coarse_degree, capacity, entries, levels)


def cluster_rows(rows: Rows, limit: int, seed: int, name: str, context: Context) -> Int32:
    """Return the cluster of every vertex after rounds of label propagation, as a named step.

    limit : largest size of a cluster, unless a single vertex is larger
    """
    settings, _, steps, monitor, team = context

    def cluster() -> Arrays:
        labels = start_clusters(rows)
        monitor.expect(settings.cluster_rounds * rows.entries)
        for index in range(settings.cluster_rounds):
            moves = propagate(rows, labels, limit, seed, index, team, monitor.advance)
            monitor.note(f"round {index + 1}: {moves:,} of {rows.vertices:,} vertices moved")
        return {"cluster": number_clusters(rows, labels, limit, team)[0]}

    return steps.run_once(name, cluster)["cluster"]


@contextmanager
def clustered_enough(
    level: ClusterLevel, growth: int, blocks: int, context: Context
) -> Iterator[ClusterLevel]:
    """Yield the first level whose clusters have enough connections in memory, or the last level.

    level : the network and its clusters
    growth : upper limit of mean-sized vertices per cluster; blocks : number of blocks that the
        network will be cut into
    """
    settings, _, _, monitor, team = context
    size = int(level.rows.sizes.sum())
    with ExitStack() as held:
        while not suffices(sample_at(level, context), settings.coarse_degree):
            limit = min(growth * size // level.clusters, size // (CLUSTERS_OF_BLOCK * blocks))
            if limit * level.clusters <= size:
                break  # the mean cluster has reached the limit
            depth = len(level.made) + 1
            monitor.expect(2 * level.rows.entries)
            threshold = sampling_threshold(level.rows, KEPT * level.clusters, team, monitor.advance)
            sample = threshold, settings.seed_of(3) + depth
            with ExitStack() as fresh:
                rows = fresh.enter_context(_contracted(level, sample, context))
                held.close()  # the previous level
                held.push(fresh.pop_all())
            where = "in scratch" if rows.executor is None else "on workers"
            monitor.note(
                f"level {depth} {where}: {rows.vertices:,} clusters, {rows.entries // 2:,} "
                "connections between them"
            )
            seed = settings.seed_of(2) + depth
            cluster = cluster_rows(rows, limit, seed, f"cluster {depth}", context)
            made = (*level.made, (rows.vertices, rows.entries // 2))
            below = level.of_network(np.arange(rows.vertices, dtype=np.int32))
            level = ClusterLevel(rows, cluster, int(cluster.max()) + 1, below, made)
            if level.clusters > LEAST_SHRINK * rows.vertices:
                break
        yield level


@contextmanager
def _contracted(level: ClusterLevel, sample: tuple[int, int], context: Context) -> Iterator[Rows]:
    """Yield the graph of the clusters of a level, in scratch or on the workers of its rows.

    sample : threshold and seed, see `mapper.graph.sampled_contraction`
    """
    _, plan, steps, monitor, team = context
    rows, cluster = level.rows, level.cluster
    sizes = sums_by_label(cluster, rows.sizes, level.clusters)
    if rows.executor is not None:
        expected = KEPT * level.clusters
        with contract_on_workers(
            rows, rows.executor, cluster, sizes, sample, expected, monitor.advance
        ) as found:
            yield found
        return
    with steps.spare() as scratch:
        yield contract_to_scratch(
            rows, cluster, sizes, sample, scratch, plan.contracted, team, monitor.advance
        )
