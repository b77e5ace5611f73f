"""NIR graphs: neurons and synapses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.formats import import_network
from storage.formats.hdf5 import nirgraph
from storage.formats.layers import linear as layers
from storage.formats.layers.linear import WindowPositions
from tests.reference import layers as naive
from tests.storage.formats.conftest import Edges, attributes_of, edges_of, labels_of, meta_of
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

Convert = Callable[..., Path]
Nets = Callable[[Parameters], Path]


@pytest.fixture
def nets(converted: Convert) -> Callable[[Parameters], Path]:
    return lambda root: converted("a.nir", nir_bytes(root))


def shifted(entries: naive.Entries, source: int, target: int) -> Edges:
    """Return the synapses of a map, with neurons starting at `source` and `target`."""
    found = {(c + source, r + target): abs(w) for (r, c), w in entries.items() if w}
    return {pair: w for pair, w in found.items() if pair[0] != pair[1]}


def test_an_example(nets: Nets) -> None:
    net = nets(chain(given(2), linear([[0.5, -2], [0, 4], [1, 0]]), lif((3,)), node("Output")))
    assert edges_of(net) == {(0, 2): 0.5, (1, 2): 2.0, (1, 3): 4.0, (0, 4): 1.0}
    found = attributes_of(net)
    assert found["population"] == [0, 0, 1, 1, 1]
    assert "rate" not in found
    assert labels_of(net) == ["a", "c"]
    meta = meta_of(net)
    losses = {"weights_zero": 2, "weights_negative": 1, "traffic": {"source": "weights"}}
    assert meta.provenance == {"format": "nir", "source": "a.nir", **losses}
    assert not meta.weights_are_rates
    assert not meta.undirected


@pytest.mark.parametrize("entries", [1, 50, 1 << 18])
def test_a_path_is_the_product_of_its_nodes(
    nets: Nets, monkeypatch: pytest.MonkeyPatch, entries: int
) -> None:
    monkeypatch.setattr(layers, "ENTRIES", entries)
    rng = np.random.default_rng(entries)
    weight = rng.integers(-2, 3, (4, 1, 3, 2))
    first = WindowPositions((5, 6), (3, 2), (2, 1), (1, 2), (1, 0), (1, 0))
    second = WindowPositions(first.count, (2, 2), (1, 2), (1, 1), (0, 0), (0, 0))
    expected = naive.composed(
        naive.pooling(4, second, "kernel"), naive.convolution(weight, first, 2)
    )
    outputs = 1 + max(row for row, _ in expected)
    factors = rng.integers(0, 3, (4, 1, 1))
    expected = {
        (row, column): weight * int(factors[row // (outputs // 4), 0, 0])
        for (row, column), weight in expected.items()
    }
    matrix = rng.integers(-1, 2, (3, outputs))
    dense = {(o, i): float(matrix[o, i]) for o in range(3) for i in range(outputs)}
    net = nets(
        chain(
            given(2, 5, 6),
            conv(
                weight,
                stride=np.array([2, 1]),
                dilation=np.array([1, 2]),
                padding=np.array([1, 0]),
                groups=2,
            ),
            pool("AvgPool2d", [2, 2], [1, 2]),
            node("Scale", scale=factors),
            node("Delay", delay=np.array(0.1)),
            node("Flatten", start_dim=0, end_dim=-1),
            linear(matrix),
            lif(),
        )
    )
    expected = naive.composed(dense, expected)
    assert edges_of(net) == pytest.approx(shifted(expected, 0, 60))
    assert meta_of(net).neurons == 63
    assert meta_of(net).provenance["weights_zero"] == sum(not w for w in expected.values())


def test_joining_paths_are_summed(nets: Nets) -> None:
    nodes = {
        "in": given(2),
        "one": linear([[1, 2], [3, 4]]),
        "two": linear([[1, -2], [1, 0]]),
        "last": linear([[1, 1]]),
        "out": lif((1,)),
    }
    edges = [("in", "one"), ("in", "two"), ("one", "last"), ("two", "last"), ("last", "out")]
    net = nets(graph(nodes, edges))  # (1 + 3 + 1 + 1, 2 + 4 - 2 + 0)
    assert edges_of(net) == {(0, 2): 6.0, (1, 2): 4.0}
    straight = {**nodes, "last": linear([[-4, 0], [-4, 0]]), "out": lif((2,))}
    net = nets(graph(straight, [*edges, ("one", "out"), ("in", "out")]))
    # last * (one + two) + one + identity = ((-8, 0), (-8, 0)) + ((1, 2), (3, 4)) + 1
    assert edges_of(net) == {(0, 2): 6.0, (1, 2): 2.0, (0, 3): 5.0, (1, 3): 5.0}


def test_recurrent_weights_and_self_loops(nets: Nets) -> None:
    nodes = {"in": given(1), "w": linear([[1], [1]]), "r": linear([[5, 6], [7, 8]]), "n": lif()}
    net = nets(graph(nodes, [("in", "w"), ("w", "n"), ("n", "r"), ("r", "n")]))
    assert edges_of(net) == {(0, 1): 1.0, (0, 2): 1.0, (2, 1): 6.0, (1, 2): 7.0}
    assert meta_of(net).self_loops == 2


def test_a_weight_inside_the_cycle_gives_the_size(nets: Nets) -> None:
    """The only predecessor of the population is part of the cycle."""
    nodes = {"in": given(2), "w": linear(np.ones((2, 2))), "n": lif()}
    net = nets(graph(nodes, [("in", "w"), ("w", "n"), ("n", "w")]))
    pairs = {(0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (3, 2)}
    assert set(edges_of(net)) == pairs


def test_nested_graphs(nets: Nets) -> None:
    inner = graph(
        {"i": given(2), "w": linear([[1, 2], [3, 4]]), "n": lif((2,)), "o": node("Output")},
        [("i", "w"), ("w", "n"), ("n", "o")],
    )
    middle = graph({"i": given(2), "g": inner, "o": node("Output")}, [("i", "g"), ("g", "o")])
    nodes = {"in": given(2), "sub": middle, "w": linear([[5, 6]]), "out": node("Output")}
    net = nets(graph(nodes, [("in", "sub"), ("sub", "w"), ("w", "out")]))
    assert labels_of(net) == ["in", "sub/g/n", "out"]  # weights lead to the Output: a readout
    expected = {(0, 2): 1.0, (1, 2): 2.0, (0, 3): 3.0, (1, 3): 4.0, (2, 4): 5.0, (3, 4): 6.0}
    assert edges_of(net) == expected


@pytest.mark.heavy
def test_kinds_of_populations_and_their_sizes(nets: Nets) -> None:
    for kind, names in nirgraph.POPULATIONS.items():
        for shape in ((), (1,), (3, 1, 1), (3, 2, 4)):
            parameters: Parameters = dict.fromkeys(names, np.ones(()))
            parameters[names[0]] = np.ones(shape)
            net = nets(chain(given(3, 2, 4), node(kind, **parameters)))
            assert edges_of(net) == {(i, i + 24): 1.0 for i in range(24)}


def test_order_of_ids(nets: Nets) -> None:
    """Topological order; among several candidates, the order of the file."""
    nodes = {name: lif((1,)) for name in "zyxw"} | {"in": given(1)}
    edges = [("in", "z"), ("z", "x"), ("x", "w"), ("in", "y"), ("y", "w"), ("w", "y")]
    net = nets(graph(nodes, edges))  # HDF5 lists names in alphabetical order
    assert labels_of(net) == ["in", "z", "x", "w", "y"]


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("padding", ["same", "valid", 2])
def test_paddings(nets: Nets, axes: int, padding: str | int) -> None:
    size, kernel, one = (6, 5)[:axes], (4, 3)[:axes], (1,) * axes
    low, high = {
        "same": ((1, 1)[:axes], (2, 1)[:axes]),
        "valid": ((0,) * axes,) * 2,
        2: ((2,) * axes,) * 2,
    }[padding]
    weight = np.random.default_rng(axes).integers(1, 5, (2, 1, *kernel))
    windows = WindowPositions(size, kernel, one, one, low, high)
    expected = shifted(naive.convolution(weight, windows, 1), 0, int(np.prod(size)))
    more: dict[str, Any] = {"padding": padding, "stride": 1}
    assert edges_of(nets(chain(given(1, *size), conv(weight, **more), lif()))) == expected
    more["input_shape"] = np.array(size)
    assert edges_of(nets(chain(given(1, *size), conv(weight, **more), lif()))) == expected


def test_files_of_the_nir_library(nets: Nets, tmp_path: Path) -> None:
    library = pytest.importorskip("nir", reason="the library of NIR is not installed")
    weight = np.random.default_rng(3).normal(size=(3, 2, 3, 3)).astype(np.float32)
    matrix = np.random.default_rng(4).normal(size=(4, 27))
    ones = [np.ones(4)] * 4
    written = library.NIRGraph.from_list(
        library.Input(np.array([2, 6, 6])),
        library.Conv2d((6, 6), weight, 1, "same", 1, 1, np.ones(3)),
        library.SumPool2d(np.array([2, 2]), np.array([2, 2]), np.array([0, 0])),
        library.Flatten({"input": np.array([3, 3, 3])}, 0, -1),
        library.Linear(matrix),
        library.LIF(*ones),
    )
    library.write(tmp_path / "b.nir", written)
    import_network(tmp_path / "b.nir", tmp_path / "b.bin", traffic="weights")
    mine = chain(
        given(2, 6, 6),
        conv(weight, padding="same"),
        pool("SumPool2d", [2, 2], [2, 2]),
        node("Flatten", start_dim=0, end_dim=-1),
        linear(matrix),
        lif((4,)),
    )
    found = edges_of(tmp_path / "b.bin")
    (tmp_path / "b.bin").unlink()
    (tmp_path / "b.nir").unlink()
    assert found == edges_of(nets(mine))
    assert len(found) == 72 * 4
