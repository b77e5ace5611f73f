"""Products of maps of vectors and matrices, as transformers have them: 1x1 convolutions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.cli.main import main
from mapper.compiler.explain import explain
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Host
from mapper.compiler.model import open_model
from mapper.compiler.settings import CompileSettings
from tests.compiler import quantised
from tests.compiler.models import agree, check, onnx_model, read, saved
from tests.compiler.quantised import Net, how, less
from tests.reference import quantised as twin
from tests.storage.formats.onnx_models import helper

RANDOM = np.random.default_rng(3)
MAP = (1, 6, 3, 4)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape).astype(np.float32)


def node(kind: str, inputs: str, output: str = "y", **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), [output], f"n_{output}", **attributes)


TO_VECTORS = {
    "rows of pixels": [node("Transpose", "x", "t", perm=[0, 2, 3, 1]), node("Reshape", "t s", "v")],
    "columns of pixels": [
        node("Transpose", "x", "t", perm=[0, 3, 2, 1]), node("Reshape", "t s", "v"),
    ],
    "channels reshaped first": [
        node("Reshape", "x r", "t"), node("Transpose", "t", "v", perm=[0, 2, 1]),
    ],
    "four axes": [node("Transpose", "x", "v", perm=[0, 2, 3, 1])],
}  # fmt: skip


@pytest.mark.parametrize("before", TO_VECTORS)
def test_matrices_are_convolutions(tmp_path: Path, before: str) -> None:
    """Two products with a bias and a matrix with an axis of size 1, summed with the vectors."""
    nodes = [
        *TO_VECTORS[before],
        node("MatMul", "v w", "m"), node("Add", "m b", "a"), node("Relu", "a", "h"),
        node("MatMul", "h u", "o"), node("Add", "v o", "y"),
    ]  # fmt: skip
    constants = {
        "s": np.array([1, 12, 6]), "r": np.array([1, 6, -1]), "w": normal(6, 9), "b": normal(9),
        "u": normal(*(1,) * (len(nodes) - 6), 9, 6),
    }  # fmt: skip
    graph = check(onnx_model(nodes, constants, MAP), tmp_path)
    assert [one.kind for one in graph.nodes] == ["conv", "affine", "activation", "conv", "add"]


def test_a_mean_of_vectors_and_their_way_back_to_a_map(tmp_path: Path) -> None:
    back = [
        node("Transpose", "m", "t2", perm=[0, 2, 1]), node("Reshape", "t2 s2", "c"),
        node("Conv", "c k", "d"), node("Flatten", "d", "y"),
    ]  # fmt: skip
    constants = {
        "s": np.array([1, 12, 6]), "w": normal(6, 5), "s2": np.array([1, 5, 3, 4]),
        "k": normal(2, 5, 3, 3), "axes": np.array([1]),
    }  # fmt: skip
    before = [*TO_VECTORS["rows of pixels"], node("MatMul", "v w", "m")]
    check(onnx_model([*before, *back], constants, MAP), tmp_path)
    mean = node("ReduceMean", "m", "y", axes=[1], keepdims=0)
    graph = check(onnx_model([*before, mean], constants, MAP), tmp_path)
    assert [one.kind for one in graph.nodes] == ["conv", "pool"]


def test_an_input_of_vectors(tmp_path: Path) -> None:
    nodes = [node("Add", "x b", "a"), node("MatMul", "a w", "y")]
    graph = check(onnx_model(nodes, {"w": normal(6, 5), "b": normal(6)}, (1, 12, 6)), tmp_path)
    assert graph.inputs["x"].tensor.shape == (1, 4, 3, 6)


def hosted(graph: Graph) -> dict[str, str]:
    """Return the reasons of the host nodes, by kind."""
    return {
        one.operator.node.kind: one.operator.why
        for one in graph.nodes
        if isinstance(one.operator, Host)
    }


def test_only_attention_stays_on_the_host(tmp_path: Path) -> None:
    """Normalisation, products of two maps, Softmax, and the heads' order; matrices do not."""
    nodes = [
        *TO_VECTORS["channels reshaped first"],
        node("LayerNormalization", "v g e", "n", axis=-1),
        *(node("MatMul", f"n w{one}", f"p{one}") for one in "qkv"),
        *(node("Reshape", f"p{one} h", f"r{one}") for one in "qkv"),
        *(node("Transpose", f"r{one}", one, perm=[0, 2, 3, 1] if one == "k" else [0, 2, 1, 3])
          for one in "qkv"),
        node("MatMul", "q k", "qk"), node("Softmax", "qk", "sm", axis=-1),
        node("MatMul", "sm v", "z"),
        node("Transpose", "z", "zt", perm=[0, 2, 1, 3]), node("Reshape", "zt s", "zr"),
        node("MatMul", "zr wo", "o"), node("Add", "v0 o", "y"),
    ]  # fmt: skip
    nodes[1] = node("Transpose", "t", "v0", perm=[0, 2, 1])
    nodes[2] = node("LayerNormalization", "v0 g e", "n", axis=-1)
    constants: dict[str, Any] = {
        "r": np.array([1, 6, -1]), "s": np.array([1, 12, 6]), "h": np.array([1, 12, 2, 3]),
        "g": normal(6), "e": normal(6), **{f"w{one}": normal(6, 6) for one in "qkvo"},
    }  # fmt: skip
    model = onnx_model(nodes, constants, MAP)
    graph = read(model, tmp_path)
    agree(graph, model)
    assert hosted(graph) == {
        "LayerNormalization": "no core computes LayerNormalization",
        "Transpose": "its result holds vectors of 6 numbers, in another order than its map",
        "MatMul": "it multiplies two maps; cores multiply a map by constant weights",
        "Softmax": "no core computes Softmax",
    }
    made = [one.kind for one in graph.nodes if not isinstance(one.operator, Host)]
    assert made == ["conv"] * 4 + ["add"]


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([node("MatMul", "x k", "y")], "its map does not have its channels on the last axis"),
        ([node("MatMul", "k x", "y")], "it multiplies a constant by a map; cores multiply"),
        ([node("MatMul", "x e", "y")], "it multiplies parts of a map by different weights"),
    ],
    ids=["columns", "matrix first", "a matrix per channel"],
)
def test_other_products_go_to_the_host(tmp_path: Path, nodes: list[Any], why: str) -> None:
    constants = {"e": normal(6, 4, 5)}
    constants["k"] = normal(4, 4) if nodes[0].input[0] == "x" else normal(3, 3)
    model = onnx_model(nodes, constants, MAP)
    graph = read(model, tmp_path)
    agree(graph, model)
    assert hosted(graph)["MatMul"].startswith(why)


