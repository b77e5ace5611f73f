"""Clusters of vertices that share many small, heavy nets.

Heavy-edge clustering (Catalyurek and Aykanat 1999, as in Mt-KaHyPar, Gottesbueren, Heuer, Sanders
and Schlag, ALENEX 2021): in random order, each vertex joins the cluster with the highest sum of
weight / (pins - 1) over shared nets, divided by the size of the cluster, within a size limit.
Vertices with many pins consider only some of their nets.

Without the division by size the mean cut of eight bisections of ibm01 is 354 instead of 288.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mapper.hypergraph.hypergraph import Hypergraph, contract
from storage.arrays import Int32

LARGE_NET = 2000  # nets with more pins are ignored: they carry no information on clusters
BUDGET = 4000  # pins that a vertex considers, approximately
STEP = 0.4  # share of the vertices that a level keeps, at least
TWINS = 0.5  # share of the vertices that a level of identical vertices keeps, at most


@njit(cache=True, nogil=True)
def _cluster(graph, order, part, limit, budget, large, least, cluster):
    """Let vertices join clusters within their parts, in the given order, until few are left.

    part : ndarray[int32], only vertices of the same part join
    limit : maximum size of a cluster
    least : number of clusters at which to stop
    cluster : filled with the number of a vertex of the cluster
    Returns the number of clusters.
    """
    start, pins, weights, vertex_start, nets, sizes = graph
    n = sizes.size
    cluster_sizes = np.empty(n, np.int64)  # sizes of clusters
    rating = np.zeros(n)
    connected = np.empty(n, np.int32)
    seen = np.zeros(n, np.int64)
    for v in range(n):
        cluster[v] = v
        cluster_sizes[v] = sizes[v]
    joined = np.zeros(n, np.uint8)  # 1 for vertices in clusters of several
    left = n
    stamp = 0
    for v in order:
        if left <= least:
            break
        if joined[v]:
            continue
        work = 0
        for i in range(vertex_start[v], vertex_start[v + 1]):
            length = start[nets[i] + 1] - start[nets[i]]
            work += length if length <= large else 0
        step = max(1, work // budget)
        count = 0
        for i in range(vertex_start[v] + v % step, vertex_start[v + 1], step):
            e = nets[i]
            length = start[e + 1] - start[e]
            if length > large or weights[e] == 0:
                continue
            score = weights[e] / (length - 1)
            stamp += 1
            for p in range(start[e], start[e + 1]):
                c = cluster[pins[p]]
                if seen[c] == stamp:  # a net counts once per cluster
                    continue
                seen[c] = stamp
                if rating[c] == 0.0:
                    connected[count] = c
                    count += 1
                rating[c] += score
        best = v
        best_rating = 0.0
        for t in range(count):
            c = connected[t]
            r = rating[c]
            rating[c] = 0.0
            if c == v or part[c] != part[v] or cluster_sizes[c] + cluster_sizes[v] > limit:
                continue
            r /= max(cluster_sizes[c], 1)
            # ties: the smaller cluster, so that clusters grow evenly
            if r > best_rating or (r == best_rating and cluster_sizes[c] < cluster_sizes[best]):
                best = c
                best_rating = r
        if best_rating == 0.0:
            continue
        cluster[v] = best
        cluster_sizes[best] += cluster_sizes[v]
        joined[v] = 1
        joined[best] = 1
        left -= 1
    return left


@njit(cache=True, nogil=True)
def _views(start, pins, salt, inward, outward):
    """Compute a hash of the nets that reach each vertex, and of the pins of its own nets.

    salt : ndarray[uint64], random numbers, at least one per net and vertex
    """
    for e in range(start.size - 1):
        total = np.uint64(0)
        for p in range(start[e] + 1, start[e + 1]):
            inward[pins[p]] += salt[e]
            total += salt[pins[p]]
        if start[e + 1] > start[e]:
            outward[pins[start[e]]] += total


@njit(cache=True, nogil=True)
def _pack_equal(order, keys, part, sizes, limit, cluster):
    """Cluster consecutive vertices of equal keys and parts, up to a maximum size."""
    count = 0
    cluster_sizes = np.int64(0)
    for i in range(order.size):
        v = order[i]
        u = order[i - 1] if i > 0 else v
        cluster_sizes += sizes[v]
        if i > 0 and (keys[u] != keys[v] or part[u] != part[v] or cluster_sizes > limit):
            count += 1
            cluster_sizes = sizes[v]
        cluster[v] = count
    return count + 1


def join_twins(
    graph: Hypergraph, part: Int32, limit: int, rng: np.random.Generator, directed: bool = False
) -> tuple[Hypergraph, Int32] | None:
    """Return a level whose clusters are vertices in the same nets, apart from their own nets.

    Neurons of a layer with the same input window, in all feature maps, are such vertices; their
    nets become equal, so that a level costs a fraction. None if few vertices are identical.
    """
    n = graph.vertices
    salt = rng.integers(0, 1 << 63, max(n, graph.net_count)).astype(np.uint64)
    inward, outward = np.zeros((2, n), np.uint64)
    with np.errstate(over="ignore"):  # modulo 2^64, also with the JIT off
        _views(graph.start, graph.pins, salt, inward, outward)
        keys = inward * np.uint64(3) + outward
    cluster = np.empty(n, np.int32)
    order = np.lexsort((keys, part))
    count = _pack_equal(order, keys, part, graph.sizes, limit, cluster)
    if count > TWINS * n:
        return None
    return contract(graph, cluster, count, directed), cluster


def coarsen(
    graph: Hypergraph,
    part: Int32,
    limit: int,
    least: int,
    rng: np.random.Generator,
    directed: bool = False,
) -> tuple[Hypergraph, Int32]:
    """Coarsen by one level; return the hypergraph of clusters, and the cluster of every vertex.

    part : ndarray[int32], shape (vertices,); clusters stay within parts
    limit : maximum size of a cluster
    least : minimum number of clusters; `STEP` is another minimum
    directed : see `contract`
    """
    n = graph.vertices
    least = max(least, int(STEP * n))
    cluster = np.empty(n, np.int32)
    _cluster(graph, rng.permutation(n), part, limit, BUDGET, LARGE_NET, least, cluster)
    leaders = np.unique(cluster)
    number: Int32 = np.searchsorted(leaders, cluster).astype(np.int32)
    return contract(graph, number, leaders.size, directed), number
