"""Neurons with more synapses than a core holds: relays are planned, written, mapped and
verified.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.limits.split_neurons import RelayNeurons, plan_relays, share_of, write_split
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.mapper.conftest import Run
from tests.mapper.helpers import write_network

pytestmark = pytest.mark.usefixtures("light_placement")

Edges = dict[tuple[int, int], int]


def hubs(path: Path, seed: int, *, unit: float = 1.0, rates: bool = False) -> Edges:
    """Write a network with a few neurons of large fan-in; return its synapses and stored
    weights.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 90))
    source, target = rng.integers(0, n, (2, 4 * n))
    wide = rng.choice(n, 4, replace=False)
    some = [(u, v) for v in wide for u in np.flatnonzero(rng.random(n) < 0.6)]
    pairs = sorted({(int(u), int(v)) for u, v in [*zip(source, target, strict=True), *some]})
    edges = {(u, v): int(rng.integers(0, 9)) for u, v in pairs if u != v}
    ends = np.array(list(edges))
    with NetworkWriter(path, n, weight_unit=unit) as writer:
        writer.add(ends[:, 0], ends[:, 1], np.array(list(edges.values())))
        writer.set_attribute("size", rng.integers(1, 4, n))
        writer.set_attribute("population", np.arange(n) % 3, ["a", "b", "c"])
        if rates:
            writer.set_attribute("rate", rng.integers(0, 50, n), unit=0.25)
        writer.finish()
    return edges


def edges_of(network: NetworkFile) -> Edges:
    found: Edges = {}
    for block in network.blocks():
        indptr, targets, weights = block.outgoing()
        for i in range(block.vertices):
            for e in range(indptr[i], indptr[i + 1]):
                found[block.first + i, int(targets[e])] = int(weights[e])
    return found


