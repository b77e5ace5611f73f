"""NIR graphs in memory give the same networks as their files, for any parameter types."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.hdf5.nirfile import load, load_graph
from storage.store.network import NetworkFile
from tests.storage.formats.nir_graphs import (
    Parameters,
    chain,
    conv,
    given,
    graph,
    lif,
    linear,
    nir_bytes,
)

nir = pytest.importorskip("nir", reason="graphs in memory come from the package nir")

UNCHECKED = {"type_check": False} if "type_check" in signature(nir.read).parameters else {}
"""Options of NIR's reader, which checks graphs from some version on."""
RNG = np.random.default_rng(5)


def plain() -> Parameters:
    return chain(given(3), linear(RNG.normal(size=(4, 3))), lif((4,)))


def convolution() -> Parameters:
    weight = RNG.integers(-2, 3, (2, 1, 3, 3)).astype(float)
    more = {"input_shape": np.array([6, 5]), "padding": np.array([1, 0])}
    return chain(given(1, 6, 5), conv(weight, **more), lif((2, 6, 3)))


def nested() -> Parameters:
    """Return a recurrent nested graph; names in another order than the nodes."""
    output: Parameters = {"type": "Output", "shape": np.array([2])}
    inner = graph(
        {"z": given(2), "loop": linear(np.eye(2)), "c": lif((2,)), "a": output},
        [("z", "c"), ("c", "loop"), ("loop", "c"), ("c", "a")],
    )  # fmt: skip
    nodes = {"x": given(2), "inner": inner, "d": linear(np.ones((3, 2))), "b": lif((3,))}
    return graph(nodes, [("x", "inner"), ("inner", "d"), ("d", "b")])


GRAPHS = {"plain": plain, "convolution": convolution, "nested": nested}


def members(path: Path) -> dict[str, bytes]:
    """Return all members of a network file except its provenance, which has the file name."""
    with zipfile.ZipFile(path) as archive:
        found = {name: archive.read(name) for name in archive.namelist() if name != "meta.json"}
    with NetworkFile(path) as network:
        meta = network.meta
        provenance = sorted({**meta.provenance, "source": None}.items())
        found["meta"] = repr((meta.neurons, meta.synapses, meta.attributes, provenance)).encode()
    return found


GRAPH = Path("NIR graph")


def both(raw: bytes, folder: Path, change: Callable[[Any], Any] = lambda graph: graph) -> None:
    (folder / "a.nir").write_bytes(raw)
    load(ImportJob(folder / "a.nir", folder / "file.bin"))
    changed = change(nir.read(folder / "a.nir", **UNCHECKED))
    load_graph(changed, ImportJob(GRAPH, folder / "object.bin"))
    assert members(folder / "object.bin") == members(folder / "file.bin")


class Tensor:
    """Stand-in for a PyTorch tensor: converts to an array only when detached and on the CPU."""

    def __init__(self, values: Any, steps: tuple[str, ...] = ()) -> None:
        self._values, self._steps = values, steps

    def detach(self) -> Tensor:
        return Tensor(self._values, (*self._steps, "detach"))

    def cpu(self) -> Tensor:
        return Tensor(self._values, (*self._steps, "cpu"))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self._steps != ("detach", "cpu"):
            raise RuntimeError("can't call numpy() on a Tensor that requires grad")
        return np.asarray(self._values, dtype)

    def __deepcopy__(self, memo: Any) -> Tensor:
        raise RuntimeError("only Tensors created explicitly by the user support deepcopy")


def tensors(found: Any) -> Any:
    """Convert each array of a graph to a tensor, as in graphs of Norse."""
    for node in found.nodes.values():
        if type(node).__name__ == "NIRGraph":
            tensors(node)
            continue
        for name, value in vars(node).items():
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                setattr(node, name, Tensor(value))
    return found


def tuples(found: Any) -> Any:
    """Convert shapes of a graph to tuples and unknown ones to None, as in graphs of sinabs."""
    for node in found.nodes.values():
        for name, value in vars(node).items():
            if isinstance(value, np.ndarray) and value.dtype.kind == "i" and value.ndim == 1:
                setattr(node, name, tuple(value.tolist()))
        if hasattr(node, "input_shape"):
            node.input_shape = None
    return found


@pytest.mark.parametrize("change", [lambda found: found, tensors, tuples])
@pytest.mark.parametrize("name", GRAPHS)
def test_equals_import_of_the_file(name: str, change: Callable[[Any], Any], tmp_path: Path) -> None:
    both(nir_bytes(GRAPHS[name]()), tmp_path, change)


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.jit
@pytest.mark.parametrize(
    "name", ["braille_noDelay_bias_zero.nir", "cnn_sinabs.nir", "lif_norse.nir"]
)
def test_real_graphs(name: str, data_dir: Path, tmp_path: Path) -> None:
    path = data_dir / "nir" / name
    if not path.is_file():
        pytest.skip(f"no {name}")
    both(path.read_bytes(), tmp_path)


def refused(found: Any, folder: Path) -> str:
    with pytest.raises(BadInputError) as caught:
        load_graph(found, ImportJob(GRAPH, folder / "net.bin"))
    assert list(folder.iterdir()) == []
    return str(caught.value)


def made(folder: Path) -> Any:
    (folder / "a.nir").write_bytes(nir_bytes(plain()))
    found = nir.read(folder / "a.nir")
    (folder / "a.nir").unlink()
    return found


def test_faults_name_the_node(tmp_path: Path) -> None:
    found = made(tmp_path)
    found.nodes["b"].weight = SimpleNamespace(shape=(4, 3))
    assert refused(found, tmp_path) == (
        "NIR graph: node 'b' (Linear): weight holds object; it must hold numbers"
    )
    found.nodes["b"] = SimpleNamespace(weight=1)
    assert "node 'b': is a SimpleNamespace, not a NIR node" in refused(found, tmp_path)
    found = made(tmp_path)
    found.nodes["b"].weight = [[1, 2], [3]]
    assert "NIR graph: node 'b' (Linear): weight is a list" in refused(found, tmp_path)
    found = made(tmp_path)
    found.edges = [("a", "b"), ("b", "missing")]
    assert "no node is called 'missing'" in refused(found, tmp_path)
    found.edges = [7]
    assert "edges must be pairs of node names" in refused(found, tmp_path)


def test_a_graph_that_contains_itself(tmp_path: Path) -> None:
    found = made(tmp_path)
    found.nodes["b"] = found
    assert "does one contain itself?" in refused(found, tmp_path)