# -- quantised models ------------------------------------------------------------------------------


def begin() -> tuple[Net, np.ndarray, twin.How]:
    """Return a model whose value q stores vectors, (1, 12, 6), and a sample."""
    net = Net(MAP)
    taken = how("uint8", 0.02, 7)
    net.node("Transpose", ["x"], "t", perm=[0, 2, 3, 1])
    net.node("Reshape", ["t", net.constant(np.array([1, 12, 6]))], "v")
    net.stored("v", taken, "q")
    return net, net.sample(), taken


def vectors_of(x: np.ndarray) -> np.ndarray:
    return x.transpose(0, 2, 3, 1).reshape(1, 12, 6)


def test_stored_vectors_with_scales(tmp_path: Path) -> None:
    """QuantizeLinear and DequantizeLinear around MatMul and its bias, a scale per output."""
    net, x, taken = begin()
    w = net.random.integers(-90, 90, (6, 5)).astype(np.int8)
    scales = net.random.uniform(0.01, 0.03, 5).astype(np.float32)
    bias = net.random.integers(-300, 300, 5).astype(np.int32)
    unit = taken.scale * scales
    zeros = net.constant(np.zeros(5, np.int8))
    net.real("q", taken, "d")
    net.node("DequantizeLinear", [net.constant(w), net.constant(scales), zeros], "wd", axis=1)
    net.node("MatMul", ["d", "wd"], "m")
    net.node("Add", ["m", net.constant((bias * unit).astype(np.float32))], "a")
    made = how("uint8", 0.05, 4)
    net.real(net.stored("a", made, "aq"), made, "y")
    sums = less(vectors_of(x), taken) @ w.astype(np.int64) + bias
    stored = twin.scaled(sums, unit / made.scale, made)
    quantised.check(net, x, twin.dequantised(stored, made), tmp_path)