def test_relays_fit_with_their_neurons(folder: Path) -> None:
    """A neuron of size s has 400 - 30 s bits for synapses of 10 bits."""
    edges = hubs(folder / "net.bin", 3)
    chip = Chip("c", 8, 8, memory_bits=400, weight_bits=10, neuron_bits=30)
    with NetworkFile(folder / "net.bin") as network:
        relays = plan_relays(network, chip)
        most = (400 - 30 * network.vertex_sizes()) // 10
    into = np.bincount([v for _, v in edges], minlength=most.size)
    expected = {v: -(-int(into[v]) // int(most[v])) for v in np.flatnonzero(into > most)}
    assert len(expected) > 1
    assert dict(zip(*np.unique(relays.neuron, return_counts=True), strict=True)) == expected


@pytest.mark.parametrize("seed", range(8))
def test_every_synapse_exists_once(seed: int, folder: Path) -> None:
    """The network with relays, when relays are contracted, equals the network."""
    edges = hubs(folder / "net.bin", seed, unit=0.5, rates=bool(seed % 2))
    most = 12 + seed
    chip = Chip("c", 8, 8, neurons=20, synapses=most + seed % 3, axons_in=most)
    with NetworkFile(folder / "net.bin") as network:
        n = network.vertices
        relays = plan_relays(network, chip)
        into = np.bincount([v for _, v in edges], minlength=n)
        expected = {v: -(-int(into[v]) // most) for v in range(n) if into[v] > most}
        assert dict(zip(*np.unique(relays.neuron, return_counts=True), strict=True)) == expected
        write_split(network, relays, folder / "split.bin", 1 << 20)
        sizes, population = network.vertex_sizes(), network.attribute("population").stored
        rate = network.attribute("rate").stored if seed % 2 else None
    with NetworkFile(folder / "split.bin") as split:
        assert split.meta.weight_unit == 0.5
        assert split.vertices == n + relays.count
        found = edges_of(split)
        assert split.vertex_sizes().tolist() == [*sizes, *sizes[relays.neuron]]
        carried = split.attribute("population")
        assert carried.labels == ["a", "b", "c"]
        assert carried.stored.tolist() == [*population, *population[relays.neuron]]
        rates = split.attribute("rate") if seed % 2 else None
    undone: Edges = {}
    for (u, v), weight in found.items():
        if u >= n:  # a helper forwards all its input to its neuron only
            assert v == relays.neuron[u - n]
            assert weight == sum(w for (_, t), w in found.items() if t == u)
            continue
        j = v - n
        undone[u, v if j < 0 else int(relays.neuron[j])] = weight
        assert j < 0 or relays.first[j] <= u <= relays.last[j]
    assert undone == edges
    assert len(found) == len(edges) + relays.count
    assert max(np.bincount([v for _, v in found])) <= most
    if rates is not None and rate is not None:
        assert rates.unit == 0.25
        for j in range(relays.count):
            assert rates.stored[n + j] == sum(rate[u] for u, t in found if t == n + j)


@pytest.mark.parametrize("seed", range(10))
def test_shares(seed: int) -> None:
    """The helper of a synapse, from the definition."""
    rng = np.random.default_rng(seed)
    n = 30
    table = []
    for v in sorted(rng.choice(n, 5, replace=False).tolist()):
        bounds = [0, *sorted(rng.choice(np.arange(1, n), 3, replace=False).tolist()), n]
        table += [(v, a, b - 1) for a, b in pairwise(bounds)]
    relays = RelayNeurons(*np.array(table).T)
    source, target = rng.integers(0, n, (2, 200))
    expected = [
        next((j for j, (v, a, b) in enumerate(table) if v == t and a <= s <= b), -1)
        for s, t in zip(source.tolist(), target.tolist(), strict=True)
    ]
    assert share_of(relays, source, target, n).tolist() == expected


def limits(*more: str) -> tuple[str, ...]:
    return ("--chip", "10x10", "--neurons-per-core", "12", "--synapses-per-core", "24", *more)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("preset", ["fast", "default", "strong", "classic"])
@pytest.mark.parametrize("rates", [False, True])
def test_runs_with_helpers_keep_all_limits(
    rates: bool, preset: str, folder: Path, run: Run
) -> None:
    edges = hubs(folder / "net.bin", 3, rates=rates)
    Path("c.toml").write_text("[[pin]]\nneurons = [5]\ncore = 99\n[[together]]\nrange = [7, 8]\n")
    chip = limits("--axons-per-core", "22")
    arguments = ("net.bin", *chip, "--preset", preset, "--constraints", "c.toml")
    assert run("run", *arguments, "-o", "out").code == 3
    found = run("run", *arguments, "--split-neurons", "--json", "-o", "out")
    assert found.code == 0, found
    with np.load("out/mapping.npz") as mapping:
        core, helper_core = mapping["core"], mapping["helper_core"]
        table = np.column_stack([mapping[f"helper_{x}"] for x in ("neuron", "first", "last")])
    report = json.loads(Path("out/report.json").read_text())
    assert report["split"] == {
        "neurons": len(set(table[:, 0])),
        "helpers": len(table),
        "helpers_of_a_neuron_max": int(np.unique(table[:, 0], return_counts=True)[1].max()),
    }
    assert f"{len(table)} relay neurons added" in found.err
    assert report["network"]["neurons"] == core.size
    assert core[5] == 99
    assert core[7] == core[8]
    # every synapse arrives at one core, and no core exceeds its limit
    ends: list[set[tuple[int, int]]] = [set() for _ in range(100)]
    for u, v in edges:
        takes = [j for j, (t, a, b) in enumerate(table) if t == v and a <= u <= b]
        assert len(takes) == (v in table[:, 0])
        ends[helper_core[takes[0]] if takes else core[v]].add((u, takes[0] + 1000 if takes else v))
    for j, (v, _, _) in enumerate(table):
        ends[core[v]].add((1000 + j, v))
    assert max(len(some) for some in ends) <= 24
    assert max(len({u for u, _ in some}) for some in ends) <= 22
    verified = run("verify", "out", "--json")
    assert verified.code == 0, verified
    assert verified.json()["helpers"] == len(table)
    scored = run("score", "net.bin", "out/mapping.npz", *chip, "--json")
    assert scored.code == 0
    assert scored.json()["metrics"] == report["metrics"]
    multicast = report["metrics"]["multicast"]
    assert multicast["hops_total"] <= multicast["unicast_hops_total"]
    assert not Path("out/split.bin").exists()


def tampered(change: Callable[[dict[str, Any]], None]) -> None:
    with np.load("out/mapping.npz") as file:
        arrays = {name: file[name].copy() for name in file}
    change(arrays)
    np.savez_compressed("out/mapping.npz", **arrays)


def swap_cores(arrays: dict[str, Any]) -> None:
    """Swap the cores of the first two relays on different cores."""
    core = arrays["helper_core"]
    other = int(np.flatnonzero(core != core[0])[0])
    core[[0, other]] = core[[other, 0]]


@pytest.mark.sample(2)
@pytest.mark.jit
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: a["helper_core"].fill(a["helper_core"][0]), "core"),
        (swap_cores, "out: "),
        (
            lambda a: a["helper_core"].__setitem__(0, 100),
            "core id of a relay neuron is outside 0..99",
        ),
        (
            lambda a: a["helper_first"].__setitem__(0, a["helper_first"][0] + 1),
            "has no relay neuron",
        ),
        (lambda a: a["helper_last"].__setitem__(0, a["helper_first"][1]), "overlap"),
        (lambda a: a["helper_neuron"].__setitem__(0, -1), "helper_neuron is outside"),
        (lambda a: a.pop("helper_last"), "lacks a column"),
        (lambda a: [a.pop(k) for k in [*a] if k.startswith("helper")], "report.json has"),
        (
            lambda a: [a.update({k: v[::-1]}) for k, v in a.items() if k.startswith("helper")],
            "not ordered",
        ),
        (lambda a: a.update(helper_core=a["helper_core"][1:]), "differ in length"),
    ],
)
def test_tampered_tables(
    change: Callable[[dict[str, Any]], None], said: str, folder: Path, run: Run
) -> None:
    hubs(folder / "net.bin", 1)
    assert run("run", "net.bin", *limits(), "--split-neurons", "-o", "out").code == 0
    tampered(change)
    wrong = run("verify", "out")
    assert wrong.code == 1
    assert said in wrong.err


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_without_need_nothing_changes(folder: Path, run: Run) -> None:
    hubs(folder / "net.bin", 2)
    chip = ("--chip", "8x8", "--neurons-per-core", "12", "--synapses-per-core", "400")
    for name, more in (("one", ()), ("two", ("--split-neurons",))):
        assert run("run", "net.bin", *chip, *more, "-o", name).code == 0
    assert Path("one/mapping.npz").read_bytes() == Path("two/mapping.npz").read_bytes()
    found = [json.loads(Path(f"{name}/report.json").read_text()) for name in ("one", "two")]
    assert "split" not in found[0]
    assert found[1]["split"]["helpers"] == 0
    assert run("verify", "two").code == 0


def test_check_names_the_neuron_and_the_remedy(folder: Path, run: Run) -> None:
    hubs(folder / "net.bin", 4)
    found = run("check", "net.bin", *limits(), "--json")
    assert found.code == 3
    assert "synapses; a core holds 24" in found.err
    assert "--split-neurons spreads its synapses over relay neurons" in found.err
    found = run("check", "net.bin", *limits("--split-neurons"), "--json")
    assert found.code == 0
    assert found.json()["split"]["neurons"] >= 4
    assert "neurons split" in found.err


def test_networks_that_cannot_be_split(folder: Path, run: Run) -> None:
    star = [(0, v) for v in range(1, 30)]
    write_network(folder / "net.bin", star, 30, undirected=True)
    chip = ("--chip", "8x8", "--neurons-per-core", "12", "--synapses-per-core")
    found = run("run", "net.bin", *chip, "20", "--split-neurons")
    assert found.code == 1
    assert "neurons of an undirected network cannot be split" in found.err
    write_network(folder / "net.bin", [(v, 0) for _, v in star], 30)
    found = run("run", "net.bin", *chip, "5", "--split-neurons")
    assert found.code == 3
    assert (
        "neuron 0 has 29 synapses, a core holds 5: relay neurons can take at most 25" in found.err
    )
