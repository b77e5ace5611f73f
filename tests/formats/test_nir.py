"""NIR graphs: what is a neuron and what a synapse, every fault, and the files of its paper."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import BadInputError
from storage.formats import hdf5, import_network, layers, nirfile, recognise
from storage.formats.layers import Windows
from storage.meta import NetworkMeta
from storage.network import NetworkFile
from tests.formats import naive_layers as naive
from tests.formats.conftest import Edges, attributes_of, edges_of

h5py = pytest.importorskip("h5py", reason="NIR files need h5py")

Convert = Callable[..., Path]
Refuse = Callable[..., str]
Parameters = dict[str, Any]
Weights = Any


def node(kind: str, **parameters: Any) -> Parameters:
    return {"type": kind, **parameters}


def lif(shape: tuple[int, ...] = ()) -> Parameters:
    return node("LIF", **{name: np.ones(shape) for name in ("tau", "r", "v_leak", "v_threshold")})


def linear(weight: Weights) -> Parameters:
    return node("Linear", weight=np.asarray(weight))


def given(*shape: int) -> Parameters:
    return node("Input", shape=np.array(shape))


def conv(weight: Weights, **more: Any) -> Parameters:
    axes = weight.ndim - 2
    numbers = {name: np.ones(axes, int) for name in ("stride", "dilation")}
    plain = {"padding": np.zeros(axes, int), "groups": 1, "bias": np.zeros(len(weight))}
    return node(f"Conv{axes}d", weight=weight, **{**numbers, **plain, **more})


def pool(kind: str, kernel: Sequence[int], stride: Sequence[int]) -> Parameters:
    numbers = {"kernel_size": np.array(kernel), "stride": np.array(stride)}
    return node(kind, **numbers, padding=np.zeros(2, int))


def graph(nodes: dict[str, Parameters], edges: Sequence[tuple[str, str]]) -> Parameters:
    pairs = np.array([[a.encode(), b.encode()] for a, b in edges], object).reshape(-1, 2)
    return {"type": "NIRGraph", "nodes": nodes, "edges": pairs}


def chain(*nodes: Parameters) -> Parameters:
    """Nodes named a, b, c, ..., each of which leads to the next."""
    names = [chr(ord("a") + index) for index in range(len(nodes))]
    edges = list(pairwise(names))
    return graph(dict(zip(names, nodes, strict=True)), edges)


def nir_bytes(root: Parameters, version: str | None = "1.0.8") -> bytes:
    """A NIR file, written with h5py alone."""

    def put(group: Any, members: Parameters) -> None:
        for name, value in members.items():
            if isinstance(value, dict):
                put(group.create_group(name), value)
            elif isinstance(value, str) or (isinstance(value, np.ndarray) and value.dtype == "O"):
                group.create_dataset(name, data=value, dtype=h5py.string_dtype())
            else:
                group.create_dataset(name, data=value)

    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        put(file, {"node": root} | ({} if version is None else {"version": version}))
    return buffer.getvalue()


@pytest.fixture
def nets(converted: Convert) -> Callable[[Parameters], Path]:
    return lambda root: converted("a.nir", nir_bytes(root))


@pytest.fixture
def fault(refused: Refuse) -> Callable[[Parameters], str]:
    return lambda root: refused("a.nir", nir_bytes(root))


Nets = Callable[[Parameters], Path]
Fault = Callable[[Parameters], str]


def shifted(entries: naive.Entries, source: int, target: int) -> Edges:
    """The synapses of a map from neurons `source` on to neurons `target` on."""
    found = {(c + source, r + target): abs(w) for (r, c), w in entries.items() if w}
    return {pair: w for pair, w in found.items() if pair[0] != pair[1]}


def labels_of(path: Path) -> list[str]:
    with NetworkFile(path) as network:
        return network.attribute("population").labels or []


def meta_of(path: Path) -> NetworkMeta:
    with NetworkFile(path) as network:
        return network.meta


def test_an_example(nets: Nets) -> None:
    net = nets(chain(given(2), linear([[0.5, -2], [0, 4], [1, 0]]), lif((3,)), node("Output")))
    assert edges_of(net) == {(0, 2): 0.5, (1, 2): 2.0, (1, 3): 4.0, (0, 4): 1.0}
    found = attributes_of(net)
    assert found["population"] == [0, 0, 1, 1, 1]
    assert found["rate"] == [1] * 5
    assert labels_of(net) == ["a", "c"]
    meta = meta_of(net)
    losses = {"weights_zero": 2, "weights_negative": 1}
    assert meta.provenance == {"format": "nir", "source": "a.nir", **losses}
    assert not meta.weights_are_rates
    assert not meta.undirected


@pytest.mark.parametrize("entries", [1, 50, 1 << 18])
def test_a_way_is_the_product_of_its_nodes(
    nets: Nets, monkeypatch: pytest.MonkeyPatch, entries: int
) -> None:
    monkeypatch.setattr(layers, "ENTRIES", entries)
    rng = np.random.default_rng(entries)
    weight = rng.integers(-2, 3, (4, 1, 3, 2))
    first = Windows((5, 6), (3, 2), (2, 1), (1, 2), (1, 0), (1, 0))
    second = Windows(first.count, (2, 2), (1, 2), (1, 1), (0, 0), (0, 0))
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


def test_ways_that_meet_are_summed(nets: Nets) -> None:
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
    """The only node that leads to the population is part of the cycle."""
    nodes = {"in": given(2), "w": linear(np.ones((2, 2))), "n": lif()}
    net = nets(graph(nodes, [("in", "w"), ("w", "n"), ("n", "w")]))
    pairs = {(0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (3, 2)}
    assert set(edges_of(net)) == pairs


def test_graphs_in_graphs(nets: Nets) -> None:
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


def test_kinds_of_populations_and_their_sizes(nets: Nets) -> None:
    for kind, names in nirfile.POPULATIONS.items():
        for shape in ((), (1,), (3, 1, 1), (3, 2, 4)):
            parameters: Parameters = dict.fromkeys(names, np.ones(()))
            parameters[names[0]] = np.ones(shape)
            net = nets(chain(given(3, 2, 4), node(kind, **parameters)))
            assert edges_of(net) == {(i, i + 24): 1.0 for i in range(24)}


def test_order_of_ids(nets: Nets) -> None:
    """Behind all that leads to it; the first of the file where there is a choice."""
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
    windows = Windows(size, kernel, one, one, low, high)
    expected = shifted(naive.convolution(weight, windows, 1), 0, int(np.prod(size)))
    more: dict[str, Any] = {"padding": padding, "stride": 1}
    assert edges_of(nets(chain(given(1, *size), conv(weight, **more), lif()))) == expected
    more["input_shape"] = np.array(size)
    assert edges_of(nets(chain(given(1, *size), conv(weight, **more), lif()))) == expected


def test_own_library_writes_the_same(nets: Nets, tmp_path: Path) -> None:
    library = pytest.importorskip("nir", reason="the library of NIR is not there")
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
    import_network(tmp_path / "b.nir", tmp_path / "b.bin")
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


W = np.ones((2, 2))
FAULTS: list[tuple[Any, str]] = [
    (lif((2,)), "the graph: type is 'LIF'; it must be a NIRGraph"),
    ({"type": "NIRGraph", "nodes": {}}, "the graph: dataset edges is missing"),
    ({"type": "NIRGraph", "edges": np.zeros(0)}, "the graph: group nodes is missing"),
    (graph({}, []), "no neurons"),
    ({**graph({"a": lif((2,))}, []), "edges": np.array([b"a", b"a"])}, "edges has shape (2,)"),
    ({**graph({"a": lif((2,))}, []), "edges": np.ones((1, 2))}, "edges must hold names"),
    (graph({"a": lif((2,))}, [("a", "b")]), "edge 'a' -> 'b': there is no node 'b'"),
    (graph({"a": lif((2,)), "b": lif()}, [("a", "b")] * 2), "edge 'a' -> 'b' is there twice"),
    (chain(given(2), node("Wibble")), "node 'b': type 'Wibble' is not known; CubaLI,"),
    (chain(given(2), {"shape": 3}), "node 'b': dataset type is missing"),
    (chain(linear(W), lif()), "node 'a' (Linear): nothing leads to it"),
    (chain(given(2), node("Linear"), lif()), "node 'b' (Linear): dataset weight is missing"),
    (chain(given(2), node("Affine", weight=W), lif()), "node 'b' (Affine): dataset bias is miss"),
    (chain(given(2), node("LIF", tau=np.ones(2))), "node 'b' (LIF): dataset r is missing"),
    (chain(given(2), linear([1, 2]), lif()), "weight has shape (2,); it must be (outputs, inp"),
    (
        chain(given(3), linear(W), lif()),
        "node 'b' (Linear): takes the shape (2,), but 'a', which leads to it, makes (3,)",
    ),
    (chain(given(2), linear(W), lif((3,))), "node 'c' (LIF): takes the shape (3,), but 'b'"),
    (chain(given(2), linear(W * np.nan), lif()), "node 'b' (Linear): dataset weight holds values"),
    (chain(given(2), linear(np.array([[b"x", b"y"]])), lif()), "it must hold numbers"),
    (
        chain(given(2), node("Affine", weight=W, bias=np.ones(3)), lif()),
        "node 'b' (Affine): bias has shape (3,); the weight needs (2,)",
    ),
    (chain(given(2), node("IF", r=np.ones(2), v_threshold=np.ones(3))), "do not go with each"),
    (chain(given(2), node("Scale", scale=np.ones(3)), lif()), "takes the shape (3,), but 'a'"),
    (chain(given(0)), "node 'a' (Input): shape is (0,)"),
    (chain(given(1.5)), "node 'a' (Input): dataset shape must hold whole numbers"),  # type: ignore[arg-type]
    (chain(given(2**20, 2**20)), "node 'a' (Input): its shape (1048576, 1048576) is beyond"),
    (chain(lif()), "node 'a' (LIF): its parameters are single numbers: its size is not known"),
    (chain(given(2), pool("SumPool2d", [2, 2], [2, 2]), lif()), "must be channels, height, wid"),
    (chain(given(1, 2, 2), pool("SumPool2d", [3, 1], [1, 1]), lif()), "node 'b': a window of 3"),
    (chain(given(1, 2, 2), pool("AvgPool2d", [1], [0, 1]), lif()), "node 'b': kernel 1, stride 0"),
    (chain(given(1, 2, 2), pool("AvgPool2d", [1] * 3, [1]), lif()), "kernel_size has 3 values"),
    (chain(given(1, 9), conv(np.ones((1, 1, 2)), stride=[1, 2]), lif()), "stride has 2 values"),
    (chain(given(1, 9), conv(np.ones((1, 1, 2)), padding="full"), lif()), "padding is 'full'"),
    (chain(given(1, 9), conv(W[None], padding="same", stride=2), lif()), "for a stride of 1 only"),
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
        "graph 'g', edge 'n' -> 'm': there is no node 'm'",
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
    [(None, "dataset version is missing"), ("2.0", "NIR version '2.0' is not known")],
)
def test_versions(version: str | None, message: str, refused: Refuse) -> None:
    assert message in refused("a.nir", nir_bytes(chain(given(2)), version))


def test_damaged_files(refused: Refuse) -> None:
    whole = nir_bytes(chain(given(2), linear(W), lif()))
    for length in (8, 100, len(whole) // 2, len(whole) - 1):
        assert "not a sound HDF5 file" in refused("a.nir", whole[:length])
    assert "not a sound HDF5 file" in refused("a.nir", b"some text\n", format="nir")


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


def test_a_graph_that_holds_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.nir"
    path.write_bytes(nir_bytes(graph({"in": given(2)}, [])))
    with h5py.File(path, "r+") as file:
        file["node/nodes/again"] = file["node"]
    with pytest.raises(BadInputError, match="over 32 graphs in each other"):
        import_network(path, tmp_path / "net.bin")
    assert [p.name for p in tmp_path.iterdir()] == ["a.nir"]


def test_recognised_and_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "graph.nir"
    path.write_bytes(nir_bytes(chain(given(2))))
    assert recognise(path).name == "nir"

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(hdf5, "import_module", missing)
    with pytest.raises(BadInputError, match=r"HDF5 files need h5py; pip install 'mapper\[nir\]'"):
        import_network(path, tmp_path / "net.bin")


# the files of the paper


def imported(data_dir: Path, name: str, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """The network made of a file, and the arrays of the file by path within `node/nodes`."""
    source = data_dir / "nir" / name
    if not source.exists():
        pytest.skip(f"nir/{name} is not there")
    import_network(source, tmp_path / "net.bin")
    arrays = {}
    with h5py.File(source) as file:
        for node_name, group in file["node/nodes"].items():
            for key, dataset in group.items():
                arrays[f"{node_name}/{key}"] = dataset[()]
    return tmp_path / "net.bin", arrays


def counted(weight: Weights, size: int, pad: int, stride: int) -> int:
    """Synapses of a convolution of a square: non-zero weights times windows they are inside of."""
    kernel, total = weight.shape[2], 0
    windows = (size + 2 * pad - kernel) // stride + 1
    start = np.arange(windows) * stride - pad
    inside = [int(((start + k >= 0) & (start + k < size)).sum()) for k in range(kernel)]
    for (i, j), count in np.ndenumerate(np.count_nonzero(weight, axis=(0, 1))):
        total += int(count) * inside[i] * inside[j]
    return total


@pytest.mark.jit
def test_the_convolutional_network(data_dir: Path, tmp_path: Path) -> None:
    net, arrays = imported(data_dir, "cnn_sinabs.nir", tmp_path)
    meta = meta_of(net)
    shapes = [arrays[f"{n}/v_threshold"].shape for n in (1, 3, 6, 10, 12)]
    sizes = [2 * 34 * 34, *(int(np.prod(shape)) for shape in shapes)]
    assert meta.neurons == sum(sizes) == 11282
    assert labels_of(net) == ["input", "1", "3", "6", "10", "12"]
    w0, w2, w5, w9, w11 = (arrays[f"{n}/weight"] for n in (0, 2, 5, 9, 11))
    synapses = [
        counted(w0, 34, 1, 2),
        counted(w2, 16, 1, 1),
        4 * counted(w5, 8, 1, 1),  # each input is the sum of a window of 2 x 2
        4 * np.count_nonzero(w9),
        np.count_nonzero(w11),
    ]
    assert meta.synapses == meta.synapses_read == sum(synapses)
    starts = np.append(0, np.cumsum(sizes)).tolist()
    into: dict[int, Edges] = {}
    watched = {
        "border": starts[1] + 3 * 256,  # channel 3 of the first population, row 0, column 0
        "middle": starts[1] + 3 * 256 + 7 * 16 + 9,
        "pooled": starts[3] + 5 * 64,  # channel 5 of the third, row 0, column 0
    }
    with NetworkFile(net) as network:
        for block in network.blocks():
            indptr, ids, stored = block.outgoing()
            source = block.first + np.repeat(np.arange(block.vertices), np.diff(indptr))
            for target in watched.values():
                found = ids == target
                weight = stored[found] * meta.weight_unit
                pairs = [(s, target) for s in source[found].tolist()]
                into.setdefault(target, {}).update(zip(pairs, weight.tolist(), strict=True))
    for name, channel, row, column in (("border", 3, 0, 0), ("middle", 3, 7, 9)):
        expected = {}
        for c in range(2):
            for i in range(5):
                for j in range(5):
                    y, x = 2 * row - 1 + i, 2 * column - 1 + j
                    if 0 <= y < 34 and 0 <= x < 34 and w0[channel, c, i, j]:
                        pair = c * 34 * 34 + y * 34 + x, watched[name]
                        expected[pair] = abs(float(w0[channel, c, i, j]))
        assert len(expected) == {"border": 2 * 4 * 4, "middle": 2 * 5 * 5}[name]
        assert into[watched[name]] == pytest.approx(expected, rel=1e-3, abs=1e-6)
    expected = {}
    for c in range(16):
        for y in range(4):  # windows (0, 1) x (0, 1) of the pooled rows and columns
            for x in range(4):
                source = starts[2] + c * 256 + y * 16 + x
                weight = abs(float(w5[5, c, y // 2 + 1, x // 2 + 1]))
                expected[source, watched["pooled"]] = weight
    assert into[watched["pooled"]] == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_the_recurrent_network(data_dir: Path, tmp_path: Path) -> None:
    net, arrays = imported(data_dir, "braille_noDelay_bias_zero.nir", tmp_path)
    first, again, last = (arrays[f"{n}/weight"] for n in ("fc1", "lif1.w_rec", "fc2"))
    meta = meta_of(net)
    assert meta.neurons == 12 + 38 + 7
    assert labels_of(net) == ["input", "lif1.lif", "lif2"]
    loops = np.count_nonzero(np.diag(again))
    assert meta.self_loops == loops
    assert meta.synapses == sum(map(np.count_nonzero, (first, again, last))) - loops
    found, expected = np.zeros((57, 57)), np.zeros((57, 57))
    for (source, target), weight in edges_of(net).items():
        found[target, source] = weight
    expected[12:50, :12], expected[50:, 12:50] = np.abs(first), np.abs(last)
    expected[12:50, 12:50] = np.abs(again) * (1 - np.eye(38))
    assert np.allclose(found, expected, atol=meta.weight_unit)


def test_one_neuron(data_dir: Path, tmp_path: Path) -> None:
    net, _ = imported(data_dir, "lif_norse.nir", tmp_path)
    assert edges_of(net) == {(0, 1): 1.0}
    assert labels_of(net) == ["input", "1"]
