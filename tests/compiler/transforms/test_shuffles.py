"""Channel permutations as in ShuffleNet: folded into kernels, data does not move."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.explain import explain
from mapper.compiler.frontend.layout import shuffle_weights
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Conv
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.model import open_model
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.floating import FLOATING
from mapper.compiler.settings import CompileSettings
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.registry import optimise
from mapper.compiler.transforms.shuffles import fold_shuffles, order_of
from tests.compiler.programs import compiled_model
from tests.storage.formats.onnx_models import model, node, onnx, reference

SIZE = (1, 12, 6, 5)
ORDER = np.arange(12).reshape(3, 4).T.ravel()
SHAPES = {"five": np.array([1, 3, 4, 6, 5]), "four": np.array([1, 12, 6, 5])}


def shuffle(given: str, made: str) -> list[Any]:
    """Return a shuffle of three groups of four channels."""
    return [
        node("Reshape", f"{given} five", f"{made}1"),
        node("Transpose", f"{made}1", f"{made}2", perm=[0, 2, 1, 3, 4]),
        node("Reshape", f"{made}2 four", made),
    ]


def conv(inputs: str, output: str, group: int = 1) -> Any:
    pads = [1, 1, 1, 1] if "d" in inputs.split()[1] else [0, 0, 0, 0]
    return node("Conv", inputs, output, group=group, pads=pads)


CASES = {
    "a layer": [conv("x g", "a", 3), node("Relu", "a", "b"), *shuffle("b", "c"), node("Exp", "c")],
    "a normalised layer": [
        conv("x w", "a"), node("BatchNormalization", "a s o o s", "b"), node("PRelu", "b p", "r"),
        *shuffle("r", "c"), conv("c d", "y", 12),
    ],
    "across a layer of each channel": [
        conv("x g", "a", 3), conv("a d", "b", 12),
        node("MaxPool", "b", "m", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "m", "r"), *shuffle("r", "y"),
    ],
    "behind": [*shuffle("x", "c"), conv("c d", "e", 12), conv("e g", "y", 3)],
    "behind, normalised": [
        *shuffle("x", "c"), node("BatchNormalization", "c s o o s", "e"), conv("e w", "y"),
    ],
    "two": [conv("x g", "a", 3), *shuffle("a", "b"), *shuffle("b", "c"), conv("c g", "y", 3)],
}  # fmt: skip
LEFT = {
    "nowhere": [node("Exp", "x", "a"), *shuffle("a", "b"), node("Exp", "b")],
    "taken twice": [conv("x g", "a", 3), *shuffle("a", "b"), conv("b g", "c", 3),
                    node("Add", "c a", "e"), node("Add", "e b")],
}  # fmt: skip


def saved(folder: Path, nodes: list[Any]) -> Path:
    random = np.random.default_rng(3)
    known = {
        "g": random.normal(0, 0.5, (12, 4, 1, 1)),
        "w": random.normal(0, 0.3, (12, 12, 1, 1)),
        "d": random.normal(0, 0.3, (12, 1, 3, 3)),
        "s": random.uniform(0.5, 2, 12),
        "o": random.normal(0, 1, 12),
        "p": random.uniform(0, 0.5, (12, 1, 1)),
    }
    used = {name for one in nodes for name in one.input}
    constants = {name: one.astype(np.float32) for name, one in known.items() if name in used}
    constants |= {name: one for name, one in SHAPES.items() if name in used}
    path = folder / "model.onnx"
    onnx.save(model(nodes, constants, {"x": SIZE}), str(path))
    return path


def kept(graph: Graph) -> int:
    return sum(order_of(one) is not None for one in graph.nodes)


def same_as_onnx(path: Path, graph: Graph) -> None:
    given = np.random.default_rng(1).normal(0, 1, SIZE).astype(np.float32)
    wanted = reference.ReferenceEvaluator(str(path)).run(None, {"x": given})[0]
    tensor, view = graph.inputs["x"].tensor, graph.outputs["y"]
    made = run_graph(graph, {tensor: graph.inputs["x"].stored(given)}, FLOATING, [view.tensor])
    np.testing.assert_allclose(view.array(made[view.tensor]), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_kernels_are_permuted(name: str, tmp_path: Path) -> None:
    path = saved(tmp_path, CASES[name])
    graph = open_model(path).build(())
    assert kept(graph) > 0
    same_as_onnx(path, graph)
    fold_shuffles(graph, Context())
    assert kept(graph) == 0
    same_as_onnx(path, graph)
    named_as_onnx(path, graph)
    optimise(graph)
    same_as_onnx(path, graph)


def named_as_onnx(path: Path, graph: Graph) -> None:
    """Check that tensors named like a value of the model have its numbers, except for axis
    order."""
    given = np.random.default_rng(1).normal(0, 1, SIZE).astype(np.float32)
    whole = onnx.load(str(path))
    names = ["y", *(n for one in whole.graph.node for n in one.output if n != "y")]
    whole.graph.output.extend(map(onnx.helper.make_empty_tensor_value_info, names[1:]))
    found = reference.ReferenceEvaluator(whole).run(None, {"x": given})
    values = dict(zip(names, found, strict=True))
    known = [tensor for one in graph.nodes for tensor in one.outputs if tensor.name in values]
    feeds = {graph.inputs["x"].tensor: graph.inputs["x"].stored(given)}
    made = run_graph(graph, feeds, FLOATING, known)
    for tensor in known:
        wanted = values[tensor.name]
        stored = made[tensor].transpose(0, 3, 1, 2).reshape(wanted.shape)
        np.testing.assert_allclose(stored, wanted, rtol=1e-4, atol=1e-5, err_msg=tensor.name)


@pytest.mark.parametrize("name", LEFT)
def test_shuffles_without_a_layer_stay_convolutions(name: str, tmp_path: Path) -> None:
    path = saved(tmp_path, LEFT[name])
    graph = open_model(path).build(())
    fold_shuffles(graph, Context())
    assert kept(graph) == 1
    same_as_onnx(path, graph)


def test_orders() -> None:
    weights = shuffle_weights(ORDER)
    from mapper.compiler.ir.node import Node, Window

    data, made = Tensor("x", (1, 2, 2, 12)), Tensor("y", (1, 2, 2, 12))
    layer = Node(Conv(Window((1, 1))), [data, weights], [made], ("n",))
    found = order_of(layer)
    assert found is not None
    assert found.tolist() == ORDER.tolist() == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]
    for other in (2 * weights.value, np.ones((12, 1, 1, 12), np.float32)):
        layer.inputs[1] = Tensor("w", other.shape, value=other)
        assert order_of(layer) is None


def test_pixels_that_move_stay_on_the_host(tmp_path: Path) -> None:
    nodes = [node("Reshape", "x five", "a"), node("Transpose", "a", "b", perm=[0, 2, 1, 4, 3]),
             node("Reshape", "b four", "c"), conv("c w", "y")]  # fmt: skip
    rows = {one.node: one for one in explain(open_model(saved(tmp_path, nodes)), CompileSettings())}
    assert rows["n_b"].where == "host"


def test_explained(tmp_path: Path) -> None:
    path = saved(tmp_path, CASES["a layer"])
    rows = {one.node: one for one in explain(open_model(path), CompileSettings())}
    assert (rows["n_c2"].where, rows["n_c2"].by) == ("folded", "n_a")


@pytest.mark.jit
@pytest.mark.parametrize("shape", ["npu", "ref32"])
def test_thin_shufflenet(shape: str, tmp_path: Path) -> None:
    """Two ShuffleNet units: one of stride 2, joined with pooled pixels, and one with a sum.

    The groups of the first do not begin at blocks. The onnx package's whole network takes a minute.
    """
    random = np.random.default_rng(0)
    channels, groups = 28, 4

    def weights(*sizes: int) -> np.ndarray:
        return random.normal(0, (2 / np.prod(sizes[1:])) ** 0.5, sizes).astype(np.float32)

    def order(given: str, made: str, count: int, side: int) -> list[Any]:
        known[f"{made}5"] = np.array([1, groups, count // groups, side, side])
        known[f"{made}4"] = np.array([1, count, side, side])
        return [
            node("Reshape", f"{given} {made}5", f"{made}1"),
            node("Transpose", f"{made}1", f"{made}2", perm=[0, 2, 1, 3, 4]),
            node("Reshape", f"{made}2 {made}4", made),
        ]

    whole = channels + 24
    known: dict[str, np.ndarray] = {
        "w0": weights(24, 3, 3, 3), "w1": weights(channels, 6, 1, 1),
        "w2": weights(channels, 1, 3, 3), "w3": weights(channels, channels // groups, 1, 1),
        "w4": weights(whole, whole // groups, 1, 1), "w5": weights(whole, 1, 3, 3),
        "w6": weights(whole, whole // groups, 1, 1),
    }  # fmt: skip
    nodes = [
        node("Conv", "x w0", "a", pads=[1, 1, 1, 1]), node("Relu", "a", "b"),
        node("Conv", "b w1", "c", group=groups), node("Relu", "c", "e"),
        *order("e", "f", channels, 8),
        node("Conv", "f w2", "g", group=channels, pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Conv", "g w3", "h", group=groups),
        node("AveragePool", "b", "i", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Concat", "h i", "j", axis=1), node("Relu", "j", "k"),
        node("Conv", "k w4", "l", group=groups), node("Relu", "l", "m"),
        *order("m", "n", whole, 4),
        node("Conv", "n w5", "o", group=whole, pads=[1, 1, 1, 1]),
        node("Conv", "o w6", "p", group=groups),
        node("Sum", "p k", "q"), node("Relu", "q"),
    ]  # fmt: skip
    path = tmp_path / "model.onnx"
    onnx.save(model(nodes, known, {"x": (1, 3, 8, 8)}), str(path))
    samples = random.normal(0, 1, (6, 3, 8, 8)).astype(np.float32)
    made = compiled_model(path, samples, NPU_SHAPES[shape])
    assert not any(one.kind == "host" for one in made.compiled.graph.nodes)
    assert len(made.folder.manifest["functions"]) == 1
    found = simulate(made.folder, samples[:2], 1, check=True)
    assert {one.differences for one in found.compared} == {0}
    wanted = [reference.ReferenceEvaluator(str(path)).run(None, {"x": one[None]})[0][0]
              for one in samples[:2]]  # fmt: skip
    near = found.values["y"]
    assert ((near - wanted) ** 2).sum() < 0.01 * (np.array(wanted) ** 2).sum()
