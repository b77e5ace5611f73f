"""Metrics against the reference implementation, hand-computed cases, and each other."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipsim.chip.energy import ChipEnergy
from chipsim.chip.faults import working_links
from chipsim.chip.machine import Machine
from chipsim.chip.model import Chip
from chipsim.chip.presets import PRESETS
from chipsim.errors import ChipError
from chipsim.traffic.activity import Activity
from chipsim.traffic.arrays import Traffic, Units, measure
from chipsim.traffic.congestion import Walks
from chipsim.traffic.energies import CountedWork, energy_of_run
from tests.chipsim.measured import score
from tests.chipsim.strategies import Case, cases
from tests.reference import chipsim as naive
from tests.reference import link_traffic, mesh_routes

# The first example waits for the compiler or its cache.
several = settings(max_examples=150)


def measured(case: Case) -> Traffic:
    return measure(case.chip, case.cores(), case.blocks(), **case.options())


def assert_close(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        if isinstance(value, dict):
            assert_close(found[name], value)
        elif isinstance(value, str):
            assert found[name] == value
        else:
            assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@settings(max_examples=500)
@given(cases(), st.sampled_from([1.0, 0.5, 1e-3]), st.sampled_from([1.0, 0.25]))
def test_score_matches_reference(case: Case, weight_unit: float, rate_unit: float) -> None:
    units = Units(weight_unit, rate_unit)

    def expected(chip: Chip) -> dict[str, Any]:
        return naive.score(
            chip,
            case.core,
            case.edges,
            sizes=case.sizes,
            rates=case.rates,
            undirected=case.undirected,
            weight_unit=weight_unit,
            rate_unit=rate_unit,
        )

    chip = case.chip
    try:
        wanted = expected(chip)
    except np.linalg.LinAlgError:  # a queue is exactly full: the reference has no cycles of a tick
        chip = replace(chip, time=None)
        wanted = expected(chip)
    found = score(chip, case.cores(), case.blocks(), **case.options(), units=units)
    assert_close(found, wanted)
    assert json.loads(json.dumps(found)) == found


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@several
@given(cases())
def test_arrays_match_reference(case: Case) -> None:
    found = measured(case)
    chip, core, edges = case.chip, case.core, case.edges
    unicast = link_traffic.unicast_loads(chip, core, edges, case.undirected)
    connectivity, trees = link_traffic.multicast(chip, core, edges, case.rates)
    assert found.unicast_links.tolist() == mesh_routes.grid(chip, unicast)
    assert found.multicast_links.tolist() == mesh_routes.grid(chip, trees)
    assert found.connectivity == connectivity
    casts, active = link_traffic.core_casts(chip, core, edges, case.rates)
    assert found.core_links.tolist() == mesh_routes.grid(chip, casts)
    assert {f.name: getattr(found.activity, f.name).tolist() for f in fields(Activity)} == active
    expected = link_traffic.congestion(chip, core, edges, case.undirected)
    np.testing.assert_allclose(found.congestion, expected, rtol=1e-9, atol=1e-12)
    for name, use in naive.usage(chip, core, edges, case.sizes).items():
        assert getattr(found.usage, name).tolist() == use, name


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@several
@given(cases(), st.booleans())
def test_cutting_into_blocks_changes_nothing(case: Case, backwards: bool) -> None:
    whole = score(
        case.chip,
        case.cores(),
        link_traffic.blocks_of(case.edges, len(case.core)),
        **case.options(),
    )
    blocks = case.blocks()[:: -1 if backwards else 1]
    assert score(case.chip, case.cores(), iter(blocks), **case.options()) == whole
    assert {block.calls for block in blocks} == {1}


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@several
@given(cases())
def test_conservation(case: Case) -> None:
    """Every hop loads one link, and a spike over d hops visits d + 1 routers."""
    found = measured(case)
    metrics = score(case.chip, case.cores(), case.blocks(), **case.options())
    works = working_links(case.chip)
    assert found.unicast_links[works].sum() == metrics["hops_total"]
    assert found.unicast_links.sum() == metrics["hops_total"]
    visits = metrics["hops_total"] + metrics["cut_weight"]
    assert found.congestion.sum() == pytest.approx(visits, rel=1e-9)
    assert works.sum() == case.chip.links


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@several
@given(cases())
def test_hops_increase_from_trees_to_cores_to_synapses(case: Case) -> None:
    found = score(case.chip, case.cores(), case.blocks(), **case.options())
    multicast = found["multicast"]
    assert multicast["hops_total"] <= found["core"]["hops_total"]
    assert found["core"]["hops_total"] <= multicast["unicast_hops_total"]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@several
@given(cases())
def test_unicast_hops_are_the_same_where_synapses_carry_rates(case: Case) -> None:
    """The two ways to sum hops agree on networks whose weights are the rates of their sources."""
    rates = case.rates or [1 + v % 3 for v in range(len(case.core))]
    edges = [(s, t, rates[s] + rates[t] if case.undirected else rates[s]) for s, t, _ in case.edges]
    blocks = link_traffic.blocks_of(edges, len(case.core))
    options = {**case.options(), "rates": np.array(rates, np.int64)}
    found = score(case.chip, case.cores(), blocks, **options)
    assert found["multicast"]["unicast_hops_total"] == found["hops_total"]


def test_two_neurons_by_hand() -> None:
    # Neuron 0 on core 0 = (0, 0), neuron 1 on core 5 = (2, 1) of a 3x2 mesh; weight 8; d = 3.
    chip = Chip(
        "hand",
        3,
        2,
        neurons=4,
        energy_router=2.0,
        energy_link=10.0,
        latency_router=1.0,
        latency_link=0.5,
    )
    edges = [(0, 1, 8)]
    core = np.array([0, 5], dtype=np.int32)
    sizes = np.array([1, 3])
    traffic = measure(chip, core, link_traffic.blocks_of(edges, 2), sizes=sizes)
    east, west, south, north = traffic.unicast_links.tolist()
    assert east == [[8, 8, 0], [0, 0, 0]]  # x first: along row 0
    assert south == [[0, 0, 8], [0, 0, 0]]  # then down column 2
    assert not np.any(west) and not np.any(north)
    # From (0, 0): half right, half down. The lower half goes straight along row 1. Of the 4 at (1,
    # 0) half goes down again, so (1, 1) gets 4 + 2.
    assert traffic.congestion.tolist() == [[8, 4, 2], [4, 6, 8]]
    links = {"link_load_max": 8, "link_load_mean": 24 / 14, "link_load_p99": 8.0}
    links |= {"router_load_max": 8, "router_load_mean": 32 / 6}
    assert score(chip, core, link_traffic.blocks_of(edges, 2), sizes=sizes) == {
        "cut_weight": 8,
        "cut_fraction": 1.0,
        "hops_total": 24,
        "hops_mean": 3.0,
        "hops_max": 3,
        "energy": 8 * (4 * 2.0 + 3 * 10.0),
        "latency_mean": 5.5,
        "latency_max": 5.5,
        **links,
        "congestion_mean": 32 / 6,
        "congestion_max": 8.0,
        "core": {"packets": 8, "hops_total": 24, **links},
        "multicast": {"connectivity": 8, "hops_total": 24, "unicast_hops_total": 24, **links},
        "cores_used": 2,
        "core_fill_mean": 0.5,
        "core_fill_max": 0.75,
    }


@pytest.mark.parametrize("hops", [(0, 0), (1, 0), (0, 1), (5, 2)])
def test_hop_costs_on_loihi_match_its_paper(hops: tuple[int, int]) -> None:
    """A spike passes a tile once, then hops between tiles; a tile is 2x2 cores.

    A hop costs 3.0 pJ and 4.1 ns east-west, 4.0 pJ and 6.5 ns north-south.
    """
    chip, (x, y) = PRESETS["loihi"], hops
    core = np.array([0, 2 * y * chip.width + 2 * x + 1], dtype=np.int32)
    blocks = link_traffic.blocks_of([(0, 1, 3)], 2)
    found = score(chip, core, blocks, sizes=np.ones(2, np.int64))
    assert found["hops_max"] == x + y
    assert found["energy"] == pytest.approx(3 * (1.7 + 3.0 * x + 4.0 * y))
    assert found["latency_max"] == pytest.approx(2.1 + 4.1 * x + 6.5 * y)
    assert found["machine"]["cost_total"] == pytest.approx(3 * (3.0 * x + 4.0 * y))


def test_multicast_tree_shares_links() -> None:
    # A source in the middle (1, 1) of 3x3 reaches (0, 0), (2, 0), (2, 2) and its own core.
    # Routes: west, north | east, north | east, south. The east link is shared: 5 links, not 6.
    chip = Chip("hand", 3, 3)
    edges = [(0, 1, 2), (0, 2, 7), (0, 3, 1), (0, 4, 1)]
    core = np.array([4, 0, 2, 8, 4], dtype=np.int32)
    sizes = np.ones(5, dtype=np.int64)
    found = score(chip, core, link_traffic.blocks_of(edges, 5), sizes=sizes)
    assert found["multicast"]["connectivity"] == 7 * 3  # the rate is the largest weight
    assert found["multicast"]["hops_total"] == 7 * 5
    assert found["multicast"]["link_load_max"] == 7
    assert found["core"] == {
        "packets": 7 * 3, "hops_total": 7 * 6, "link_load_max": 14,
        "link_load_mean": 7 * 6 / 24, "link_load_p99": pytest.approx(14, rel=0.2),
        "router_load_max": 7 * 3, "router_load_mean": 7 * 9 / 9,
    }  # fmt: skip
    assert found["hops_total"] == 2 * (2 + 7 + 1)
    assert found["link_load_max"] == 7 + 1
    rates = np.array([3, 9, 9, 9, 9])
    found = score(
        chip,
        core,
        link_traffic.blocks_of(edges, 5),
        sizes=sizes,
        rates=rates,
        units=Units(rate=0.5),
    )
    assert found["multicast"]["hops_total"] == 0.5 * 3 * 5  # neurons without targets add none


def test_undirected_edge_counts_once() -> None:
    # Neurons 0 on core 1, 1 on core 0 of 2x1: one edge of weight 5, listed at both ends.
    chip = Chip("hand", 2, 1)
    edges = [(0, 1, 5), (1, 0, 5)]
    core = np.array([1, 0], dtype=np.int32)
    traffic = measure(
        chip, core, link_traffic.blocks_of(edges, 2), sizes=np.array([1, 1]), undirected=True
    )
    works = working_links(chip)
    assert traffic.unicast_links[works].tolist() == [0, 5]  # from vertex 0: westwards
    assert traffic.multicast_links[works].tolist() == [5, 5]
    assert traffic.connectivity == 10
    assert traffic.usage.synapses.tolist() == [1, 1]
    assert [part.tolist() for part in traffic.pairs.arrays()] == [[1], [0], [5]]


def test_zero_weight_reaches_but_carries_nothing() -> None:
    chip = Chip("hand", 4, 1)
    blocks = link_traffic.blocks_of([(0, 1, 0)], 2)
    found = score(
        chip,
        np.array([0, 3], dtype=np.int32),
        blocks,
        sizes=np.array([1, 1]),
        rates=np.array([2, 0]),
    )
    assert (found["cut_fraction"], found["hops_max"], found["latency_max"]) == (0.0, 0, 0.0)
    assert found["multicast"]["hops_total"] == 6


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_few_cores_of_a_large_mesh(seed: int, undirected: bool) -> None:
    rng = np.random.default_rng(seed)
    chip = Chip("large", 64, 70)
    n = 12
    x, y = rng.integers(0, 5, (2, n))
    core = (y + 60) * 64 + x + 57
    found = {(int(s), int(t)) for s, t in rng.integers(0, n, (40, 2)) if s != t}
    if undirected:
        found |= {(t, s) for s, t in found}
    edges = [(s, t, (s + t) % 5) for s, t in sorted(found)]
    options = {"sizes": np.ones(n, dtype=np.int64), "undirected": undirected}
    blocks = link_traffic.blocks_of(edges, n, [5])
    assert_close(
        score(chip, core, blocks, **options), naive.score(chip, core.tolist(), edges, **options)
    )


def test_no_neurons() -> None:
    none = np.zeros(0, dtype=np.int64)
    found = score(Chip("one", 1, 1), none.astype(np.int32), [], sizes=none)
    plain = [v for v in found.values() if not isinstance(v, dict)]
    plain += [*found["core"].values(), *found["multicast"].values()]
    assert not any(plain)


def test_units_keep_sums_exact() -> None:
    # Two weights that float64 cannot distinguish: the sum must still be exact.
    w = 2**53
    blocks = link_traffic.blocks_of([(0, 1, w), (1, 0, w + 1)], 2)
    core = np.array([0, 1], dtype=np.int32)
    sizes = np.array([1, 1])
    found = score(Chip("pair", 2, 1), core, blocks, sizes=sizes)
    assert found["hops_total"] == 2 * w + 1
    assert isinstance(found["hops_total"], int)
    found = score(Chip("pair", 2, 1), core, blocks, sizes=sizes, units=Units(2.0))
    assert isinstance(found["hops_total"], float)


@pytest.mark.parametrize(
    ("edges", "change", "message"),
    [
        ([(0, 1, -1)], {}, "block of vertex 0: a weight is negative"),
        ([(0, 3, 1)], {}, "block of vertex 0: a target is not a neuron"),
        ([(0, 1, 2**62)], {}, "the sum of weights exceeds 2\\^62; use a coarser weight unit"),
        ([(0, 2, 2**61)], {}, "multicast: rate \\* links exceeds 2\\^62"),
        (
            [(0, 2, 1), (0, 3, 1)],
            {"rates": [2**60, 0, 0, 0], "core": [0, 3, 3, 3], "sizes": [1, 1, 1, 1]},
            "multicast: rate \\* \\(hops \\+ 1\\) exceeds 2\\^62",
        ),
        ([(0, 2, 2**61)], {"rates": [0, 0, 0]}, "unicast: weight \\* hops exceeds 2\\^62"),
        ([], {"core": [0, 1, 4]}, "neuron 2 is on core 4, outside the 4x1 mesh"),
        ([], {"core": [0, -1, 1]}, "neuron 1 is on core -1"),
        ([], {"core": [0, 1, 2**32]}, "core holds 4294967296, too large for int32"),
        ([], {"core": [0, 1]}, "sizes has shape \\(3,\\)"),
        ([], {"core": [0.0, 1.0, 2.0]}, "core has shape \\(3,\\) and type float64"),
        ([], {"sizes": [1, 1, -1]}, "neuron 2 has size -1"),
        ([], {"sizes": [2**62, 1, 1]}, "the sum of sizes"),
        ([], {"rates": [1, -2, 1]}, "neuron 1 has a negative rate"),
        ([], {"units": Units(0.0)}, "weight_unit is 0.0; give a positive number"),
    ],
)
def test_bad_input(edges: list[link_traffic.Edge], change: dict[str, Any], message: str) -> None:
    options: dict[str, Any] = {"core": [0, 1, 2], "sizes": [1, 1, 1], **change}
    options = {k: np.array(v) if isinstance(v, list) else v for k, v in options.items()}
    core = options.pop("core")
    with pytest.raises(ChipError, match=message):
        score(Chip("line", 4, 1), core, link_traffic.blocks_of(edges, max(3, len(core))), **options)


@pytest.mark.parametrize(
    ("ends", "message"),
    [((0, 2), "the blocks hold 2 vertices, the mapping 3"), ((0, 4), "its 4 vertices exceed")],
)
def test_blocks_of_another_network(ends: tuple[int, int], message: str) -> None:
    three = np.array([0, 1, 2])
    with pytest.raises(ChipError, match=message):
        score(Chip("line", 4, 1), three, [link_traffic.Block(*ends, [])], sizes=three)


@pytest.mark.parametrize(
    ("indptr", "message"),
    [([0, 2, 1, 1], "indptr decreases"), ([0, 1, 1, 2], "disagree"), ([1, 1, 1, 1], "disagree")],
)
def test_malformed_block(indptr: list[int], message: str) -> None:
    class Malformed:
        first = 0

        def outgoing(self) -> tuple[Any, Any, Any]:
            return np.array(indptr), np.array([1], dtype=np.int32), np.array([1])

    three = np.array([0, 1, 2])
    with pytest.raises(ChipError, match=message):
        score(Chip("line", 4, 1), three, [Malformed()], sizes=three)


def test_walks_are_binomial() -> None:
    walks = Walks.within(9, 12)
    for b in range(9):
        for a in range(12):
            inside = comb(a + b, a) / 2 ** (a + b)
            assert walks.inside[b, a] == pytest.approx(inside, rel=1e-14)
            # Entered the column in one of the rows up to b; the same for the row.
            down = sum(comb(a - 1 + k, k) / 2 ** (a + k) for k in range(b + 1)) if a else 1.0
            across = sum(comb(b - 1 + k, k) / 2 ** (b + k) for k in range(a + 1)) if b else 1.0
            assert walks.down[b, a] == pytest.approx(down, rel=1e-14)
            assert walks.across[b, a] == pytest.approx(across, rel=1e-14)


@pytest.mark.parametrize(("torus", "routers"), [("", 2), ("xy", 3)])
def test_energy_of_packets_to_the_host(torus: Any, routers: int) -> None:
    """A packet passes two links; without a torus, the last one leads to the host."""
    energy = ChipEnergy(packet_out=11.0, unit="pJ")
    chip = Chip(
        "c", 2, 2, energy_router=2, energy_link=3, energy_unit="pJ", energy=energy,
        machine=Machine(2, 2, torus=torus) if torus else None,
    )  # fmt: skip
    links = np.zeros((4, 2, 2), np.int64)
    links[0, 0, 0] = 2
    work = CountedWork(0, 0, sent=1, heard=1, links=links)
    assert energy_of_run(chip, work)["network"] == 2 * routers + 3 * 2 + 11
