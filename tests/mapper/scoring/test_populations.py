"""Traffic of populations against the reference, and against the metrics of the whole network."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mapper.scoring.populations as module
from chipsim.chip.model import Chip
from chipsim.traffic import pairs
from chipsim.traffic.arrays import measure
from chipsim.traffic.links import DIRECTIONS
from mapper.scoring.populations import (
    PopulationSource,
    PopulationTraffic,
    find_slices,
    measure_populations,
    population_traffic,
)
from storage.store.network import NetworkFile
from storage.store.populations import Populations, called, read_populations
from storage.store.writer import NetworkWriter
from tests.chipsim.strategies import Case, cases
from tests.mapper.helpers import random_network
from tests.reference.link_traffic import Source
from tests.reference.mesh_routes import Link
from tests.reference.populations import Expected, expected

several = settings(max_examples=150)


def measured(case: Case, population: list[int], count: int, **more: Any) -> PopulationTraffic:
    rates = case.options()["rates"]
    source = PopulationSource(Source(case.blocks()), rates, case.undirected)
    of = np.array(population, np.int32)
    named = Populations("layer", [f"p{n}" for n in range(count)], of)
    return measure_populations(case.chip, case.cores(), named, source, **more)


def reference(case: Case, population: list[int]) -> Expected:
    return expected(case.chip, case.core, population, case.edges, case.undirected, case.rates)


def by_link(found: PopulationTraffic) -> dict[Link, list[tuple[tuple[int, int], int]]]:
    """Return the kept pairs of every link, with their traffic."""
    links = {}
    for d, y, x in np.ndindex(found.link_pair.shape[:3]):
        kept = [
            ((int(found.pair_source[pair]), int(found.pair_target[pair])), int(traffic))
            for pair, traffic in zip(
                found.link_pair[d, y, x], found.link_traffic[d, y, x], strict=True
            )
            if pair >= 0
        ]
        if kept:
            links[(x, y), DIRECTIONS[d]] = kept
    return links


drawn = st.data()


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@settings(max_examples=400)
@given(cases(), drawn, st.integers(1, 3))
def test_sums_match_the_reference(case: Case, data: st.DataObject, count: int) -> None:
    n = len(case.core)
    population = data.draw(st.lists(st.integers(0, count - 1), min_size=n, max_size=n))
    found, known = measured(case, population, count), reference(case, population)
    for name in ("sent", "received", "within", "hops"):
        sums = getattr(known, name)
        assert getattr(found, name).tolist() == [sums[p] for p in range(count)], name
    ends = list(zip(found.pair_source.tolist(), found.pair_target.tolist(), strict=True))
    assert dict(zip(ends, found.pair_traffic.tolist(), strict=True)) == known.traffic
    assert Counter(dict(zip(ends, found.pair_hops.tolist(), strict=True))) == known.pair_hops
    assert found.pair_hops.tolist() == sorted(found.pair_hops.tolist(), reverse=True)
    kept = by_link(found)
    assert kept.keys() == known.links.keys()
    for link, loads in known.links.items():
        strongest = sorted(loads.values(), reverse=True)[: module.LINK_PAIRS]
        assert [traffic for _, traffic in kept[link]] == strongest
        assert all(loads[pair] == traffic for pair, traffic in kept[link])
    assert found.neurons.tolist() == [population.count(p) for p in range(count)]
    cores = [
        {c for c, q in zip(case.core, population, strict=True) if q == p} for p in range(count)
    ]
    assert found.cores.tolist() == list(map(len, cores))


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@several
@given(cases(), drawn)
def test_sums_agree_with_the_metrics(case: Case, data: st.DataObject) -> None:
    """All populations together have the hops and the link loads of the whole network."""
    n = len(case.core)
    population = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    found = measured(case, population, 4)
    traffic = measure(case.chip, case.cores(), case.blocks(), **case.options())
    if case.chip.delivery == "synapse":
        assert found.hops.sum() == traffic.totals.hops
        assert found.sent.sum() == found.received.sum() == traffic.totals.cut
        links = traffic.unicast_links
    else:
        assert found.sent.sum() == traffic.connectivity
        assert found.within.sum() == traffic.activity.local.sum()
        links = traffic.core_links
        assert found.hops.sum() == links.sum()
    loads = found.link_traffic.sum(axis=-1)
    assert (loads <= links).all()
    few = (found.link_pair >= 0).sum(axis=-1) < module.LINK_PAIRS
    assert (loads[few] == links[few]).all()


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@several
@given(cases(), drawn, st.integers(1, 3))
def test_threads_files_and_batches_change_nothing(
    case: Case, data: st.DataObject, threads: int
) -> None:
    n = len(case.core)
    population = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    plain = measured(case, population, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "STRIPE_PAIRS", 1)
        patch.setattr(module, "ROUTED_BYTES", 1)  # one pair at a time
        other = measured(case, population, 3, threads=threads)
    for name in ("sent", "hops", "pair_source", "pair_target", "link_pair", "link_traffic"):
        assert getattr(plain, name).tobytes() == getattr(other, name).tobytes(), name


def test_only_the_strongest_pairs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    chip, n = Chip("c", 4, 4), 40
    rng = np.random.default_rng(2)
    edges = [(int(s), int(t), 1 + int(s)) for s, t in rng.integers(0, n, (300, 2)) if s != t]
    edges = list({(s, t): (s, t, w) for s, t, w in edges}.values())
    case = Case(chip, rng.integers(0, 16, n).tolist(), edges, [1] * n, None, False, [10, 25])
    population = list(range(n))
    whole = measured(case, population, n)
    monkeypatch.setattr(module, "PAIRS_KEPT", 20)
    monkeypatch.setattr(module, "ROUTED_PAIRS", 5)
    some = measured(case, population, n)
    assert some.hops.tolist() == whole.hops.tolist()
    assert some.pair_hops.tolist() == whole.pair_hops[:20].tolist()
    assert some.pair_source.tolist() == whole.pair_source[:20].tolist()
    assert set(some.link_pair.ravel().tolist()) <= set(range(-1, 5))


def test_slices_of_many_populations_and_cores() -> None:
    """The table of all combinations and the sorted keys give the same slices."""
    rng = np.random.default_rng(1)
    population, core = rng.integers(0, 50, (2, 400)).astype(np.int32)
    few, of = find_slices(population, core, 50, 50)
    many, other = find_slices(population, core, 1 << 20, 50)
    assert of.tolist() == other.tolist()
    for one, two in zip(few, many, strict=True):
        assert one.tolist() == two.tolist()
    assert (few.population[of] == population).all()
    assert (few.core[of] == core).all()
    assert few.neurons.sum() == 400


@pytest.mark.parametrize("labels", [["conv1", "layer 2", "out"], None])
def test_populations_of_a_network(labels: list[str] | None, folder: Path) -> None:
    of = np.array([0, 2, 0, 1, 2, 2])
    with NetworkWriter(folder / "net.bin", 6) as writer:
        writer.add(np.array([0, 1, 2]), np.array([3, 4, 5]), np.array([5, 2, 1]))
        writer.set_attribute("layer", of, labels)
        writer.set_attribute("rate", np.full(6, 3))
        writer.finish()
    chip = Chip("c", 3, 1)
    with NetworkFile(folder / "net.bin") as network:
        populations = read_populations(network)
        found = population_traffic(network, chip, np.array([0, 0, 1, 2, 2, 1], np.int32))
        names = labels or ["layer 0", "layer 1", "layer 2"]
        said = [called(network, neuron) for neuron in range(6)]
    assert populations is not None
    assert populations.counts() == dict(zip(names, (2, 1, 3), strict=True))
    shown = [f"layer {name}" if not name.startswith("layer") else name for name in names]
    assert said == [
        f"neuron 0 of {shown[0]}", f"neuron 0 of {shown[2]}", f"neuron 1 of {shown[0]}",
        f"neuron 0 of {shown[1]}", f"neuron 1 of {shown[2]}", f"neuron 2 of {shown[2]}",
    ]  # fmt: skip
    assert found is not None
    assert found.names == names
    assert found.sent.tolist() == [5, 0, 2]
    assert found.within.tolist() == [1, 0, 0]
    assert found.received.tolist() == [0, 5, 2]
    assert found.hops_mean.tolist() == [10 / 6, 0, 2]


def test_networks_without_populations(folder: Path) -> None:
    random_network(folder / "net.bin", 5, 9)
    with NetworkWriter(folder / "rows.bin", 3) as writer:
        writer.set_attribute("layer", np.array([0.5, 1.5, 2.5]))
        writer.finish()
    for name in ("net.bin", "rows.bin"):
        with NetworkFile(folder / name) as network:
            assert read_populations(network) is None
            assert called(network, 2) == "neuron 2"
            assert population_traffic(network, Chip("c", 1, 1), np.zeros(5, np.int32)) is None
