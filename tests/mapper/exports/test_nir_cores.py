"""Cores of a mapping in the mapped NIR graph, and losses of an import."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.store.network import NetworkFile
from tests.mapper.conftest import Run

nir = pytest.importorskip("nir")
pytestmark = pytest.mark.usefixtures("light_placement")
Fails = Callable[..., str]
FAST = ("--preset", "fast", "--threads", "1", "-q")


def lif(*shape: int) -> Any:
    ones = np.ones(shape)
    return nir.LIF(tau=ones, r=ones, v_leak=ones, v_threshold=ones, metadata={"mine": 3})


@pytest.fixture
def graph(folder: Path) -> Path:
    """Convolution, pooling and a recurrent population inside a subgraph."""
    rng = np.random.default_rng(2)
    inner = nir.NIRGraph(
        {
            "input": nir.Input({"input": np.array([6])}),
            "lif": lif(6),
            "back": nir.Linear(weight=rng.normal(size=(6, 6))),
            "output": nir.Output({"output": np.array([6])}),
        },
        [("input", "lif"), ("lif", "back"), ("back", "lif"), ("lif", "output")],
    )
    nodes = {
        "input": nir.Input({"input": np.array([1, 6, 6])}),
        "conv": nir.Conv2d(
            input_shape=(6, 6),
            weight=rng.normal(size=(2, 1, 3, 3)),
            stride=1,
            padding=1,
            dilation=1,
            groups=1,
            bias=np.zeros(2),
        ),
        "first": lif(2, 6, 6),
        "flat": nir.Flatten(start_dim=0, end_dim=-1, input_type={"input": np.array([2, 6, 6])}),
        "dense": nir.Affine(weight=np.round(rng.normal(size=(6, 72))), bias=np.zeros(6)),
        "inner": inner,
        "output": nir.Output({"output": np.array([6])}),
    }
    names = list(nodes)
    nir.write("model.nir", nir.NIRGraph(nodes, list(pairwise(names))))
    return Path("model.nir")


def content(path: Path) -> dict[str, Any]:
    """Return all datasets of an HDF5 file by name."""
    h5py = pytest.importorskip("h5py")
    found: dict[str, Any] = {}
    with h5py.File(path, "r") as file:
        file.visititems(
            lambda name, item: found.update({name: item[()]} if hasattr(item, "shape") else {})
        )
    return found


def test_the_graph_is_kept_and_gets_cores(graph: Path, run: Run) -> None:
    assert run("import", graph, "net.bin", "-q").code == 0
    assert run("run", "net.bin", "--chip", "4x3", *FAST, "-o", "out").code == 0
    told = run("export", "out", "mapped.nir", "--graph", graph, "--json").json()
    assert (told["neurons"], told["populations"]) == (36 + 72 + 6, 3)
    before, after = content(graph), content(Path("mapped.nir"))
    added = {name: after.pop(name) for name in list(after) if name not in before}
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert {name: added.pop(f"node/metadata/{name}") for name in ("chip", "width", "height")} == {
        "chip": b"4x3", "width": 4, "height": 3,
    }  # fmt: skip
    cores = [
        added[f"node/nodes/{node}/metadata/core"] for node in ("input", "first", "inner/nodes/lif")
    ]
    assert len(added) == 3
    assert [core.shape for core in cores] == [(1, 6, 6), (2, 6, 6), (6,)]
    with np.load("out/mapping.npz") as mapping:
        assert np.array_equal(np.concatenate([core.ravel() for core in cores]), mapping["core"])
    read = nir.read("mapped.nir")
    assert np.array_equal(read.nodes["first"].metadata["core"], cores[1])
    assert read.nodes["first"].metadata["mine"] == 3


def test_the_round_trip_changes_nothing(graph: Path, run: Run) -> None:
    """The copy imports to the same network, and accepts other cores."""
    assert run("run", graph, "--chip", "4x3", *FAST, "-o", "out").code == 0
    assert run("export", "out", "mapped.nir", "--graph", graph).code == 0
    assert run("export", "out", "again.nir", "--graph", "mapped.nir").code == 0
    assert content(Path("mapped.nir")).keys() == content(Path("again.nir")).keys()
    nets = []
    for name in (graph, "again.nir"):
        assert run("import", name, "net.bin", "-q").code == 0
        with NetworkFile(Path("net.bin")) as net:
            blocks = [net.read_outgoing(index) for index in range(net.block_count)]
            nets.append([part.tolist() for block in blocks for part in block])
            assert net.meta.weight_unit > 0
    assert nets[0] == nets[1]


@pytest.mark.heavy
def test_another_graph_is_refused(graph: Path, run: Run, fails: Fails) -> None:
    nodes = {"in": nir.Input({"input": np.array([5])}), "a": lif(5)}
    nir.write("other.nir", nir.NIRGraph(nodes | {"out": nir.Output({"output": np.array([5])})},
                                        [("in", "a"), ("a", "out")]))  # fmt: skip
    assert run("run", graph, "--chip", "4x3", *FAST, "-o", "out").code == 0
    told = fails("export", "out", "a.nir", "--graph", "other.nir")
    assert "other.nir: is not the source graph of" in told
    assert "('in' 5, 'a' 5; the network has 'input' 36, 'first' 72, 'inner/lif' 6)" in told
    Path("net.csv").write_text("0,1\n1,2\n")
    assert run("run", "net.csv", "--chip", "2x2", *FAST, "-o", "plain").code == 0
    assert "the network has none" in fails("export", "plain", "a.nir", "--graph", graph)
    assert "cannot read" in fails("export", "out", "a.nir", "--graph", "none.nir")
    told = fails("export", "out", "a.nir", "--graph", graph, "--threshold", "1", code=2)
    assert "leave out --threshold" in told


def test_losses_of_an_import_are_noted(graph: Path, run: Run) -> None:
    found = run("import", graph, "net.bin")
    with NetworkFile(Path("net.bin")) as net:
        losses = net.meta.provenance
    assert losses["weights_zero"] > 0 < losses["weights_negative"]
    assert f"{losses['weights_zero']:,} zero weights skipped" in found.err
    assert "weights are stored separately" in found.err
    found = run("import", graph, "net.bin", "--rates", "weights")
    assert f"{losses['weights_negative']:,} negative weights: absolute value used" in found.err


@pytest.mark.heavy
def test_real_graph(data_dir: Path, folder: Path, run: Run) -> None:
    graph = data_dir / "nir" / "braille_noDelay_bias_zero.nir"
    assert run("run", graph, "--chip", "4x2", "--neurons-per-core", "8", *FAST, "-o", "o").code == 0
    assert run("export", "o", "a.nir", "--graph", graph).code == 0
    nodes = nir.read("a.nir").nodes
    found = np.concatenate([nodes[name].metadata["core"] for name in ("input", "lif1.lif", "lif2")])
    with np.load("o/mapping.npz") as mapping:
        assert np.array_equal(found, mapping["core"])
