"""NIR graphs with faults: each is reported in one line with the faulty node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage import extras
from storage.errors import BadInputError
from storage.formats import import_network, recognise
from tests.storage.formats.nir_graphs import (
    Parameters,
    chain,
    conv,
    given,
    graph,
    h5py,
    lif,
    linear,
    nir_bytes,
    node,
    pool,
)

Refuse = Callable[..., str]
Fault = Callable[[Parameters], str]


@pytest.fixture
def fault(refused: Refuse) -> Callable[[Parameters], str]:
    return lambda root: refused("a.nir", nir_bytes(root))


W = np.ones((2, 2))
FAULTS: list[tuple[Any, str]] = [
    (lif((2,)), "the graph: type is 'LIF'; it must be a NIRGraph"),
    ({"type": "NIRGraph", "nodes": {}}, "the graph: dataset edges is missing"),
    ({"type": "NIRGraph", "edges": np.zeros(0)}, "the graph: group nodes is missing"),
    (graph({}, []), "no neurons"),
    ({**graph({"a": lif((2,))}, []), "edges": np.array([b"a", b"a"])}, "edges has shape (2,)"),
    ({**graph({"a": lif((2,))}, []), "edges": np.ones((1, 2))}, "edges must hold names"),
    (graph({"a": lif((2,))}, [("a", "b")]), "edge 'a' -> 'b': no node is called 'b'"),
    (graph({"a": lif((2,)), "b": lif()}, [("a", "b")] * 2), "edge 'a' -> 'b' is a duplicate"),
    (chain(given(2), node("Wibble")), "node 'b': type 'Wibble' is not supported; use CubaLI,"),
    (chain(given(2), {"shape": 3}), "node 'b': dataset type is missing"),
    (chain(linear(W), lif()), "node 'a' (Linear): nothing leads to it"),
    (chain(given(2), node("Linear"), lif()), "node 'b' (Linear): dataset weight is missing"),
    (chain(given(2), node("Affine", weight=W), lif()), "node 'b' (Affine): dataset bias is miss"),
    (chain(given(2), node("LIF", tau=np.ones(2))), "node 'b' (LIF): dataset r is missing"),
    (chain(given(2), linear([1, 2]), lif()), "weight has shape (2,); it must be (outputs, inp"),
    (
        chain(given(3), linear(W), lif()),
        "node 'b' (Linear): expects the shape (2,), but its predecessor 'a' outputs (3,)",
    ),
    (
        chain(given(2), linear(W), lif((3,))),
        "node 'c' (LIF): expects the shape (3,), but its predecessor 'b'",
    ),
    (chain(given(2), linear(W * np.nan), lif()), "node 'b' (Linear): dataset weight holds values"),
    (chain(given(2), linear(np.array([[b"x", b"y"]])), lif()), "it must hold numbers"),
    (
        chain(given(2), node("Affine", weight=W, bias=np.ones(3)), lif()),
        "node 'b' (Affine): bias has shape (3,); for this weight it must be (2,)",
    ),
    (chain(given(2), node("IF", r=np.ones(2), v_threshold=np.ones(3))), "cannot be broadcast"),
    (
        chain(given(2), node("Scale", scale=np.ones(3)), lif()),
        "expects the shape (3,), but its predecessor 'a'",
    ),
    (chain(given(0)), "node 'a' (Input): shape is (0,)"),
    (chain(given(1.5)), "node 'a' (Input): dataset shape must hold whole numbers"),  # type: ignore[arg-type]
    (chain(given(2**20, 2**20)), "node 'a' (Input): its shape (1048576, 1048576) exceeds"),
    (chain(lif()), "node 'a' (LIF): its parameters are scalars: its size is unknown"),
    (chain(given(2), pool("SumPool2d", [2, 2], [2, 2]), lif()), "must be channels, height, wid"),
    (chain(given(1, 2, 2), pool("SumPool2d", [3, 1], [1, 1]), lif()), "node 'b': a window of 3"),
    (chain(given(1, 2, 2), pool("AvgPool2d", [1], [0, 1]), lif()), "node 'b': kernel 1, stride 0"),
    (chain(given(1, 2, 2), pool("AvgPool2d", [1] * 3, [1]), lif()), "kernel_size has 3 values"),
    (chain(given(1, 9), conv(np.ones((1, 1, 2)), stride=[1, 2]), lif()), "stride has 2 values"),
    (chain(given(1, 9), conv(np.ones((1, 1, 2)), padding="full"), lif()), "padding is 'full'"),
    (chain(given(1, 9), conv(W[None], padding="same", stride=2), lif()), "needs a stride of 1"),
    (chain(given(1, 9), conv(np.ones((3, 1, 2)), groups=2), lif()), "2 groups do not divide 3"),
    (chain(given(9), conv(np.ones((1, 1, 2))), lif()), "input_shape is missing"),
    (chain(given(9), conv(np.ones((1, 1, 2)), input_shape=[3, 3]), lif()), "must have 1 axes"),
    (chain(given(9), node("Flatten", start_dim=3, end_dim=-1), lif()), "start_dim 3 and end_dim"),
    (
        graph(
            {"in": given(2), "p": linear(W), "q": linear(W), "n": lif()},
            [("in", "p"), ("p", "q"), ("q", "p"), ("q", "n")],
        ),
        "form a cycle without a population",
    ),
    (
        graph({"in": given(2), "g": graph({"i": given(2), "j": given(2)}, [])}, [("in", "g")]),
        "edge 'in' -> 'g': graph 'g' has 2 Input nodes; it needs one",
    ),
    (
        graph({"g": graph({"n": lif((1,))}, [("n", "m")])}, []),
        "graph 'g', edge 'n' -> 'm': no node is called 'm'",
    ),
]


@pytest.mark.parametrize(("root", "message"), FAULTS)
def test_faults(root: Parameters, message: str, fault: Fault) -> None:
    assert message in fault(root)


def test_a_cycle_is_named(fault: Fault) -> None:
    nodes = {"in": given(2), "p": linear(W), "q": linear(W), "n": lif()}
    found = fault(graph(nodes, [("in", "p"), ("p", "q"), ("q", "p"), ("q", "n")]))
    assert "'p' -> 'q' -> 'p'" in found or "'q' -> 'p' -> 'q'" in found


@pytest.mark.parametrize(
    ("version", "message"),
    [(None, "dataset version is missing"), ("2.0", "NIR version '2.0' is not supported")],
)
def test_versions(version: str | None, message: str, refused: Refuse) -> None:
    assert message in refused("a.nir", nir_bytes(chain(given(2)), version))


def test_damaged_files(refused: Refuse) -> None:
    whole = nir_bytes(chain(given(2), linear(W), lif()))
    for length in (8, 100, len(whole) // 2, len(whole) - 1):
        assert "not a valid HDF5 file" in refused("a.nir", whole[:length])
    assert "not a valid HDF5 file" in refused("a.nir", b"some text\n", format="nir")


def test_all_weights_are_checked_before_the_first_product(
    refused: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("synapses were created")

    monkeypatch.setattr("storage.formats.layers.linear.SynapseWriter.add", never)
    nodes = chain(given(2), linear(W), lif(), linear(W * np.nan), lif())
    assert "node 'd' (Linear): dataset weight holds values that are not" in refused(
        "a.nir", nir_bytes(nodes)
    )


def test_named_types_in_place_of_datasets(tmp_path: Path) -> None:
    path = tmp_path / "a.nir"
    for place, message in (
        ("node/edges", "dataset edges is missing"),
        ("node/nodes/b/weight", "dataset weight is missing"),
        ("version", "dataset version is missing"),
        ("node/nodes/b/type", "node 'b': dataset type is missing"),
    ):
        path.write_bytes(nir_bytes(chain(given(2), linear(W), lif())))
        with h5py.File(path, "r+") as file:
            del file[place]
            file[place] = np.dtype("f8")
        with pytest.raises(BadInputError, match=message):
            import_network(path, tmp_path / "net.bin")


def test_a_graph_that_contains_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.nir"
    path.write_bytes(nir_bytes(graph({"in": given(2)}, [])))
    with h5py.File(path, "r+") as file:
        file["node/nodes/again"] = file["node"]
    with pytest.raises(BadInputError, match="over 32 nested graphs"):
        import_network(path, tmp_path / "net.bin")
    assert [p.name for p in tmp_path.iterdir()] == ["a.nir"]


def test_detection_and_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "graph.nir"
    path.write_bytes(nir_bytes(chain(given(2))))
    assert recognise(path).name == "nir"

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(extras, "import_module", missing)
    with pytest.raises(
        BadInputError, match=r"HDF5 files need h5py; pip install 'neuromapper\[nir\]'"
    ):
        import_network(path, tmp_path / "net.bin")
