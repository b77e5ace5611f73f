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
from mapper.compiler.model import open_model
from mapper.compiler.settings import CompileSettings
from mapper.compiler.transforms.floats.shuffles import order_of
from mapper.compiler.transforms.registry import optimise
from tests.compiler.graph_text import parse
from tests.compiler.models import agree, read, saved
from tests.compiler.programs import compiled_model
from tests.storage.formats.onnx_models import model, node, reference

ORDER = [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]


def shuffled(perm: list[int]) -> Any:
    """Return a model of a layer in three groups, and a permutation of its results."""
    nodes = [
        node("Conv", "x w", "a", group=3), node("Relu", "a", "b"),
        node("Reshape", "b five", "c1"), node("Transpose", "c1", "c2", perm=perm),
        node("Reshape", "c2 four", "c"), node("Exp", "c"),
    ]  # fmt: skip
    weights = np.random.default_rng(3).normal(0, 0.5, (12, 4, 1, 1)).astype(np.float32)
    shapes = {"five": np.array([1, 3, 4, 6, 5]), "four": np.array([1, 12, 6, 5])}
    return model(nodes, {"w": weights, **shapes}, {"x": (1, 12, 6, 5)})


def test_shuffles_become_permuted_kernels(tmp_path: Path) -> None:
    """The front end reads them as a convolution, which the passes fold."""
    made = shuffled([0, 2, 1, 3, 4])
    graph = read(made, tmp_path)
    assert [one.tolist() for one in map(order_of, graph.nodes) if one is not None] == [ORDER]
    agree(graph, made)
    optimise(graph)
    assert [one for one in map(order_of, graph.nodes) if one is not None] == []
    agree(graph, made)


@pytest.mark.parametrize(
    ("perm", "name", "where", "by"),
    [([0, 2, 1, 3, 4], "n_c2", "folded", "n_a"), ([0, 2, 1, 4, 3], "n_c2", "host", "")],
    ids=["channels", "pixels"],
)
def test_explained(tmp_path: Path, perm: list[int], name: str, where: str, by: str) -> None:
    """Pixels that move stay on the host."""
    found = explain(open_model(saved(shuffled(perm), tmp_path)), CompileSettings())
    (row,) = (one for one in found if one.node == name)
    assert row.where == where
    assert row.by == by or not by


def test_orders() -> None:
    layer = parse(f"""
        input x [2,2,12]
        conv y <- x, w(12,1,1,12)=perm:{",".join(map(str, ORDER))}
    """).nodes[0]
    found, weights = order_of(layer), shuffle_weights(np.array(ORDER)).value
    assert found is not None
    assert found.tolist() == ORDER
    assert weights is not None
    assert np.array_equal(layer.inputs[1].value, weights)  # type: ignore[arg-type]
    for other in (2 * weights, np.ones((12, 1, 1, 12), np.float32)):
        layer.inputs[1].value = other
        assert order_of(layer) is None


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
    path = saved(model(nodes, known, {"x": (1, 3, 8, 8)}), tmp_path)
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