def test_products_of_stored_vectors(tmp_path: Path) -> None:
    """QLinearMatMul with a matrix on cores; with a second map on the host."""
    net, x, taken = begin()
    w, scale = net.random.integers(-90, 90, (6, 4)).astype(np.int8), np.float32(0.013)
    made = how("uint8", 0.05, 4)
    names = [net.constant(w), net.constant(scale), net.constant(np.int8(0))]
    net.node("QLinearMatMul", ["q", *net.how(taken), *names, *net.how(made)], "r")
    net.real("r", made, "y")
    sums = less(vectors_of(x), taken) @ w.astype(np.int64)
    stored = twin.scaled(sums, (taken.scale * scale) / made.scale, made)
    quantised.check(net, x, twin.dequantised(stored, made), tmp_path)
    net.nodes[-1:] = []
    net.node("Transpose", ["r"], "rt", perm=[0, 2, 1])
    other = how("uint8", 0.9)
    net.node("QLinearMatMul", ["rt", *net.how(made), "q", *net.how(taken), *net.how(other)], "p")
    net.real("p", other, "y")
    real = twin.dequantised(stored, made).transpose(0, 2, 1) @ twin.dequantised(
        twin.quantised(vectors_of(x), taken), taken
    )
    rounded = ("QuantizeLinear", "DequantizeLinear")
    expected = twin.dequantised(twin.quantised(real, other), other)
    quantised.check(net, x, expected, tmp_path, (*rounded, "MatMul", *rounded))


def test_whole_sums_of_vectors(tmp_path: Path) -> None:
    """MatMulInteger: int32 sums, which the model scales."""
    net, x, taken = begin()
    w = net.random.integers(-9, 10, (6, 5)).astype(np.int8)
    net.node("MatMulInteger", ["q", net.constant(w), net.constant(np.uint8(taken.zero))], "s")
    net.node("Cast", ["s"], "real", to=1)
    net.node("Mul", ["real", net.constant(np.float32(0.0031))], "y")
    graph = open_model(net.save(tmp_path)).build(())
    expected = (less(vectors_of(x), taken) @ w).astype(np.float32) * np.float32(0.0031)
    np.testing.assert_allclose(quantised.run_integers(graph, x)["y"], expected, rtol=1e-6)
    assert any(one.kind == "conv" for one in graph.nodes)


@pytest.mark.parametrize("kind", ["Transpose", "Gather"])
def test_stored_integers_in_another_order(tmp_path: Path, kind: str) -> None:
    """The host moves integers that a model stores; the scale stays."""
    net, x, taken = begin()
    net.node("Reshape", ["q", net.constant(np.array([1, 12, 2, 3]))], "r")
    if kind == "Transpose":
        net.node("Transpose", ["r"], "moved", perm=[0, 1, 3, 2])
    else:
        net.node("Gather", ["r", net.constant(np.arange(12)[::-1].copy())], "moved", axis=1)
    net.node("Reshape", ["moved", net.constant(np.array([1, 12, 6]))], "j")
    net.real("j", taken, "d")
    w, scale = net.random.integers(-90, 90, (6, 4)).astype(np.int8), np.float32(0.013)
    net.real(net.constant(w), twin.How(scale, 0, "int8"), "wd")
    net.node("MatMul", ["d", "wd"], "m")
    made = how("uint8", 0.05, 4)
    net.real(net.stored("m", made, "mq"), made, "y")
    split = less(vectors_of(x), taken).reshape(1, 12, 2, 3)
    split = split.transpose(0, 1, 3, 2) if kind == "Transpose" else split[:, ::-1]
    sums = split.reshape(1, 12, 6) @ w.astype(np.int64)
    stored = twin.scaled(sums, (taken.scale * scale) / made.scale, made)
    expected = twin.dequantised(stored, made)
    hosts = ("QuantizeLinear", "DequantizeLinear", kind)
    quantised.check(net, x, expected, tmp_path, hosts)


# -- a network in floating point -------------------------------------------------------------------


def linear(x: str, name: str, constants: dict[str, Any], inputs: int, outputs: int) -> list[Any]:
    """Return MatMul and Add, and add their constants."""
    constants[f"{name}.w"] = normal(inputs, outputs) / np.float32(np.sqrt(inputs))
    constants[f"{name}.b"] = normal(outputs) / 4
    return [node("MatMul", f"{x} {name}.w", f"{name}.m"), node("Add", f"{name}.m {name}.b", name)]


