"""Mappings as graphs of other tools, read back: synapses, weights and cores are unchanged."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.formats import import_network
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run
from tests.mapper.exports.mapped import HEIGHT, WIDTH, N, attribute, core_of, sanafe_chip, synapses

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

Fails = Callable[..., str]
REPLACE = Path.replace


@pytest.mark.parametrize("name", ["a.graph", "a.graph.gz"])
def test_metis(name: str, out: Path, run: Run) -> None:
    if name.endswith(".gz"):  # gzipped names are not recognised for mappings
        found = run("export", out, name, "--format", "metis", "--json").json()
    else:
        found = run("export", out, name, "--json").json()
    assert (found["partition"], found["parts"]) == ("a.graph.part.12", 12)
    assert found["left_out"].keys() >= {"ids", "directions", "fractions"}
    said = run("export", out, name, "--format", "metis").err
    assert said.count("note: metis has no ") == len(found["left_out"])
    parts = [int(line) for line in Path("a.graph.part.12").read_text().splitlines()]
    assert parts == core_of(out).tolist()
    import_network(Path(name), Path("back.bin"))
    both: dict[tuple[int, int], float] = {}
    for (s, t), w in synapses().items():
        for pair in ((s, t), (t, s)):
            both[pair] = both.get(pair, 0) + w
    with NetworkFile(Path("net.bin")) as network:
        unit = network.meta.weight_unit
    assert synapses("back.bin") == pytest.approx({k: w / unit for k, w in both.items()})
    assert attribute("size", "back.bin") == attribute("size")


def test_metis_accepts_the_graph(out: Path, run: Run) -> None:
    pymetis = pytest.importorskip("pymetis")
    run("export", out, "a.graph")
    numbers = [line.split() for line in Path("a.graph").read_text().splitlines()]
    assert len(numbers[1:]) == N
    lists = [[int(word) - 1 for word in line[1::2]] for line in numbers[1:]]
    assert pymetis.part_graph(3, lists)[1]


def test_sanafe_reads_network_and_mapping(out: Path, run: Run) -> None:
    found = run("export", out, "a.yaml", "--threshold", "2.5", "--json").json()
    assert (found["synapses"], found["architecture"]) == (len(synapses()), "a.arch.yaml")
    sanafe: Any = pytest.importorskip("sanafe")
    sanafe.load_net("a.yaml", sanafe.load_arch("a.arch.yaml")).save("back.net", True)
    expected = synapses()
    edges: dict[tuple[int, int], float] = {}
    places: dict[int, int] = {}
    for line in Path("back.net").read_text().splitlines():
        kind, *words = line.split()
        if kind == "e":
            ends = [int(end.split(".")[1]) for end in words[0].split("->")]
            edges[ends[0], ends[1]] = float(words[1].removeprefix("weight="))
        elif kind == "&":
            neuron, tile = words[0].split("@")
            places[int(neuron.split(".")[1])] = int(tile.split(".")[0])
    assert edges == pytest.approx(expected)
    core = core_of(out).tolist()
    assert places == {n: core[n] % WIDTH * HEIGHT + core[n] // WIDTH for n in range(N)}
    below = math.nextafter(2.5, 0)  # SANA-FE spikes above the threshold, this project at it
    assert f"attributes: {{threshold: {below!r}}}" in Path("a.yaml").read_text()


def test_sanafe_counts_the_same_hops(out: Path, run: Run) -> None:
    """With every neuron spiking in every step, its energy equals the energy of the hops."""
    run("export", out, "a.yaml", "--threshold", "1", "--bias", "5")
    found = sanafe_chip().sim(1)
    assert found["neurons_fired"] == N
    core = core_of(out)
    reached = {(s, int(core[t])) for s, t in synapses()}  # one message per core
    hops = sum(
        abs(int(core[s]) % WIDTH - c % WIDTH) + abs(int(core[s]) // WIDTH - c // WIDTH)
        for s, c in reached
    )
    assert hops > 20
    assert found["energy"]["network"] == pytest.approx(hops * 4.0e-12)


@pytest.mark.parametrize(
    ("name", "other"), [("a.graph", "a.graph.part.12"), ("a.yaml", "a.arch.yaml")]
)
def test_two_files_or_none(
    name: str, other: str, out: Path, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If either of two files cannot be renamed, the other one is removed as well."""
    for wrong in (name, other):

        def refuse(self: Path, target: Path, wrong: str = wrong) -> Path:
            if Path(target).name == wrong:
                raise OSError(5, "Input/output error")
            return REPLACE(self, target)

        monkeypatch.setattr(Path, "replace", refuse)
        assert f"{wrong}: cannot write: Input/output error" in fails("export", out, name)


