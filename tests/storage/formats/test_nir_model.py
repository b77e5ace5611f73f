"""NIR graphs as models: matrices by delay, biases, parameters, and faults by node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import BadInputError
from storage.formats import import_network
from storage.formats.hdf5.nirmodel import NirModel, read_nir_model
from storage.store.network import NetworkFile
from tests.reference import layers as naive
from tests.storage.formats.nir_graphs import (
    Parameters,
    chain,
    conv,
    given,
    graph,
    lif,
    linear,
    nir_bytes,
    node,
    pool,
)

RNG = np.random.default_rng(0)
END = node("Output", shape=np.array([1]))


def model_of(root: Parameters, tmp_path: Path) -> NirModel:
    path = tmp_path / "a.nir"
    path.write_bytes(nir_bytes(root))
    return read_nir_model(path)


def cuba(size: int, **more: Any) -> Parameters:
    names = ("tau_syn", "tau_mem", "r", "v_leak", "v_threshold")
    return node("CubaLIF", **({name: np.full(size, 2.0) for name in names} | more))


def test_parameters_have_their_defaults(tmp_path: Path) -> None:
    shaped = node(
        "LIF", tau=np.full((2, 1), 3.0), r=np.arange(2.0).reshape(2, 1), v_leak=np.zeros(1),
        v_threshold=np.ones((2, 1)), v_reset=np.full((2, 1), 0.25),
    )  # fmt: skip
    flat = node("Flatten", start_dim=0, end_dim=-1, input_type=np.array([2, 1]))
    root = chain(given(2, 1), shaped, flat, linear(np.ones((1, 2))), cuba(1), END)
    found = model_of(root, tmp_path)
    assert [(p.name, p.kind, p.shape) for p in found.populations] == [
        ("a", "Input", (2, 1)), ("b", "LIF", (2, 1)), ("e", "CubaLIF", (1,)),
    ]  # fmt: skip
    values = {name: value.tolist() for name, value in found.populations[1].parameters.items()}
    assert values == {
        "tau": [3, 3], "r": [0, 1], "v_leak": [0, 0], "v_threshold": [1, 1],
        "v_reset": [0.25, 0.25],
    }  # fmt: skip
    assert found.populations[2].parameters["w_in"].tolist() == [1]
    assert found.outputs == (("f", 2),)
    assert found.time_step is None


def test_matrices_are_the_products_of_the_nodes_on_all_paths(tmp_path: Path) -> None:
    """A convolution, pooling, scaling and a dense layer; a second path adds to them."""
    kernel, dense = RNG.integers(-3, 4, (2, 1, 2, 2)), RNG.integers(-3, 4, (3, 8))
    skip = RNG.integers(-3, 4, (3, 25))
    nodes = {
        "in": given(1, 5, 5),
        "conv": conv(kernel.astype(float), input_shape=np.array([5, 5])),
        "pool": pool("SumPool2d", [2, 2], [2, 2]),
        "flat": node("Flatten", start_dim=0, end_dim=-1, input_type=np.array([2, 2, 2])),
        "scale": node("Scale", scale=np.full(8, 2.0)),
        "dense": linear(dense.astype(float)),
        "flat2": node("Flatten", start_dim=0, end_dim=-1, input_type=np.array([1, 5, 5])),
        "skip": linear(skip.astype(float)),
        "lif": lif((3,)),
        "out": END,
    }
    edges = [
        ("in", "conv"), ("conv", "pool"), ("pool", "flat"), ("flat", "scale"), ("scale", "dense"),
        ("dense", "lif"), ("in", "flat2"), ("flat2", "skip"), ("skip", "lif"), ("lif", "out"),
    ]  # fmt: skip
    found = model_of(graph(nodes, edges), tmp_path)
    (only,) = found.connections
    convolved = np.zeros((2, 4, 4, 25))
    for c, y, x, dy, dx in np.ndindex(2, 4, 4, 2, 2):
        convolved[c, y, x, (y + dy) * 5 + x + dx] += kernel[c, 0, dy, dx]
    pooled = convolved.reshape(2, 2, 2, 2, 2, 25).sum(axis=(2, 4)).reshape(8, 25)
    assert np.array_equal(only.weight.toarray(), dense @ (2 * pooled) + skip)
    assert (only.source, only.target, only.delay) == (0, 1, 0.0)


def test_delays_on_a_path_add_up_and_split_its_matrix(tmp_path: Path) -> None:
    first, second = RNG.integers(1, 4, (3, 2)), RNG.integers(1, 4, (2, 3))
    before, between, after = [0.0, 1.0], [0.0, 2.0, 2.0], [5.0, 5.0]
    root = chain(
        given(2), node("Delay", delay=np.array(before)), linear(first.astype(float)),
        node("Delay", delay=np.array(between)), linear(second.astype(float)),
        node("Delay", delay=np.array(after)), lif((2,)), END,
    )  # fmt: skip
    expected: dict[float, naive.Entries] = {}
    for s, m, t in np.ndindex(2, 3, 2):
        own = expected.setdefault(before[s] + between[m] + after[t], {})
        own[t, s] = own.get((t, s), 0) + float(second[t, m] * first[m, s])
    found = model_of(root, tmp_path)
    assert [each.delay for each in found.connections] == sorted(expected)
    for each in found.connections:
        entries = dict(np.ndenumerate(each.weight.toarray()))
        assert {at: w for at, w in entries.items() if w} == expected[each.delay]


def test_biases_pass_the_layers_after_them(tmp_path: Path) -> None:
    weight, bias = RNG.integers(-3, 4, (3, 2)), np.array([1.0, -2, 3])
    second = RNG.integers(-3, 4, (2, 3))
    affine = node("Affine", weight=weight.astype(float), bias=bias)
    root = chain(given(2), affine, linear(second.astype(float)), lif((2,)), END)
    found = model_of(root, tmp_path)
    assert found.bias[0] is None
    assert np.array_equal(found.bias[1], second @ bias)


@pytest.mark.heavy
def test_synapses_are_those_of_the_imported_network(data_dir: Path, tmp_path: Path) -> None:
    """The same graph as a network file: the same weights between the same neurons."""
    source = data_dir / "snn" / "digits_conv_if.nir"
    model, net = read_nir_model(source), tmp_path / "a.bin"
    import_network(source, net)
    first = np.cumsum([0, *(int(np.prod(each.shape)) for each in model.populations)])
    mine = {}
    for each in model.connections:
        entries = each.weight.tocoo()
        for t, s, w in zip(entries.row, entries.col, entries.data, strict=True):
            mine[int(s + first[each.source]), int(t + first[each.target])] = float(w)
    theirs = {}
    with NetworkFile(net) as network:
        for block in range(network.block_count):
            for s, t, w in zip(*network.read_synapses(block), strict=True):
                theirs[int(s), int(t)] = float(w)
    assert mine == pytest.approx(theirs)


BAD: dict[str, tuple[Parameters, str]] = {
    "time constant": (
        chain(given(1), lif((1,)) | {"tau": np.zeros(1)}, END),
        "node 'b' (LIF): tau is 0; time constants must be above 0",
    ),
    "delay": (
        chain(given(1), node("Delay", delay=np.array([-1.0])), lif((1,)), END),
        "node 'b' (Delay): a delay is -1; delays must not be negative",
    ),
    "no output": (chain(given(1), lif((1,))), "no Output"),
    "no input": (chain(lif((1,)), linear(np.ones((1, 1))), lif((1,)), END), "no Input"),
    "missing": (
        chain(given(1), node("LIF", tau=np.ones(1)), END),
        "node 'b' (LIF): dataset r is missing",
    ),
    "unknown": (
        chain(given(1), node("Sigmoid"), node("Softmax"), lif((1,)), END),
        "nodes 'b' (Sigmoid), 'c' (Softmax): their types are not supported",
    ),
    "two into an output": (
        graph(
            {"in": given(1), "a": lif((1,)), "b": lif((1,)), "out": END},
            [("in", "a"), ("in", "b"), ("a", "out"), ("b", "out")],
        ),
        "node 'out' (Output): several nodes lead to it",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_faults_are_named(name: str, tmp_path: Path) -> None:
    root, text = BAD[name]
    with pytest.raises(BadInputError) as caught:
        model_of(root, tmp_path)
    assert text in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "a.nir"))


def test_time_step_of_the_metadata(tmp_path: Path) -> None:
    root = chain(given(1), lif((1,)), END)
    assert model_of(root | {"metadata": {"dt": np.float64(1e-4)}}, tmp_path).time_step == 1e-4
    with pytest.raises(BadInputError, match="dt of the metadata is"):
        model_of(root | {"metadata": {"dt": np.float64(-1)}}, tmp_path)


def test_graphs_in_memory(tmp_path: Path) -> None:
    nir = pytest.importorskip("nir", reason="needs nir")
    ones = np.ones(2)
    made = nir.NIRGraph(
        nodes={
            "input": nir.Input({"input": np.array([3])}),
            "w": nir.Linear(np.arange(6.0).reshape(2, 3)),
            "lif": nir.LIF(tau=ones, r=ones, v_leak=ones * 0, v_threshold=ones),
            "output": nir.Output({"output": np.array([2])}),
        },
        edges=[("input", "w"), ("w", "lif"), ("lif", "output")],
    )
    found = read_nir_model(made)
    assert found.connections[0].weight.toarray().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found.outputs == (("output", 1),)
