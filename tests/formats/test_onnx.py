"""ONNX models: each operator against the reference implementation, faults, and real models.

All weights of the small models are positive and nothing in them is added or cut off. So the sum
over all ways through the network, of the products of weights, is what the model makes of a unit
vector, as the reference implementation of ONNX computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import BadInputError
from storage.formats import import_network, layers, onnxgraph, recognise
from storage.formats.layers import row_blocks
from storage.formats.onnxbuild import Builder
from storage.formats.onnxgraph import Model
from storage.formats.onnxops import OPERATORS
from storage.meta import NetworkMeta
from storage.network import NetworkFile
from tests.formats.conftest import edges_of

onnx = pytest.importorskip("onnx", reason="ONNX models need onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
reference = pytest.importorskip("onnx.reference")

Convert = Callable[..., Path]
Refuse = Callable[..., str]
Array = Any
RNG = np.random.default_rng(2)


def weights(*shape: int) -> Array:
    """Whole numbers from 1 to 3, which every unit holds exactly."""
    return RNG.integers(1, 4, shape).astype(np.float32)


def model(
    nodes: Sequence[Any],
    constants: dict[str, Array] | None = None,
    inputs: dict[str, Sequence[int | str | None]] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
) -> Any:
    given = inputs if inputs is not None else {"x": (1, 2, 5, 6)}
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in given.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def node(kind: str, inputs: str, output: str = "y", **attributes: Any) -> Any:
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(
        kind, names, output.split(), name=f"n_{output.split()[0]}", **attributes
    )


def response(net: Path, inputs: int, outputs: int) -> Array:
    """Sum over all ways from each of the first neurons to each of the last; (outputs, inputs)."""
    with NetworkFile(net) as network:
        n = network.vertices
    matrix = np.zeros((n, n))
    for (source, target), weight in edges_of(net).items():
        assert source < target
        matrix[target, source] = weight
    return np.linalg.inv(np.eye(n) - matrix)[n - outputs :, :inputs]


def meta_of(path: Path) -> NetworkMeta:
    with NetworkFile(path) as network:
        return network.meta


def labels_of(path: Path) -> list[str]:
    with NetworkFile(path) as network:
        return network.attribute("population").labels or []


def check(converted: Convert, made: Any, size: Sequence[int] = (1, 2, 5, 6)) -> Path:
    """Import a model of one input and compare it with what the model computes."""
    net = converted("a.onnx", made.SerializeToString())
    evaluator = reference.ReferenceEvaluator(made)
    inputs = int(np.prod(size))
    columns = []
    for index in range(inputs):
        unit = np.zeros(inputs, np.float32)
        unit[index] = 1
        columns.append(np.asarray(evaluator.run(None, {"x": unit.reshape(size)})[0]).ravel())
    expected = np.array(columns).T
    assert np.allclose(response(net, inputs, len(expected)), expected, rtol=1e-4)
    assert expected.any()
    return net


CONVOLUTIONS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((3, 2, 3, 2), {}),
    ((3, 2, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ((4, 1, 2, 3), {"group": 2, "dilations": [2, 2], "pads": [0, 1, 1, 2]}),
    ((2, 1, 3, 3), {"group": 2, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((2, 2, 2, 2), {"auto_pad": "SAME_LOWER", "strides": [1, 2]}),
    ((2, 2, 2, 2), {"auto_pad": "VALID", "kernel_shape": [2, 2]}),
]


@pytest.mark.parametrize(("shape", "attributes"), CONVOLUTIONS)
@pytest.mark.parametrize("entries", [1, 1 << 18])
def test_conv(
    converted: Convert,
    shape: tuple[int, ...],
    attributes: dict[str, Any],
    entries: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(layers, "ENTRIES", entries)
    constants = {"w": weights(*shape), "b": np.zeros(shape[0], np.float32)}
    net = check(converted, model([node("Conv", "x w b", **attributes)], constants))
    assert labels_of(net) == ["x", "n_y"]


POOLS: list[tuple[str, dict[str, Any]]] = [
    ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("MaxPool", {"kernel_shape": [3, 2], "pads": [1, 1, 1, 1]}),
    ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 3], "ceil_mode": 1}),
    ("AveragePool", {"kernel_shape": [2, 3], "strides": [1, 2]}),
    ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    ("AveragePool", {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}),
    ("GlobalAveragePool", {}),
    ("GlobalMaxPool", {}),
]


@pytest.mark.parametrize(("kind", "attributes"), POOLS)
def test_pools(converted: Convert, kind: str, attributes: dict[str, Any]) -> None:
    check(converted, model([node(kind, "x", **attributes)]))


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [("ReduceMean", [2], 0), ("ReduceMean", [1, -1], 1), ("ReduceMax", [1], 1)],
)
def test_reductions(converted: Convert, kind: str, left: list[int], right: int) -> None:
    check(converted, model([node(kind, "x", axes=left, keepdims=right)]))


def test_reduction_of_axes_that_are_an_input(converted: Convert) -> None:
    check(converted, model([node("ReduceSum", "x a", keepdims=0)], {"a": np.array([3, 0])}))


@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm(converted: Convert, turned: tuple[int, int]) -> None:
    size = (4, 1) if turned[0] else (1, 4)
    constants = {"w": weights(3, 4) if turned[1] else weights(4, 3)}
    gemm = node("Gemm", "x w", transA=turned[0], transB=turned[1], alpha=2.0)
    check(converted, model([gemm], constants, {"x": size}), size)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("x", (4, 3)), ("x", (2, 4, 3)), ("x", (4,)), ((3, 2), "x"), ((5, 3, 2), "x"),
    ],
)  # fmt: skip
def test_matmul(converted: Convert, left: Any, right: Any) -> None:
    size = (2, 4)
    factors = " ".join("x" if one == "x" else "w" for one in (left, right))
    constants = {"w": weights(*(right if left == "x" else left))}
    check(converted, model([node("MatMul", factors)], constants, {"x": size}), size)


def test_matmul_of_a_vector(converted: Convert) -> None:
    check(converted, model([node("MatMul", "x w")], {"w": weights(4, 3)}, {"x": (4,)}), (4,))


MOVES: list[tuple[Any, dict[str, Array], tuple[int, ...]]] = [
    (node("Transpose", "x", "m", perm=[0, 2, 3, 1]), {}, (1, 5, 6, 2)),
    (node("Reshape", "x s", "m"), {"s": np.array([0, 3, -1])}, (1, 3, 20)),
    (node("Flatten", "x", "m", axis=2), {}, (2, 30)),
    (node("Squeeze", "x s", "m"), {"s": np.array([0])}, (2, 5, 6)),
    (node("Unsqueeze", "x s", "m"), {"s": np.array([1])}, (1, 1, 2, 5, 6)),
    (node("Slice", "x b e a t", "m"),
     {"b": np.array([4]), "e": np.array([0]), "a": np.array([2]), "t": np.array([-2])},
     (1, 2, 2, 6)),
    (node("Gather", "x s", "m", axis=3), {"s": np.array([5, 0, 5])}, (1, 2, 5, 3)),
    (node("Pad", "x s", "m"), {"s": np.array([0, 0, 1, 0, 0, 0, 0, 2])}, (1, 2, 6, 8)),
    (node("Pad", "x s", "m", mode="edge"), {"s": np.array([0, 0, 1, 0, 0, 0, 0, 2])},
     (1, 2, 6, 8)),
    (node("Tile", "x s", "m"), {"s": np.array([1, 1, 2, 1])}, (1, 2, 10, 6)),
    (node("DepthToSpace", "x", "m", blocksize=1), {}, (1, 2, 5, 6)),
    (node("Concat", "x x", "m", axis=2), {}, (1, 2, 10, 6)),
    (node("Concat", "x s", "m", axis=1), {"s": np.zeros((1, 1, 5, 6), np.float32)}, (1, 3, 5, 6)),
    (node("Expand", "x s", "m"), {"s": np.array([3, 1, 1, 1, 1])}, (3, 1, 2, 5, 6)),
]  # fmt: skip


@pytest.mark.parametrize(("move", "constants", "shape"), MOVES)
def test_moves_make_no_neurons(
    converted: Convert, move: Any, constants: dict[str, Array], shape: tuple[int, ...]
) -> None:
    flat = node("Reshape", "m flat", "f")
    size = int(np.prod(shape))
    constants = {**constants, "flat": np.array([1, size]), "w": weights(size, 3)}
    net = check(converted, model([move, flat, node("MatMul", "f w")], constants))
    assert meta_of(net).neurons == 60 + 3


def test_split_add_and_concat(converted: Convert) -> None:
    nodes = [
        node("Split", "x", "a b", axis=3),
        node("Conv", "a w", "c"),
        node("Relu", "c", "r"),
        node("Add", "r b", "s"),
        node("Concat", "s b a", "k", axis=1),
        node("Flatten", "k", "f"),
        node("Gemm", "f g", "y"),
    ]
    net = check(converted, model(nodes, {"w": weights(2, 2, 1, 1), "g": weights(90, 4)}, opset=13))
    assert labels_of(net) == ["x", "n_c", "n_s", "n_y"]


def test_what_is_folded_away(converted: Convert) -> None:
    nodes = [
        node("Cast", "x", "a", to=onnx.TensorProto.FLOAT),
        node("Mul", "a two", "b"),
        node("Conv", "b w", "c"),
        node("Mul", "c two", "d"),  # doubles the weights of c, as does the normalisation behind it
        node("Add", "d zero", "e"),
        node("BatchNormalization", "e scale zeros zeros ones", "f", epsilon=0.0),
        node("Relu", "f", "g"),
        node("Dropout", "g", "h"),
        node("Clip", "h - big", "i"),
        node("Identity", "i", "y"),
    ]
    constants = {
        "w": weights(2, 2, 2, 2), "two": np.float32([2]), "zero": np.float32([0]),
        "scale": np.float32([1, 4]), "zeros": np.zeros(2, np.float32),
        "ones": np.ones(2, np.float32), "big": np.float32(1e6),
    }  # fmt: skip
    net = converted("a.onnx", model(nodes, constants).SerializeToString())
    assert labels_of(net) == ["x", "n_c"]
    found = edges_of(net)
    # into (channel 1, row 0, column 0) behind 60 inputs and 20 outputs of channel 0
    expected = {
        (c * 30 + i * 6 + j, 80): float(constants["w"][1, c, i, j]) * 8
        for c in range(2) for i in range(2) for j in range(2)
    }  # fmt: skip
    assert {pair: weight for pair, weight in found.items() if pair[1] == 80} == expected


def test_sums_that_are_used_twice_keep_their_weights(converted: Convert) -> None:
    nodes = [
        node("MatMul", "x w", "a"),
        node("Mul", "a two", "b"),
        node("Add", "a b", "y"),
    ]
    made = model(nodes, {"w": weights(2, 1), "two": np.float32([2])}, {"x": (1, 2)})
    net = converted("a.onnx", made.SerializeToString())
    first, second = numpy_helper.to_array(made.graph.initializer[0]).ravel().tolist()
    assert edges_of(net) == {(0, 2): first, (1, 2): second, (2, 3): 2.0}


def test_open_batch_zeros_and_constants(converted: Convert) -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "batch"),
        node("Concat", "batch rest", "t", axis=0),
        node("Reshape", "x t", "r"),
        node("Constant", "", "w", value=numpy_helper.from_array(np.float32([[1, 0], [-2, 3]]))),
        node("MatMul", "r w", "y"),
        node("ArgMax", "y", "class", axis=1),
        node("Cast", "class", "z", to=onnx.TensorProto.FLOAT),
    ]
    constants = {"zero": np.array([0]), "rest": np.array([2])}
    made = model(nodes, constants, {"x": ("N", 2, 1)}, ["z"])
    net = converted("a.onnx", made.SerializeToString())
    assert edges_of(net) == {(0, 2): 1.0, (1, 2): 2.0, (1, 3): 3.0}
    assert meta_of(net).provenance == {
        "format": "onnx", "source": "a.onnx", "weights_zero": 1, "weights_negative": 1,
        "nodes_left_out": ["n_class", "n_z"],
    }  # fmt: skip


def test_quantised_layers(converted: Convert) -> None:
    whole = np.array([[1, 3], [5, 3]], np.uint8)
    zero, scale = np.array(3, np.uint8), np.float32(0.5)
    one, none = np.float32(1), np.array(0, np.uint8)
    expected = {(0, 2): 1.0, (1, 2): 1.0}
    constants = {
        "w": whole, "c": whole.T.reshape(2, 2, 1, 1).copy(), "s": scale, "z": zero, "one": one,
        "none": none,
    }  # fmt: skip
    flat, image = {"x": (1, 2)}, {"x": (1, 2, 1, 1)}
    for nodes, given in (
        ([node("DequantizeLinear", "w s z", "d"), node("Gemm", "x d")], flat),
        ([node("QuantizeLinear", "x one none", "q"), node("MatMulInteger", "q w none z")], flat),
        ([node("QuantizeLinear", "x one none", "q"),
          node("QLinearMatMul", "q one none w s z one none")], flat),
        ([node("QuantizeLinear", "x one none", "q"),
          node("QLinearConv", "q one none c s z one none")], image),
        ([node("QGemm", "x one none w s z", domain="com.microsoft")], flat),
    ):  # fmt: skip
        made = model(nodes, constants, given, opset=13)  # type: ignore[arg-type]
        factor = 2.0 if "Integer" in nodes[-1].op_type else 1.0
        net = converted("a.onnx", made.SerializeToString())
        assert edges_of(net) == {pair: w * factor for pair, w in expected.items()}
        assert meta_of(net).provenance["weights_zero"] == 2


def test_per_channel_scales(converted: Convert) -> None:
    constants = {"w": np.int8([[1, 2], [3, 4]]), "s": np.float32([0.5, 2])}
    for axis, expected in ((0, (0.5, 6.0, 1.0, 8.0)), (1, (0.5, 1.5, 4.0, 8.0))):
        nodes = [node("DequantizeLinear", "w s", "d", axis=axis), node("MatMul", "x d")]
        net = converted(
            "a.onnx", model(nodes, constants, {"x": (1, 2)}, opset=13).SerializeToString()
        )
        found = edges_of(net)
        assert tuple(found[pair] for pair in ((0, 2), (1, 2), (0, 3), (1, 3))) == expected


def test_quantisers_of_qonnx(converted: Convert) -> None:
    constants = {
        "w": np.float32([[0.2, -0.2], [0.6, 9]]), "s": np.float32(0.5), "z": np.float32(0),
        "b": np.float32(2),
    }  # fmt: skip
    for quant, expected in (
        (node("Quant", "w s z b", "q", signed=1, narrow=1, domain="onnx.brevitas"),
         {(1, 2): 0.5, (1, 3): 0.5}),
        (node("BipolarQuant", "w s", "q", domain="onnx.brevitas"),
         {(a, b): 0.5 for a in (0, 1) for b in (2, 3)}),
    ):  # fmt: skip
        made = model([quant, node("MatMul", "x q")], constants, {"x": (1, 2)})
        assert edges_of(converted("a.onnx", made.SerializeToString())) == expected


W = {"w": np.ones((3, 2, 2, 2), np.float32)}
NOUGHT = np.zeros(1, np.float32)
FAULTS: list[tuple[Any, str]] = [
    (model([node("Wibble", "x")]), "node 'n_y' (Wibble): this operator is not supported"),
    (model([node("Where", "c x x")], {"c": np.bool_([True])}), "(Where): this operator is not"),
    (model([node("LSTM", "x w w")], W), "node 'n_y' (LSTM): this operator is not supported"),
    (model([node("Conv", "x w", group=2)], W), "weights of shape (3, 2, 2, 2) in 2 groups do not"),
    (model([node("Conv", "x x")]), "node 'n_y' (Conv): input 1 must be constant weights"),
    (model([node("Conv", "x w", strides=[0, 1])], W), "node 'n_y' (Conv): kernel 2, stride 0"),
    (model([node("Conv", "x w", strides=[1])], W), "strides has 1 values; 2 are needed"),
    (model([node("Conv", "x w", auto_pad="ALL")], W), "auto_pad is 'ALL'"),
    (model([node("Conv", "x w")], {"w": W["w"] * np.nan}), "node 'n_y': weights that are not fin"),
    (model([node("Conv", "x w")], W, {"x": (2, 2, 5, 5)}), "takes a batch of 2"),
    (model([node("Conv", "x w")], W, {"x": (1, 2, 1, 5)}), "a window of 2 does not fit into 1"),
    (model([node("Conv", "x w")], W, {"x": (1, 2)}), "takes a tensor of shape (1, 2)"),
    (model([node("Conv", "x w")], W, {"x": (1, 2, "h", 3)}), "'x': the size of axis 2 is open"),
    (model([node("MaxPool", "x")]), "node 'n_y' (MaxPool): attribute kernel_shape is missing"),
    (model([node("MatMul", "x x")]), "both factors depend on neurons"),
    (model([node("MatMul", "x w")], {"w": weights(5, 2)}), "weights of shape (5, 2) do not take"),
    (model([node("Relu", "v")]), "node 'n_y' (Relu): its input 'v' is of no node before it"),
    (model([node("Reshape", "x s")], {"s": np.array([7, -1])}), "(Reshape): cannot be worked out"),
    (model([node("Add", "x s")], {"s": np.ones(7, np.float32)}), "node 'n_y' (Add): shape mism"),
    (model([node("Pad", "x s")], {"s": np.array([1, 2])}), "(Pad): pads are [1, 2]"),
    (model([node("Gather", "s x")], {"s": weights(9)}), "where elements go depends on neurons"),
    (
        model([node("ArgMax", "x", "a"), node("Conv", "a w")], W),
        "node 'n_y' (Conv): takes what another node picks",
    ),
    (
        model(
            [node("Conv", "x w", "c"), node("BatchNormalization", "c v v v v")],
            W | {"v": np.float32([1, -1, 1])},
        ),
        "node 'n_c': weights that are not finite",
    ),
    (
        model([node("MatMul", "x w", "m"), node("Div", "m z")], {"w": weights(6, 1), "z": NOUGHT}),
        "node 'n_m': weights that are not finite",
    ),
    (model([node("Two\nlines", "x")]), "(Two lines): this operator is not supported"),
    (model([node("MatMul", "w w")], {"w": weights(2, 3)}, {"x": (1,)}), "cannot be worked out"),
    (model([node("Constant", "", value_float=1.0)], {}, {}), "no neurons"),
    (model([], {}, {"x": (1, 2**20, 2**20)}), "'x' of shape (1, 1048576, 1048576): beyond"),
]


@pytest.mark.parametrize(("made", "message"), FAULTS)
def test_faults(made: Any, message: str, refused: Refuse) -> None:
    assert message in refused("a.onnx", made.SerializeToString())


def test_an_input_without_a_shape(refused: Refuse) -> None:
    made = model([node("Relu", "x")])
    made.graph.input[0].type.tensor_type.ClearField("shape")
    assert "input 'x' has no shape" in refused("a.onnx", made.SerializeToString())


def test_damaged_files(refused: Refuse) -> None:
    whole = model([node("Conv", "x w")], W).SerializeToString()
    for length in (len(whole) // 2, len(whole) - 1):
        assert "not a sound ONNX model" in refused("a.onnx", whole[:length])
    assert "not a sound ONNX model" in refused("a.onnx", b"some text\n")
    assert "holds no graph" in refused("a.onnx", b"")


def test_recognised_and_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(model([node("Relu", "x")]).SerializeToString())
    assert recognise(path).name == "onnx"

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(onnxgraph, "import_module", missing)
    message = r"ONNX models need onnx; pip install 'mapper\[onnx\]'"
    with pytest.raises(BadInputError, match=message):
        import_network(path, tmp_path / "net.bin")


# real models: counts that follow from their shapes and weights alone


def slots(size: int, kernel: int, before: int, after: int, stride: int = 1) -> int:
    """Pairs of a window and an input of it, along one axis."""
    starts = range(-before, size + after - kernel + 1, stride)
    return sum(0 <= start + k < size for start in starts for k in range(kernel))


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "neurons", "synapses"),
    [
        (
            "mnist-8.onnx",
            784 + 8 * 784 + 8 * 196 + 16 * 196 + 16 * 16 + 10,
            8 * slots(28, 5, 2, 2) ** 2 + 8 * 784 + 16 * 8 * slots(14, 5, 2, 2) ** 2
            + 16 * slots(14, 3, 0, 0, 3) ** 2 + 256 * 10,
        ),
        (
            "mnist_pytorch_ort.onnx",
            784 + 10 * 24**2 + 10 * 12**2 + 20 * 8**2 + 20 * 4**2 + 50 + 10,
            10 * slots(28, 5, 0, 0) ** 2 + 10 * 24**2 + 20 * 10 * slots(12, 5, 0, 0) ** 2
            + 20 * 8**2 + 320 * 50 + 50 * 10,
        ),
        ("tfc_1w1a.onnx", 784 + 3 * 64 + 10, 784 * 64 + 2 * 64 * 64 + 64 * 10),
    ],
)  # fmt: skip
def test_real_models(
    data_dir: Path, tmp_path: Path, name: str, neurons: int, synapses: int
) -> None:
    source = data_dir / "models" / name
    if not source.exists():
        pytest.skip(f"models/{name} is not there")
    meta = import_network(source, tmp_path / "net.bin")
    assert meta.neurons == neurons
    assert meta.synapses + meta.provenance["weights_zero"] == synapses
    assert meta.repeated == meta.self_loops == 0


@pytest.mark.parametrize("kind", ["pc_QDQ", "pt_QOperator"])
def test_residual_networks(data_dir: Path, kind: str) -> None:
    """Their layers alone: eleven million synapses take their time to be written."""
    source = data_dir / "models" / f"mlperf_resnet8_{kind}.onnx"
    if not source.exists():
        pytest.skip(f"{source.name} is not there")
    builder = Builder(Model(source), OPERATORS)
    sizes = [3 * 1024, *[16 * 1024] * 4, *[32 * 256] * 4, *[64 * 64] * 4, 64, 10]
    assert builder.neurons == sum(sizes)
    same = {size: slots(size, 3, 1, 1) ** 2 for size in (32, 16, 8)}
    half = {size: slots(size, 3, 0, 1, 2) ** 2 for size in (32, 16)}
    synapses = (
        3 * 16 * same[32] + 2 * 16 * 16 * same[32] + 2 * 16 * 1024
        + 16 * 32 * half[32] + 32 * 32 * same[16] + 16 * 32 * 256 + 2 * 32 * 256
        + 32 * 64 * half[16] + 64 * 64 * same[8] + 32 * 64 * 64 + 2 * 64 * 64
        + 64 * 64 + 64 * 10
    )  # fmt: skip
    found = sum(
        join.layer.rows(wanted).nnz
        for join in builder.joins
        for wanted in row_blocks(join.layer.outputs, join.layer.fan_in)
    )
    assert found == synapses
