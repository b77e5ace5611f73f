"""Random loads: packets sent, measurements, and saturation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import Chip
from chipsim.errors import ChipError
from chipsim.noc.deliver import deliver
from chipsim.noc.demand import Demand
from chipsim.noc.kernel import _bin, _guide
from chipsim.noc.load import Load, measure_load
from chipsim.noc.mesh import Mesh, MeshRun, new_tally
from chipsim.noc.patterns import (
    PATTERNS,
    complement,
    hotspot,
    neighbour,
    permutation,
    transpose,
    uniform,
)
from chipsim.noc.saturation import TOLERANCE, find_saturation
from chipsim.traffic.links import loads_of, route_flows

# Random numbers are modulo 2^64; with the JIT off numpy warns about that.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


def flows_of(mesh: Mesh, flows: list[tuple[int, int, int]], unit: float) -> Demand:
    source, target, weight = np.array(sorted(flows), dtype=np.int64).reshape(-1, 3).T
    return Demand.from_flows(mesh, source.astype(np.int32), target.astype(np.int32), weight, unit)


def sent_packets(mesh: Mesh, demand: Demand, seed: int, cycles: int) -> np.ndarray[Any, Any]:
    """Draw the packets of the first cycles one by one, shape (3, packets), without simulation."""
    from chipsim.noc.kernel import _refill

    run = MeshRun(mesh, demand.feed(seed), new_tally(mesh), (0, cycles))
    found = []
    for v in range(mesh.nodes):
        while run.sources.time[v] < cycles:
            target = int(run.sources.flit[v]) & ((1 << mesh.node_bits) - 1)
            found.append((int(run.sources.time[v]), v, target))
            node = np.array([v], dtype=np.int32)
            _refill(run.sources, run.feed, run.tally, node, 1, mesh.node_bits, 0, cycles, 0)
    return np.array(found, dtype=np.int64).reshape(-1, 3).T


LOADS: dict[str, tuple[Mesh, Demand]] = {
    "uniform": (Mesh(4, 3, 2), uniform(Mesh(4, 3), 0.3)),
    "hotspot": (Mesh(3, 3), hotspot(Mesh(3, 3), 0.2, 0.4)),
    "saturated": (Mesh(3, 3, 1), uniform(Mesh(3, 3), 1.0)),
    "neighbour": (Mesh(1, 5, 3), neighbour(Mesh(1, 5), 0.4)),
    "flows": (Mesh(3, 2), flows_of(Mesh(3, 2), [(0, 5, 3), (0, 1, 1), (4, 0, 9), (4, 4, 1)], 0.05)),
    "none": (Mesh(2, 2), flows_of(Mesh(2, 2), [], 1.0)),
}


@pytest.mark.parametrize("name", LOADS)
def test_a_random_load_equals_its_explicit_packets(name: str) -> None:
    mesh, demand = LOADS[name]
    warmup, cycles, drain = 30, 90, 150
    found = measure_load(mesh, demand, cycles=cycles, warmup=warmup, drain=drain, seed=3)
    end = warmup + cycles
    created, source, target = sent_packets(mesh, demand, 3, end + drain)
    given = deliver(mesh, created, source, target, limit=end + found.drained)
    measured = (created >= warmup) & (created < end)
    arrived = measured & (given.delivered >= 0)
    latency = (given.delivered - created)[arrived]
    assert (found.packets, found.delivered) == (measured.sum(), arrived.sum())
    assert found.undelivered == found.packets - found.delivered
    assert found.histogram.tolist() == (np.bincount(latency).tolist() if len(latency) else [])
    assert found.latency_sum == latency.sum()
    assert found.sent.tolist() == np.bincount(source[measured], minlength=mesh.nodes).tolist()
    during = (given.delivered >= warmup) & (given.delivered < end)
    assert found.received.tolist() == np.bincount(target[during], minlength=mesh.nodes).tolist()
    before, after = (
        deliver(mesh, created, source, target, limit=limit).links for limit in (warmup, end)
    )
    assert found.links.tolist() == (after - before).tolist()
    if len(latency):
        assert found.latency_mean == pytest.approx(latency.mean())
        assert found.latency_max == latency.max()
        for percent in (1, 50, 99, 100):
            exact = np.percentile(latency, percent, method="inverted_cdf")
            assert found.percentile(percent) == exact
    if name == "saturated":
        assert found.lag > TOLERANCE
        assert found.undelivered > 0
        assert found.drained == drain
    else:
        assert (found.lag, found.undelivered) == (0.0, 0) or name == "hotspot"
        assert found.drained < drain


def test_no_load_at_all() -> None:
    mesh, demand = LOADS["none"]
    found = measure_load(mesh, demand, cycles=10)
    assert (found.packets, found.offered, found.accepted) == (0, 0.0, 0.0)
    assert (found.latency_mean, found.latency_max, found.percentile(99)) == (None, None, None)
    assert (found.lag, found.drained) == (0.0, 0)
    assert find_saturation(mesh, demand, cycles=10).scale is None
    assert demand.busiest(mesh) == 0


@pytest.mark.parametrize("name", ["uniform", "hotspot", "neighbour", "flows"])
def test_packet_rate_matches_the_load(name: str) -> None:
    mesh, demand = LOADS[name]
    cycles = 4000
    created, source, target = sent_packets(mesh, demand, 7, cycles)
    assert len(np.unique(created * mesh.nodes + source)) == len(source), "one a node and cycle"
    counts = np.zeros((mesh.nodes, mesh.nodes))
    np.add.at(counts, (source, target), 1)
    chance = np.zeros((mesh.nodes, mesh.nodes))
    chance += demand.rate[:, None] * demand.spread / mesh.nodes
    rows = np.repeat(np.arange(mesh.nodes), np.diff(demand.indptr))
    np.add.at(chance, (rows, demand.choice), demand.flows())
    assert chance.sum(axis=1) == pytest.approx(demand.rate)
    spread = np.sqrt(cycles * chance * (1 - chance))
    assert (abs(counts - cycles * chance) <= 5 * spread).all()
    # The gaps are memoryless, so the sample may be split anywhere.
    gaps = np.diff(np.unique(created[source == 4]))
    rate = demand.rate[4]
    assert (gaps == 1).mean() == pytest.approx(rate, abs=5 * np.sqrt(rate / len(gaps)))


def test_the_seed_decides_all() -> None:
    mesh, demand = LOADS["uniform"]
    runs = [measure_load(mesh, demand, cycles=50, seed=seed) for seed in (1, 1, 2)]
    histograms = [run.histogram.tolist() for run in runs]
    assert histograms[0] == histograms[1] != histograms[2]


def test_every_number_finds_its_entry_from_its_bin() -> None:
    rng = np.random.default_rng(0)
    for largest in (1, 3, 1000, 2**40):
        degree = rng.integers(0, 9, 12)
        indptr = np.concatenate([[0], np.cumsum(degree)])
        weights = [rng.integers(1, largest + 1, n) for n in degree]
        below = np.concatenate([np.cumsum(w) for w in weights])
        guide = _guide(indptr, below)
        for v, low in enumerate(indptr[:-1]):
            if not degree[v]:
                continue
            sums = below[low : low + degree[v]]
            edges = np.concatenate([[0], sums, sums - 1])
            numbers = np.unique(np.concatenate([edges, rng.integers(0, sums[-1], 50)]))
            for number in numbers[numbers < sums[-1]]:
                exact = int(np.searchsorted(sums, number, side="right"))
                start = guide[low + _bin(number, sums[-1], degree[v])]
                assert start <= exact
                assert exact - start <= degree[v]


@pytest.mark.parametrize("pattern", [*PATTERNS, "permutation"])
@pytest.mark.parametrize(("width", "height"), [(4, 4), (5, 5), (1, 1)])
def test_expected_loads_match_all_routes(pattern: str, width: int, height: int) -> None:
    mesh = Mesh(width, height)
    if pattern == "permutation":
        demand = permutation(mesh, 0.3, np.random.default_rng(2).permutation(mesh.nodes))
    else:
        demand = PATTERNS[pattern](mesh, 0.3)
    scale = 10**12
    flow = np.zeros((mesh.nodes, mesh.nodes))
    flow += demand.rate[:, None] * demand.spread / mesh.nodes
    rows = np.repeat(np.arange(mesh.nodes), np.diff(demand.indptr))
    np.add.at(flow, (rows, demand.choice), demand.flows())
    assert flow.sum(axis=1) == pytest.approx(0.3)
    source, target = (part.astype(np.int32) for part in np.nonzero(flow))
    weight = np.rint(flow[source, target] * scale).astype(np.int64)
    differences, _ = route_flows(Chip("mesh", width, height), source, target, weight)
    links, received = demand.expected(mesh)
    np.testing.assert_allclose(links, loads_of(differences) / scale, atol=1e-9)
    np.testing.assert_allclose(received, flow.sum(axis=0))
    assert demand.busiest(mesh) == max(links.max(), received.max(), 0.3)


def test_targets_of_patterns() -> None:
    mesh = Mesh(4, 4)
    assert transpose(mesh, 0.1).choice.reshape(4, 4)[1, 3] == 3 * 4 + 1
    assert complement(mesh, 0.1).choice.tolist() == [v ^ 15 for v in range(16)]
    inner = neighbour(mesh, 0.1)
    assert np.diff(inner.indptr).tolist() == [2, 3, 3, 2, 3, 4, 4, 3, 3, 4, 4, 3, 2, 3, 3, 2]
    assert inner.choice[inner.indptr[5] : inner.indptr[6]].tolist() == [1, 4, 6, 9]
    hot = hotspot(mesh, 0.1, 0.25, node=3)
    assert (hot.spread, set(hot.choice.tolist())) == (0.75, {3})
    assert set(hotspot(mesh, 0.1).choice.tolist()) == {10}


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_uniform_traffic_matches_the_formula() -> None:
    """lambda (i + 1) (k - 1 - i) / k on the link across cut i | i + 1, 2 (k^2 - 1) / (3 k) hops."""
    k, rate = 8, 0.1
    found = measure_load(Mesh(k, k), uniform(Mesh(k, k), rate), cycles=400_000, seed=1)
    i = np.arange(k - 1)
    cuts = rate * (i + 1) * (k - 1 - i) / k
    east, west, south, north = found.links / found.cycles
    # Each cut has k equal links in each direction.
    for loads in (east[:, :-1], west[:, 1:], south[:-1].T, north[1:].T):
        np.testing.assert_allclose(loads.mean(axis=0), cuts, rtol=0.01)
        np.testing.assert_allclose(loads, np.tile(cuts, (k, 1)), rtol=0.03)
    hops = found.links.sum() / found.received.sum()
    assert hops == pytest.approx(2 * (k * k - 1) / (3 * k), rel=0.01)
    assert found.offered == pytest.approx(rate, rel=0.01)
    assert found.accepted == pytest.approx(rate, rel=0.01)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize(("depth", "reference"), [(4, 0.357), (8, 0.386)])
def test_saturation_of_an_8x8_mesh_matches_the_literature(depth: int, reference: float) -> None:
    """Accepted load beyond saturation, and the largest carried load (docs/simulator.md)."""
    mesh = Mesh(8, 8, depth)
    flooded = measure_load(mesh, uniform(mesh, 1.0), cycles=20_000, drain=0)
    assert 0.35 < flooded.accepted < 0.39
    assert flooded.accepted == pytest.approx(reference, rel=0.01)
    found = find_saturation(mesh, uniform(mesh, 1.0), cycles=10_000)
    assert found.bound == pytest.approx(4 / 8)
    assert found.scale is not None
    assert 0.35 <= found.scale <= 0.39
    assert found.accepted == pytest.approx(found.offered, rel=0.02)


@pytest.mark.heavy
@pytest.mark.sample(3)
@pytest.mark.jit
@pytest.mark.parametrize(("width", "height", "depth"), [(2, 2, 1), (3, 3, 1), (4, 3, 2), (1, 6, 1)])
def test_saturated_meshes_do_not_deadlock(width: int, height: int, depth: int) -> None:
    """In 250,000 cycles of a load of 1 every node keeps receiving to the end."""
    mesh = Mesh(width, height, depth)
    run = MeshRun(mesh, uniform(mesh, 1.0).feed(9), new_tally(mesh), (0, 250_000))
    before = np.zeros(mesh.nodes)
    for part in range(1, 51):
        run.until(5000 * part, 250_000)
        received = run.tally.passed.reshape(-1, 5)[:, 4].copy()
        assert (received - before > 100).all()
        before = received


def test_saturation_of_a_flow_without_rivals_is_its_bound() -> None:
    mesh = Mesh(4, 1, 2)
    alone = find_saturation(mesh, flows_of(mesh, [(0, 3, 2)], 0.1), cycles=200)
    assert (alone.scale, alone.bound, alone.runs) == (5.0, 5.0, 1)
    one = Mesh(4, 1, 1)  # an input of one flit accepts one every second cycle
    half = find_saturation(one, flows_of(one, [(0, 3, 2)], 0.1), cycles=2000, precision=0.02)
    assert half.scale == pytest.approx(2.5, rel=0.1)
    assert half.accepted * 4 == pytest.approx(0.5, rel=0.1)


@pytest.mark.jit
def test_two_flows_over_one_link_saturate_when_it_is_full() -> None:
    """The starved source is detected although most traffic is elsewhere and flows freely."""
    mesh = Mesh(3, 4, 4)
    free = [(node, node, 40) for node in range(3, 12)]
    both = flows_of(mesh, [(0, 2, 10), (1, 2, 10), *free], 0.01)
    found = find_saturation(mesh, both, cycles=3000, precision=0.04)
    assert found.bound == pytest.approx(2.5)  # the flows within a node
    lone = flows_of(mesh, [(0, 2, 30), (1, 2, 30), *free], 0.01)
    found = find_saturation(mesh, lone, cycles=3000, precision=0.04)
    assert found.bound == pytest.approx(1 / 0.6)
    assert found.scale == pytest.approx(1 / 0.6, rel=0.08)


def test_lag_is_the_share_that_a_source_cannot_send() -> None:
    mesh = Mesh(3, 1, 4)
    over = flows_of(mesh, [(0, 2, 8), (1, 2, 8)], 0.1)
    found: Load = measure_load(mesh, over, cycles=2000, warmup=0, drain=0)
    assert found.lag == pytest.approx(1 - 0.5 / 0.8, abs=0.05)
    assert found.accepted * 3 == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: transpose(Mesh(3, 2), 0.1), "transpose: the mesh is 3x2"),
        (lambda: permutation(Mesh(2, 2), 0.1, [0, 1, 1, 2]), "each of the nodes 0 to 3 once"),
        (lambda: permutation(Mesh(2, 2), 0.1, [0, 1]), "each of the nodes 0 to 3 once"),
        (lambda: hotspot(Mesh(2, 2), 0.1, node=4), "node 4 is outside"),
        (lambda: hotspot(Mesh(2, 2), 0.1, 1.5), "the share is 1.5"),
        (lambda: uniform(Mesh(2, 2), -0.5), "node 0 has the rate -0.5"),
        (lambda: uniform(Mesh(2, 2), float("nan")), "node 0 has the rate nan"),
        (
            lambda: measure_load(Mesh(2, 2), uniform(Mesh(2, 2), 1.5), cycles=5),
            "node 0 sends 1.5 flits per cycle; the maximum is 1: scale the load by 0.6667",
        ),
        (
            lambda: measure_load(Mesh(2, 2), uniform(Mesh(3, 3), 0.5), cycles=5),
            "built for 9 nodes, but the mesh has 4",
        ),
        (lambda: measure_load(Mesh(2, 2), uniform(Mesh(2, 2), 0.5), cycles=0), "cycles 0"),
        (lambda: flows_of(Mesh(2, 2), [(0, 4, 1)], 1.0), "with nodes of the mesh"),
        (lambda: flows_of(Mesh(2, 2), [(0, 1, 0)], 1.0), "weights above 0"),
    ],
)
def test_bad_loads(make: Any, message: str) -> None:
    with pytest.raises(ChipError) as error:
        make()
    assert message in str(error.value)