def test_sanafe_by_schema(out: Path, run: Run) -> None:
    yaml = pytest.importorskip("yaml")
    run("export", out, "a.yml")
    found = yaml.safe_load(Path("a.yml").read_text())
    assert list(found) == ["network", "mappings"]
    (group,) = found["network"]["groups"]
    assert (group["name"], list(group["neurons"][0])) == ("n", [f"0..{N - 1}"])
    edges = [next(iter(edge.items())) for edge in found["network"]["edges"]]
    assert [f"n.{s} -> n.{t}" for s, t in synapses()] == [name for name, _ in edges]
    assert [w["weight"] for _, w in edges] == list(synapses().values())
    assert [next(iter(row)) for row in found["mappings"]] == [f"n.{n}" for n in range(N)]


def test_nir(out: Path, run: Run, fails: Fails) -> None:
    nir = pytest.importorskip("nir")
    assert "--threshold" in fails("export", out, "a.nir", code=2)
    assert run("export", out, "a.nir", "--threshold", "1.5").code == 0
    graph = nir.read("a.nir")
    core, ids, sizes = core_of(out), np.array(attribute("id")), np.array(attribute("size"))
    held = {}
    for name, node in graph.nodes.items():
        if not name.startswith("core_"):
            continue
        about, number = node.metadata, int(name.removeprefix("core_"))
        assert (int(about["core"]), int(about["y"]) * WIDTH + int(about["x"])) == (number, number)
        held[number] = about["neurons"]
        assert np.array_equal(held[number], np.flatnonzero(core == number))
        assert np.array_equal(about["ids"], ids[held[number]])
        assert np.array_equal(about["sizes"], sizes[held[number]])
        assert np.all(node.v_threshold == 1.5)
    assert sorted(held) == np.unique(core).tolist()
    found = {}
    for name, node in graph.nodes.items():
        if name.startswith("weights_"):
            s, t = (int(word) for word in name.removeprefix("weights_").split("_to_"))
            assert (f"core_{s}", name) in graph.edges
            assert (name, f"core_{t}") in graph.edges
            for i, j in zip(*np.nonzero(node.weight), strict=True):
                found[int(held[s][j]), int(held[t][i])] = float(node.weight[i, j])
    assert found == pytest.approx(synapses())


def test_nir_refuses_dense_networks(
    out: Path, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nir")
    for most in (10, 400):
        monkeypatch.setattr("mapper.exports.nir_graph.MAX_WEIGHTS", most)
        told = fails("export", out, "a.nir", "--threshold", "1")
        assert f"more than {most} numbers" in told


def test_km1_of_the_hypergraph_is_the_connectivity(out: Path, run: Run) -> None:
    """The objective of hypergraph partitioners is the connectivity in the report."""
    run("export", "net.bin", "a.hgr")
    core = core_of(out)
    lines = [[int(w) for w in line.split()] for line in Path("a.hgr").read_text().splitlines()]
    count, vertices, fmt = lines[0]
    assert (vertices, fmt) == (N, 11)
    km1 = sum((len({int(core[p - 1]) for p in pins}) - 1) * w for w, *pins in lines[1 : 1 + count])
    with NetworkFile(Path("net.bin")) as network:
        unit = network.meta.weight_unit
    report = json.loads((out / "report.json").read_text())
    assert km1 > 0
    assert km1 * unit == pytest.approx(report["metrics"]["multicast"]["connectivity"])