def vision_transformer(blocks: int, channels: int = 32, heads: int = 2) -> Any:
    """Return a classifier of 16x16 pixels with patches of 4x4, as exporters write it."""
    count, size = 16, channels // heads
    constants: dict[str, Any] = {
        "kernels": normal(channels, 3, 4, 4) / 7, "patches": np.array([1, channels, -1]),
        "split": np.array([1, count, heads, size]), "join": np.array([1, count, channels]),
        "root": np.float32(np.sqrt(size)), "axes": np.array([1]),
    }  # fmt: skip
    nodes = [
        node("Conv", "x kernels", "p", kernel_shape=[4, 4], strides=[4, 4]),
        node("Reshape", "p patches", "r"), node("Transpose", "r", "t0", perm=[0, 2, 1]),
    ]  # fmt: skip

    def norm(x: str, name: str) -> Any:
        constants[f"{name}.g"], constants[f"{name}.e"] = 1 + normal(channels) / 5, normal(channels)
        return node("LayerNormalization", f"{x} {name}.g {name}.e", name, axis=-1)

    for at in range(blocks):
        nodes.append(norm(f"t{at}", f"{at}.n"))
        for one in "qkv":
            made = f"{at}.{one}"
            perm = [0, 2, 3, 1] if one == "k" else [0, 2, 1, 3]
            nodes += [
                *linear(f"{at}.n", made, constants, channels, channels),
                node("Reshape", f"{made} split", f"{made}.r"),
                node("Transpose", f"{made}.r", f"{made}.t", perm=perm),
            ]
        nodes += [
            node("MatMul", f"{at}.q.t {at}.k.t", f"{at}.s"), node("Div", f"{at}.s root", f"{at}.d"),
            node("Softmax", f"{at}.d", f"{at}.a", axis=-1),
            node("MatMul", f"{at}.a {at}.v.t", f"{at}.z"),
            node("Transpose", f"{at}.z", f"{at}.zt", perm=[0, 2, 1, 3]),
            node("Reshape", f"{at}.zt join", f"{at}.j"),
            *linear(f"{at}.j", f"{at}.o", constants, channels, channels),
            node("Add", f"t{at} {at}.o", f"{at}.u"), norm(f"{at}.u", f"{at}.n2"),
            *linear(f"{at}.n2", f"{at}.f", constants, channels, 4 * channels),
            node("Gelu", f"{at}.f", f"{at}.g"),
            *linear(f"{at}.g", f"{at}.h", constants, 4 * channels, channels),
            node("Add", f"{at}.u {at}.h", f"t{at + 1}"),
        ]  # fmt: skip
    nodes += [norm(f"t{blocks}", "n"), node("ReduceMean", "n axes", "mean", keepdims=0)]
    nodes += linear("mean", "y", constants, channels, 10)
    return onnx_model(nodes, constants, (1, 3, 16, 16), opset=20)


def test_projections_of_a_vision_transformer_run_on_cores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two blocks, calibrated: programs equal the integer reference, and agree with the model."""
    path, samples = saved(vision_transformer(2), tmp_path), tmp_path / "x.npy"
    np.save(samples, RANDOM.normal(0, 1, (32, 3, 16, 16)).astype(np.float32))
    line = ["compile", str(path), "--chip", "1x1", "--calibrate", str(samples)]
    assert main([*line, "-o", str(tmp_path / "out")]) == 0
    assert "agree with ONNX Runtime" in capsys.readouterr().out
    found = explain(open_model(path), CompileSettings())
    where = {one.node.removeprefix("n_"): one.where for one in found}
    products = [f"{at}.{one}.m" for at in range(2) for one in "qkvofh"]
    assert {where[name] for name in (*products, "y.m", "p", "mean")} == {"core"}
    host = {one.kind for one in found if one.where == "host"}
    assert host == {"LayerNormalization", "Transpose", "MatMul", "Div", "Softmax"}
    assert main(["simulate", str(tmp_path / "out"), "--input", str(samples), "--check"]) == 0
    assert "0 differ from the reference" in capsys.readouterr().out
