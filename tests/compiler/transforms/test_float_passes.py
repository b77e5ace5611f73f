"""Each pass over floating-point graphs: applied where it is legal, without a change of results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.ir.graph import Graph
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.registry import optimise
from tests.compiler.models import agree, computed, read, values_of
from tests.storage.formats.onnx_models import model, node

RANDOM = np.random.default_rng(11)
MAP = {"x": (1, 6, 9, 8)}


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape).astype(np.float32)


def scalar(value: float) -> np.ndarray:
    return np.float32(value).reshape(())


def moments(channels: int, gamma: Any = None) -> dict[str, np.ndarray]:
    found = normal(channels) if gamma is None else np.asarray(gamma, np.float32)
    return {
        "gamma": found, "beta": normal(channels), "mean": normal(channels),
        "var": np.abs(normal(channels)) + 0.05,
    }  # fmt: skip


def normalised(taken: str, made: str = "y") -> Any:
    return node("BatchNormalization", f"{taken} gamma beta mean var", made, epsilon=1e-3)


def kinds(graph: Graph) -> list[str]:
    return [one.kind for one in graph.nodes]


def with_and_without(made: Any, folder: Path, name: str) -> tuple[Graph, list[str]]:
    """Return the graph with all passes, and its log; check both graphs against the model."""
    plain = read(made, folder)
    context = Context()
    optimise(plain, [name], context)
    assert not any(line.startswith(f"{name}:") for line in context.log.lines)
    agree(plain, made)
    graph = read(made, folder)
    context = Context()
    optimise(graph, context=context)
    agree(graph, made)
    values = values_of(made, seed=3)
    for output, array in computed(plain, values).items():
        other = computed(graph, values)[output]
        assert np.abs(array - other).max() <= 1e-5 * np.abs(array).max()
    return graph, [line.partition(";")[0] for line in context.log.lines]


# -- batch normalisation ---------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [None, [0.0, -1.5, 2.0, -0.1], [0.0] * 4])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_a06_batchnorm_folded(tmp_path: Path, gamma: Any, bias: bool, groups: int) -> None:
    constants = {"w": normal(4, 6 // groups, 3, 3), "b": normal(4)} | moments(4, gamma)
    nodes = [node("Conv", "x w b" if bias else "x w", "c", group=groups), normalised("c")]
    graph, told = with_and_without(model(nodes, constants, MAP, opset=15), tmp_path, "batchnorm")
    assert kinds(graph) == ["conv"]
    assert told == ["batchnorm: affine 'n_y': into conv 'n_c'"]
    assert graph.nodes[0].sources == ("n_c", "n_y")


def test_a06_consecutive_batchnorms_after_a_dense_layer(tmp_path: Path) -> None:
    constants = {"w": normal(24, 4), "o": normal(4)} | moments(4)
    nodes = [node("MatMul", "x w", "m"), normalised("m", "n"), node("Add", "n o")]
    graph, told = with_and_without(
        model(nodes, constants, {"x": (1, 24)}, opset=15), tmp_path, "batchnorm"
    )
    assert kinds(graph) == ["conv"]
    assert len(told) == 3


def test_a06_batchnorm_that_cannot_be_folded(tmp_path: Path) -> None:
    """The sums have another user, or an activation is between."""
    constants = {"w": normal(4, 6, 3, 3)} | moments(4)
    nodes = [node("Conv", "x w", "c"), normalised("c", "n"), node("Add", "c n")]
    graph, told = with_and_without(model(nodes, constants, MAP, opset=15), tmp_path, "batchnorm")
    assert kinds(graph) == ["conv", "conv", "add"]
    assert told == ["'n_n' (affine): as a depthwise convolution"]
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), normalised("r")]
    graph, _ = with_and_without(model(nodes, constants, MAP, opset=15), tmp_path, "batchnorm")
    assert kinds(graph) == ["conv", "activation", "conv"]
    assert graph.nodes[2].operator.groups == 4  # type: ignore[attr-defined]


# -- the scale of the input ------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("bias", [False, True])
def test_scale_of_the_input_folded(tmp_path: Path, groups: int, bias: bool) -> None:
    constants = {
        "w": normal(9, 6 // groups, 3, 3), "b": normal(9), "f": normal(6, 1, 1),
        "o": normal(6, 1, 1),
    }  # fmt: skip
    nodes = [
        node("Sub", "x o", "s"), node("Mul", "s f", "m"),
        node("Conv", "m w b" if bias else "m w", group=groups),
    ]  # fmt: skip
    graph, told = with_and_without(model(nodes, constants, MAP), tmp_path, "input-scale")
    assert kinds(graph) == ["conv"]
    assert [line.partition(":")[0] for line in told] == ["input-scale"] * 2
    assert graph.nodes[0].sources == ("n_s", "n_m", "n_y")


def test_offsets_of_the_input_before_padding_are_kept(tmp_path: Path) -> None:
    """Padding is zero after the offset; a factor alone does not change it."""
    constants = {"w": normal(4, 6, 3, 3), "f": normal(6, 1, 1)}
    for kind, left in (("Add", ["conv", "conv"]), ("Div", ["conv"])):
        nodes = [node(kind, "x f", "m"), node("Conv", "m w", pads=[1, 0, 0, 0])]
        graph, _ = with_and_without(model(nodes, constants, MAP), tmp_path, "input-scale")
        assert kinds(graph) == left


def test_scale_of_the_input_before_a_dense_layer(tmp_path: Path) -> None:
    constants = {"w": normal(6 * 72, 4), "f": scalar(1 / 255), "o": scalar(0.5)}
    nodes = [
        node("Mul", "x f", "m"), node("Sub", "m o", "s"), node("Flatten", "s", "q"),
        node("MatMul", "q w"),
    ]  # fmt: skip
    graph, _ = with_and_without(model(nodes, constants, MAP), tmp_path, "input-scale")
    assert kinds(graph) == ["conv"]


def test_scale_of_an_input_with_two_users_is_kept(tmp_path: Path) -> None:
    constants = {"w": normal(6, 6, 1, 1), "f": scalar(0.5)}
    nodes = [node("Mul", "x f", "m"), node("Conv", "m w", "c"), node("Add", "m c")]
    graph, _ = with_and_without(model(nodes, constants, MAP), tmp_path, "input-scale")
    assert kinds(graph) == ["conv", "conv", "add"]


# -- padding ---------------------------------------------------------------------------------------


def padding(
    value: float, taken: str = "x", pads: tuple[int, ...] = (1, 0, 2, 1)
) -> tuple[Any, dict]:
    """Return a Pad node; pads : top, left, bottom, right."""
    both = np.array([0, 0, *pads[:2], 0, 0, *pads[2:]])
    return node("Pad", f"{taken} pads value", "p"), {"pads": both, "value": scalar(value)}


def test_padding_before_a_convolution_folded(tmp_path: Path) -> None:
    pad, constants = padding(0.0)
    nodes = [pad, node("Conv", "p w", strides=[2, 1], pads=[0, 1, 1, 0])]
    made = model(nodes, constants | {"w": normal(4, 6, 3, 3)}, MAP)
    graph, told = with_and_without(made, tmp_path, "pad")
    assert kinds(graph) == ["conv"]
    assert tuple(graph.nodes[0].operator.window.pad) == (1, 3, 1, 1)  # type: ignore[attr-defined]
    assert told == ["pad: pad 'n_p': into conv 'n_y'"]


def test_padding_with_other_numbers_stays_before_a_convolution(tmp_path: Path) -> None:
    pad, constants = padding(1.5)
    made = model([pad, node("Conv", "p w")], constants | {"w": normal(4, 6, 3, 3)}, MAP)
    graph, _ = with_and_without(made, tmp_path, "pad")
    assert kinds(graph) == ["host", "conv"]


@pytest.mark.parametrize(
    ("value", "relu", "folded"), [(-1e30, True, True), (0.0, True, True), (0.5, True, False),
                                  (0.0, False, False)],
)  # fmt: skip
def test_padding_before_max_pooling_folded(
    tmp_path: Path, value: float, relu: bool, folded: bool
) -> None:
    """If it is never larger than the padded map, also of joined maps."""
    pad, constants = padding(value, "k" if relu else "x", (0, 0, 1, 1))
    before = [node("Relu", "x", "r"), node("Concat", "r r", "k", axis=1)] if relu else []
    nodes = [*before, pad, node("MaxPool", "p", kernel_shape=[3, 3], strides=[2, 2])]
    made = model(nodes, constants, MAP)
    graph, told = with_and_without(made, tmp_path, "pad")
    assert ("pad: pad 'n_p': into pool 'n_y'" in told) == folded
    assert ("pad" in kinds(graph) or "conv" in kinds(graph)) != folded


def test_windows_of_padding_alone_keep_its_value(tmp_path: Path) -> None:
    """Zero may be the least value of a padded map, but is not the least integer."""
    pad, constants = padding(0.0, "r", (3, 0, 0, 0))
    nodes = [node("Relu", "x", "r"), pad, node("MaxPool", "p", kernel_shape=[2, 2], strides=[2, 2])]
    graph, told = with_and_without(model(nodes, constants, MAP), tmp_path, "pad")
    assert not any(line.startswith("pad:") for line in told)
    assert kinds(graph) == ["activation", "conv", "pool"]


def test_padding_with_two_users_is_kept(tmp_path: Path) -> None:
    pad, constants = padding(0.0, pads=(1, 1, 1, 1))
    nodes = [pad, node("Conv", "p w", "a"), node("Conv", "p w", "b"), node("Add", "a b")]
    made = model(nodes, constants | {"w": normal(6, 6, 3, 3)}, MAP)
    graph, _ = with_and_without(made, tmp_path, "pad")
    assert kinds(graph) == ["conv", "conv", "conv", "add"]


# -- dense layers, activations, other nodes --------------------------------------------------------


def test_a03_dense_layers_become_convolutions(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "c"), node("Flatten", "c", "f"), node("Gemm", "f d", "g"),
        node("Relu", "g", "r"), node("Gemm", "r e"),
    ]  # fmt: skip
    constants = {"w": normal(4, 6, 3, 3), "d": normal(4 * 42, 7), "e": normal(7, 3)}
    graph, told = with_and_without(model(nodes, constants, MAP), tmp_path, "dense")
    assert kinds(graph) == ["conv", "conv", "activation", "conv"]
    sizes = [one.operator.window.size for one in graph.nodes if one.kind == "conv"]  # type: ignore[attr-defined]
    assert sizes == [(3, 3), (7, 6), (1, 1)]
    assert told == ["dense: dense 'n_g': kernel of 7x6", "dense: dense 'n_y': kernel of 1x1"]


@pytest.mark.parametrize(
    ("activation", "first"),
    [
        (node("Relu", "p"), True),
        (node("LeakyRelu", "p", alpha=0.2), True),
        (node("LeakyRelu", "p", alpha=-0.2), False),
        (node("Clip", "p low high"), True),
    ],
)
def test_activations_move_before_max_pooling(tmp_path: Path, activation: Any, first: bool) -> None:
    nodes = [node("Conv", "x w", "c"), node("MaxPool", "c", "p", kernel_shape=[2, 2]), activation]
    constants = {"w": normal(4, 6, 3, 3), "low": scalar(-0.5), "high": scalar(1.0)}
    made = model(nodes, constants, MAP)
    graph = read(made, tmp_path)
    optimise(graph)
    agree(graph, made)
    order = ["conv", "activation", "pool"] if first else ["conv", "pool", "conv", "activation"]
    assert kinds(graph) == order


def test_leaky_activations_without_a_layer_get_one(tmp_path: Path) -> None:
    nodes = [node("Add", "x x", "a"), node("PRelu", "a s")]
    made = model(nodes, {"s": normal(6, 1, 1)}, MAP)
    graph = read(made, tmp_path)
    context = Context()
    optimise(graph, context=context)
    agree(graph, made)
    assert kinds(graph) == ["add", "conv", "activation"]
    assert context.log.lines == ["'n_y' (activation): as a depthwise convolution"]
