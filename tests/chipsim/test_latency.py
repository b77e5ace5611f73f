"""Latency estimate: against the reference implementation, by hand, and against the simulator."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chipsim.chip.machine import Block, Machine
from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from chipsim.noc.demand import Demand
from chipsim.noc.load import measure_load
from chipsim.noc.mesh import Mesh
from chipsim.traffic.latency import PacketLatency, RouterTraffic, latency
from chipsim.traffic.links import loads_of, route_flows, turns_of
from tests.chipsim.measured import score
from tests.chipsim.strategies import Case, cases
from tests.reference import chipsim as naive
from tests.reference import link_traffic

ROUND_THE_END = Case(  # three free steps round the end, where one between costs a half
    Chip(
        "torus",
        4,
        2,
        neurons=1,
        machine=Machine(4, 2, "x", (0, 0), chip=Block(2, 2, 0.5), board=Block(4, 2, 0)),
    ),
    core=[1, 0, 2],
    edges=[(0, 2, 1)],
    sizes=[0, 0, 0],
    rates=None,
    undirected=False,
    cuts=[],
)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@settings(max_examples=400)
@given(cases(), st.sampled_from([0.03, 0.3, 1.0]))
@example(ROUND_THE_END, 0.03)
def test_metrics_match_reference(case: Case, tick: float) -> None:
    """With rates that keep links busy for some of the time; for trees and packets."""
    time = ChipTime(tick=tick, link=case.chip.time.link if case.chip.time else 1.0)
    chip = replace(case.chip, time=time)
    rates = case.rates or [1 + v % 4 for v in range(len(case.core))]
    edges = [(s, t, w % 7) for s, t, w in case.edges]
    options = {**case.options(), "rates": np.array(rates, np.int64)}
    found = score(chip, case.cores(), link_traffic.blocks_of(edges, len(case.core)), **options)
    expected = naive.score(
        chip, case.core, edges, sizes=case.sizes, rates=rates, undirected=case.undirected
    )
    assert found["tick_bounds"] == pytest.approx(expected["tick_bounds"], rel=1e-9)
    ours, plain = (metrics.get("noc_latency", {}) for metrics in (found, expected))
    assert ours.pop("advice", None) == plain.pop("advice", None)
    assert ours == pytest.approx(plain, rel=1e-9)


def sent(chip: Chip, source: list[int], target: list[int], weight: list[int]) -> RouterTraffic:
    flows = np.array(source, np.int32), np.array(target, np.int32), np.array(weight, np.int64)
    routes, _ = route_flows(chip, *flows)
    entered = np.bincount(flows[0], flows[2], chip.cores).astype(np.int64)
    return RouterTraffic(loads_of(routes), turns_of(routes), entered)


def test_two_flows_that_meet_by_hand() -> None:
    # Cores 0 and 1 of a row of four send to core 3: they meet at the link from 1 to 2, each with a
    # flit in 4 of 16 cycles. L = 1/2, sum p^2 = 1/8, W = (1/2 - 1/4) / (2 * 1/2) = 1/4. After the
    # meeting flits come one by one and do not wait. No flit waits for a head for another output.
    chip = Chip("hand", 4, 1)
    found = latency(chip, sent(chip, [0, 1], [3, 3], [4, 4]), 1 / 16)
    assert found == PacketLatency(0.5, 1 + 2.5, 1 + 2.5 + 0.25)
    # A flow from 0 to 1 waits for the heads at 1: 1/4 * 1/4 * (1 + 1/4) over the free share of the
    # input, 1 - (1/4 + 1/8) - 1/4 * 1/4.
    found = latency(chip, sent(chip, [0, 0, 1], [1, 3, 3], [2, 4, 4]), 1 / 16)
    behind = 1 / 4 * 1 / 4 * (1 + 1 / 4) / (1 - 3 / 8 - 1 / 16)
    total = 2 * (2 + behind) + 4 * (4 + 1 / 4) + 4 * (3 + 1 / 4)
    assert found.mean == pytest.approx(total / 10)


def test_cores_of_a_tile_wait_for_each_other_by_hand() -> None:
    # Cores 0 and 1 share a router and send to the adjacent core 2, each with a flit in 4 of 16
    # cycles: W = 1/4 before the port as above, and none after it. A third flow stays in the tile.
    chip = Chip("hand", 4, 1, machine=Machine(4, 1, tile=Block(2, 1, 0.0)))
    assert latency(chip, sent(chip, [0, 1], [2, 2], [4, 4]), 1 / 16) == PacketLatency(
        0.5, 2.0, 2.25
    )
    assert latency(chip, sent(chip, [0], [1], [4]), 1 / 16) == PacketLatency(0.25, 1.0, 1.0)


def test_advice_above_the_limit() -> None:
    chip = Chip("hand", 4, 1)
    assert latency(chip, sent(chip, [0, 1], [3, 3], [1, 2]), 0.2).mean  # 0.6 and a rounding error
    flows = sent(chip, [0, 1], [3, 3], [3, 3])
    assert latency(chip, flows, 0.0999).mean is not None
    high = latency(chip, flows, 0.1001)
    assert high.mean is None
    assert high.to_json() == {"load_max": pytest.approx(0.6006), "unloaded": 3.5,
                              "advice": "simulate"}  # fmt: skip
    # A core that sends over many links is as busy as all its traffic.
    chip = Chip("star", 3, 3)
    assert latency(chip, sent(chip, [4] * 4, [1, 3, 5, 7], [1] * 4), 0.2).load_max == 0.8


def test_nothing_is_sent() -> None:
    chip = Chip("idle", 3, 2)
    assert latency(chip, sent(chip, [], [], []), 1.0) == PacketLatency(0.0, 0.0, 0.0)


def random_flows(rng: np.random.Generator, nodes: int) -> Counter[tuple[int, int]]:
    """Return a few targets of each node, with log-normally distributed rates."""
    flows: Counter[tuple[int, int]] = Counter()
    for s in range(nodes):
        rate = rng.lognormal(0, 1)
        for t in rng.choice(nodes, size=int(rng.integers(1, 12)), replace=True):
            if t != s:
                flows[s, int(t)] += 1 + int(1000 * rate * rng.lognormal(0, 1))
    return flows


def estimated_and_simulated(
    chip: Chip, rng: np.random.Generator, busy: float, cycles: int = 12_000, seed: int = 0
) -> tuple[PacketLatency, float]:
    """Return the estimate, and the simulated mean latency, of flows that load a link to `busy`."""
    flows = random_flows(rng, chip.cores)
    source, target = np.array(sorted(flows), np.int32).T
    weight = np.array([flows[pair] for pair in sorted(flows)], np.int64)
    all_sent = sent(chip, source.tolist(), target.tolist(), weight.tolist())
    unit = busy / latency(chip, all_sent, 1.0).load_max * (1 - 1e-9)
    mesh = Mesh.of(chip)
    demand = Demand.from_flows(mesh, source, target, weight, unit)
    assert demand.busiest(mesh) == pytest.approx(busy)
    run = measure_load(mesh, demand, cycles=cycles, warmup=2000, seed=seed)
    assert run.latency_mean is not None
    return latency(chip, all_sent, unit), run.latency_mean


@pytest.mark.sample(3)
@pytest.mark.jit
@pytest.mark.parametrize("busy", [0.1, 0.2, 0.4, 0.6])
def test_mean_latency_is_that_of_the_simulator(busy: float) -> None:
    """Within 3 % of the mean latency each, and within 1 % on average."""
    errors = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        chip = Chip("random", int(rng.integers(3, 11)), int(rng.integers(3, 9)))
        found, simulated = estimated_and_simulated(chip, rng, busy, seed=seed)
        assert found.mean is not None
        assert found.load_max == pytest.approx(busy)
        errors.append(found.mean / simulated - 1)
    assert np.abs(errors).max() < 0.03
    assert np.abs(errors).mean() < 0.01


@pytest.mark.jit
@pytest.mark.parametrize("tile", [(2, 2), (3, 1)])
@pytest.mark.parametrize("busy", [0.1, 0.4, 0.6])
def test_mean_latency_where_cores_share_routers(tile: tuple[int, int], busy: float) -> None:
    """Within 3 % each, including waiting for other cores of the tile."""
    for seed in range(4):
        rng = np.random.default_rng([seed, 3])
        width, height = int(rng.integers(2, 7)) * tile[0], int(rng.integers(2, 6)) * tile[1]
        machine = Machine(width, height, tile=Block(*tile, 0.0))
        chip = Chip("tiles", width, height, machine=machine)
        found, simulated = estimated_and_simulated(chip, rng, busy, seed=seed)
        assert found.mean == pytest.approx(simulated, rel=0.03)


@pytest.mark.jit
@pytest.mark.parametrize("busy", [0.2, 0.6])
@pytest.mark.parametrize("end", [Block(4, 4, 10.0, 1.0, 10), Block(4, 4, 10.0, 0.25, 4)])
def test_mean_latency_over_links_that_differ(busy: float, end: Block) -> None:
    chip = Chip("machine", 8, 8, machine=Machine(8, 8, chip=end))
    rng = np.random.default_rng(1)
    found, simulated = estimated_and_simulated(chip, rng, busy, cycles=20_000)
    assert found.mean == pytest.approx(simulated, rel=0.03)
