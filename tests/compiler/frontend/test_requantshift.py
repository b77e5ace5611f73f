"""Integer networks with RequantShift, compared with numpy; trained ones by their node names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.cli.main import main
from mapper.compiler.artifacts.manifest import read_folder
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Host, Requantise
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.model import open_model
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.reference import INTEGER
from mapper.errors import MapperError
from tests.compiler import models
from tests.compiler.models import onnx_model
from tests.reference import quantised as twin
from tests.storage.formats.onnx_models import helper, numpy_helper, onnx

DOMAIN = "PACTOps"
RANDOM = np.random.default_rng(5)
TRAINED = {
    "AnomalyDetection": 20, "CNN_Linear2": 14, "ImageClassification": 25, "KeywordSpotting": 21,
    "miniMobileNet": 10,
}  # fmt: skip


def shift(
    inputs: list[str], output: str, div: float = 65536, levels: float = 256, signed: float = 1
) -> Any:
    numbers = {"div": div, "n_levels_out": levels, "signed": signed}
    tensors = {name: numpy_helper.from_array(np.float32(one)) for name, one in numbers.items()}
    return helper.make_node(
        "RequantShift", inputs, [output], f"n_{output}", domain=DOMAIN, **tensors
    )


def saved(
    folder: Path, nodes: list[Any], constants: dict[str, Any], shape: tuple[int, ...]
) -> Path:
    real = {name: np.asarray(one, np.float32) for name, one in constants.items()}
    return models.saved(onnx_model(nodes, real, shape, opset=11, domains=[DOMAIN]), folder)


def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, [output], f"n_{output}", **attributes)


def whole_results(graph: Graph, x: np.ndarray) -> dict[Tensor, np.ndarray]:
    """Return all integers that a graph computes from an input, channels first."""
    ((_, view),) = graph.inputs.items()
    made = [node.output for node in graph.nodes]
    found = run_graph(graph, {view.tensor: view.stored(x) + view.tensor.zero_point}, INTEGER, made)
    return {one: (found[one] - one.zero_point).transpose(0, 3, 1, 2) for one in made}


def shifted(sums: np.ndarray, mul: Any, add: Any, div: int, ends: tuple[int, int]) -> np.ndarray:
    """Return (x * mul + add) / div, halves up, in Python integers."""
    mul, add = (
        np.broadcast_to(np.reshape(one, (1, -1, 1, 1)) if np.ndim(one) else one, sums.shape)
        for one in (mul, add)
    )
    found = [
        min(max((2 * (int(x) * int(m) + int(a)) + div) // (2 * div), ends[0]), ends[1])
        for x, m, a in zip(sums.ravel(), mul.ravel(), add.ravel(), strict=True)
    ]
    return np.array(found).reshape(sums.shape)


@pytest.mark.parametrize(
    ("levels", "signed", "ends"),
    [(256, 1, (-128, 127)), (256, 0, (0, 255)), (16, 1, (-8, 7)), (16, 0, (0, 15)),
     (129, 0, (0, 128)), (2, 0, (0, 1))],
)  # fmt: skip
def test_levels(tmp_path: Path, levels: int, signed: int, ends: tuple[int, int]) -> None:
    """D07, D08: a factor and an offset per channel, halves up, and the ends of the levels."""
    w = RANDOM.integers(-128, 128, (6, 3, 3, 3))
    mul = RANDOM.integers(-900, 900, (6, 1, 1)) | 1
    mul[0] = 16384  # many halves: sums of this channel are shifted by two bits
    add = RANDOM.integers(-(1 << 23), 1 << 23, (6, 1, 1))
    add[0] = 0
    path = saved(
        tmp_path,
        [node("Conv", ["x", "w"], "c", pads=[1, 1, 1, 1]),
         shift(["c", "mul", "add"], "y", 65536, levels, signed)],
        {"w": w, "mul": mul, "add": add}, (1, 3, 5, 6),
    )  # fmt: skip
    x = RANDOM.integers(0, 256, (1, 3, 5, 6))
    model = open_model(path)
    assert model.quantised
    graph = model.build(())
    found = whole_results(graph, x)
    result = graph.outputs["y"].tensor
    sums = twin.conv(x, w, pads=(1, 1, 1, 1))
    wanted = shifted(sums, mul, add, 65536, ends)
    np.testing.assert_array_equal(found[result], wanted)
    assert {wanted.min(), wanted.max()} == set(ends)
    hows = [one.operator.how for one in graph.nodes if isinstance(one.operator, Requantise)]
    assert [how.rounding for how in hows] == ["up"]


def test_large_factors_lose_their_last_bits(tmp_path: Path) -> None:
    """Bits beyond the multiplier are rounded, only in the channels that have them."""
    w = RANDOM.integers(-3, 4, (4, 3, 1, 1))
    mul = np.array([641, 128631864, 1 << 28, 77]).reshape(4, 1, 1)
    add = np.array([5000, 1 << 20, -(1 << 22), 3]).reshape(4, 1, 1)
    path = saved(
        tmp_path, [node("Conv", ["x", "w"], "c"), shift(["c", "mul", "add"], "y", 1 << 28)],
        {"w": w, "mul": mul, "add": add}, (1, 3, 5, 6),
    )  # fmt: skip
    x = RANDOM.integers(0, 256, (1, 3, 5, 6))
    graph = open_model(path).build(())
    found = whole_results(graph, x)[graph.outputs["y"].tensor]
    wanted = shifted(twin.conv(x, w), mul, add, 1 << 28, (-128, 127))
    np.testing.assert_array_equal(found, wanted)


def test_d01_sums_pools_and_dense_layers(tmp_path: Path) -> None:
    """A signed and an unsigned map, each requantised, are added, pooled, and read by a Gemm with a
    bias.
    """
    wa, wb = (RANDOM.integers(-20, 21, (4, 3, 1, 1)) for _ in range(2))
    wd, bias = RANDOM.integers(-30, 31, (5, 24)), RANDOM.integers(-2000, 2000, 5)
    nodes = [
        node("Conv", ["x", "wa"], "a"), shift(["a", "ma", "za"], "qa", 4096, 256, 0),
        node("Conv", ["x", "wb"], "b"), shift(["b", "mb", "za"], "qb", 4096, 256, 1),
        node("Add", ["qa", "qb"], "s"), shift(["s", "ms", "zs"], "qs", 256, 256, 1),
        node("MaxPool", ["qs"], "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["p"], "f"),
        node("Gemm", ["f", "wd", "bd"], "g", transB=1), shift(["g", "mg", "zs"], "y", 1024),
    ]  # fmt: skip
    constants = {"wa": wa, "wb": wb, "wd": wd, "bd": bias, "ma": 211, "mb": 173, "za": 1000,
                 "ms": 150, "zs": -77, "mg": 9}  # fmt: skip
    graph = open_model(saved(tmp_path, nodes, constants, (1, 3, 4, 6))).build(())
    assert not [one for one in graph.nodes if isinstance(one.operator, Host)]
    x = RANDOM.integers(0, 256, (1, 3, 4, 6))
    a = shifted(twin.conv(x, wa), 211, 1000, 4096, (0, 255))
    b = shifted(twin.conv(x, wb), 173, 1000, 4096, (-128, 127))
    s = shifted(a + b, 150, -77, 256, (-128, 127))
    p = s.reshape(1, 4, 2, 2, 3, 2).max((3, 5))
    g = (p.reshape(1, -1) @ wd.T + bias).reshape(1, 5, 1, 1)
    wanted = shifted(g, 9, -77, 1024, (-128, 127))
    found = whole_results(graph, x)
    np.testing.assert_array_equal(found[graph.outputs["y"].tensor], wanted)


def test_products_of_vectors_and_matrices(tmp_path: Path) -> None:
    """Each pixel is a vector: 1x1 convolutions, with a bias added by another node."""
    w, u, bias = (RANDOM.integers(-30, 31, size) for size in ((3, 5), (5, 4), (5,)))
    nodes = [
        shift(["x", "m", "z"], "q", 2, 256, 0),
        node("Transpose", ["q"], "t", perm=[0, 3, 2, 1]), node("Reshape", ["t", "s"], "v"),
        node("MatMul", ["v", "w"], "a"), node("Add", ["b", "a"], "ab"),
        shift(["ab", "ma", "z"], "qa", 1024), node("MatMul", ["qa", "u"], "c"),
        shift(["c", "mc", "z"], "y", 1024),
    ]  # fmt: skip
    real = {"w": w, "u": u, "b": bias, "m": 1, "z": 3, "ma": 11, "mc": 17}
    constants = {name: np.asarray(one, np.float32) for name, one in real.items()}
    constants["s"] = np.array([1, 30, 3])
    model = onnx_model(nodes, constants, (1, 3, 5, 6), opset=11, domains=[DOMAIN])
    graph = open_model(models.saved(model, tmp_path)).build(())
    assert not [one for one in graph.nodes if isinstance(one.operator, Host)]
    x = RANDOM.integers(0, 256, (1, 3, 5, 6))
    v = shifted(x, 1, 3, 2, (0, 255)).transpose(0, 3, 2, 1).reshape(30, 3)
    hidden = shifted(v @ w + bias, 11, 3, 1024, (-128, 127))
    wanted = shifted(hidden @ u, 17, 3, 1024, (-128, 127))
    view = graph.outputs["y"]
    found = whole_results(graph, x)[view.tensor].transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(view.frame(found), wanted.reshape(1, 30, 4))


def test_requantisation_of_a_stored_map(tmp_path: Path) -> None:
    """RequantShift of a stored map, without a layer before it."""
    nodes = [shift(["x", "m", "z"], "q", 2, 256, 0), shift(["q", "n", "z"], "y", 8, 256, 1)]
    path = saved(tmp_path, nodes, {"m": 1, "z": 3, "n": -5}, (1, 2, 3, 3))
    graph = open_model(path).build(())
    x = RANDOM.integers(0, 256, (1, 2, 3, 3))
    q = shifted(x, 1, 3, 2, (0, 255))
    found = whole_results(graph, x)
    wanted = shifted(q, -5, 3, 8, (-128, 127))
    np.testing.assert_array_equal(found[graph.outputs["y"].tensor], wanted)


@pytest.mark.parametrize(
    ("attributes", "constants", "says"),
    [
        ({"div": 65535}, {}, "div is 65535; cores shift: use a power of two"),
        ({"div": 0.5}, {}, "div is 0.5"),
        ({"div": 0}, {}, "div is 0"),
        ({"div": -8}, {}, "div is -8"),
        ({"levels": 257}, {}, "n_levels_out is 257; cores store 2 to 256 levels"),
        ({"levels": 1}, {}, "n_levels_out is 1"),
        ({}, {"mul": 1.5}, "mul holds 1.5; give whole numbers"),
        ({}, {"add": np.nan}, "add holds nan"),
        ({}, {"mul": np.ones((5, 1, 1))}, "mul has 5 values; the map has 6 channels"),
        ({}, {"mul": 2.0**31}, "mul holds 2147483648; cores take less than"),
        ({}, {"add": 2.0**40}, "cores take less than 2,147,483,648"),
    ],
)
def test_bad_models_name_the_node(
    tmp_path: Path, attributes: dict[str, Any], constants: dict[str, Any], says: str
) -> None:
    values = {"w": np.ones((6, 3, 1, 1)), "mul": 3, "add": 4} | constants
    nodes = [node("Conv", ["x", "w"], "c"), shift(["c", "mul", "add"], "y", **attributes)]
    with pytest.raises(MapperError, match="node 'n_y' \\(RequantShift\\)") as told:
        open_model(saved(tmp_path, nodes, values, (1, 3, 4, 4))).build(())
    assert says in str(told.value)


def test_weights_that_are_not_whole_numbers(tmp_path: Path) -> None:
    """They would be rounded: the layer runs on the host with a reason, or is rejected."""
    values = {"w": np.full((6, 3, 1, 1), 0.4), "mul": 3, "add": 4}
    nodes = [node("Conv", ["x", "w"], "c"), shift(["c", "mul", "add"], "y")]
    with pytest.raises(MapperError, match=r"node 'n_c' \(Conv\).*whole numbers"):
        open_model(saved(tmp_path, nodes, values, (1, 3, 4, 4))).build(())


@pytest.mark.parametrize("name", TRAINED)
def test_every_golden_activation_has_its_own_node(data_dir: Path, name: str) -> None:
    """D07: nodes of the 90 tensors that Deeploy provides for five networks.

    Sums have the names of their weights; tensors whose constants are shared belong to one node
    each.
    """
    folder = data_dir / "models"
    path = folder / f"deeploy_{name}_network.onnx"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    graph = open_model(path).build(())
    given, golden = (
        np.load(folder / f"deeploy_{name}_{part}.npz") for part in ("inputs", "activations")
    )
    found = whole_results(graph, given[given.files[0]])
    modules = {
        one.input[1].removesuffix(".weight").replace(".", "_").lower(): one.name
        for one in onnx.load(str(path)).graph.node
        if one.op_type in ("Conv", "Gemm")
    }
    assert len(golden.files) == TRAINED[name]
    assert modules.keys() <= set(golden.files)
    free = list(graph.nodes)
    for part in golden.files:
        wanted = golden[part]
        if part in modules:
            (layer,) = (
                one
                for one in free
                if one.sources[0] == modules[part] and not isinstance(one.operator, Requantise)
            )
            np.testing.assert_array_equal(found[layer.output].reshape(wanted.shape), wanted, part)
        else:
            values = wanted.ravel()
            equal = (one for one in free if np.array_equal(found[one.output].ravel(), values))
            layer = next(equal)
        free.remove(layer)
    assert all(one.kind == "add" for one in free)


def test_assumed_input_range_is_noted(tmp_path: Path) -> None:
    """One note on the range of the input, although two nodes read it."""
    nodes = [
        node("Conv", ["x", "w"], "a"), shift(["a", "m", "o"], "b"),
        node("Conv", ["x", "w"], "c"), shift(["c", "m", "o"], "d"),
        node("Add", ["b", "d"], "e"), shift(["e", "m", "o"], "y"),
    ]  # fmt: skip
    constants = {"w": np.ones((2, 3, 1, 1)), "m": 1, "o": 0}
    path = saved(tmp_path, nodes, constants, (1, 3, 4, 4))
    assert open_model(path).build(()).notes == [
        "input 'x' is read as whole numbers from 0 to 255: such networks do not specify the "
        "range; give samples with --calibrate if it has negative ones"
    ]
    assert open_model(path, signed=True).build(()).notes == [
        "input 'x' is read as whole numbers from -128 to 127, as the samples of --calibrate "
        "contain negative ones"
    ]


@pytest.mark.parametrize(("least", "most"), [(-100, 100), (0, 255)])
def test_samples_determine_the_sign_of_the_input(least: int, most: int, tmp_path: Path) -> None:
    path = saved(
        tmp_path, [node("Conv", ["x", "w"], "a"), shift(["a", "m", "o"], "y", 1024)],
        {"w": np.ones((2, 3, 1, 1)), "m": 256, "o": 0}, (1, 3, 4, 4),
    )  # fmt: skip
    x = RANDOM.integers(least, most + 1, (16, 3, 4, 4)).astype(np.float32)
    np.save(tmp_path / "samples.npy", x)
    line = ["compile", str(path), "--chip", "1x1", "-q", "-o", str(tmp_path / "out")]
    assert main([*line, "--calibrate", str(tmp_path / "samples.npy")]) == 0
    made = simulate(read_folder(tmp_path / "out"), x, 1, True)
    sums = np.repeat(x.sum(1, keepdims=True), 2, 1)
    np.testing.assert_array_equal(made.values["y"], shifted(sums, 256, 0, 1024, (-128, 127)))
