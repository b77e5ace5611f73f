"""Products of integers in ONNX Runtime are exact on every processor."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from storage.formats.layers.onnxruns import NodeSession, model_of_node, open_session

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
helper = onnx.helper

Array = NDArray[Any]
OPSETS = (("", 17), ("com.microsoft", 1))
KERNEL = 3
NAMES = {
    "MatMulInteger": "a b za zb", "ConvInteger": "a b za zb",
    "QLinearMatMul": "a one za b one zb scale zy", "QLinearConv": "a one za b one zb scale zy",
    "QGemm": "a one za b one zb none scale zy", "MatMulIntegerToFloat": "a b one one za zb",
}  # fmt: skip
MICROSOFT = ("QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul")
UNSUPPORTED = {  # int8 maps and uint8 weights
    (kind, "int8", "uint8")
    for kind in ("QLinearMatMul", "QLinearConv", "QGemm", "MatMulIntegerToFloat")
}


class Operands(NamedTuple):
    """a, b : operands; za, zb : their zero points"""

    a: Array
    b: Array
    za: Array
    zb: Array

    def sums(self, convolved: bool) -> Array:
        """Return the products of whole numbers."""
        a, b = self.a.astype(int) - self.za, self.b.astype(int) - self.zb
        if not convolved:
            return np.asarray(a @ b)
        windows = np.lib.stride_tricks.sliding_window_view(a, (KERNEL, KERNEL), (2, 3))
        return np.asarray(np.einsum("nchwij,ocij->nohw", windows, b))


def drawn(random: np.random.Generator, kind: str, shape: tuple[int, ...], ends: bool) -> Array:
    """Return random integers of a type, or only its smallest and largest."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    some = random.choice([low, high], shape) if ends else random.integers(low, high + 1, shape)
    return np.asarray(some, kind)


def operands(kind: str, kinds: tuple[str, str], seed: int) -> Operands:
    random, ends = np.random.default_rng(seed), bool(seed % 2)
    shapes = ((3, 64), (64, 7)) if "Conv" not in kind else ((1, 8, 6, 6), (5, 8, KERNEL, KERNEL))
    a, b = (drawn(random, one, shape, ends) for one, shape in zip(kinds, shapes, strict=True))
    return Operands(a, b, drawn(random, kinds[0], (), False), drawn(random, kinds[1], (), False))


def of_node(kind: str, names: str, known: dict[str, Array], given: dict[str, Array]) -> Array:
    domain = "com.microsoft" if kind in MICROSOFT else ""
    inputs = ["" if name == "none" else name for name in names.split()]
    node = helper.make_node(kind, inputs, ["y"], "n", domain=domain)
    kinds = {name: (one.dtype, list(one.shape)) for name, one in given.items()}
    constants = {name: one for name, one in known.items() if name in inputs and name not in given}
    (made,) = NodeSession(model_of_node(node, kinds, constants, OPSETS)).run(given)
    return made


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("kinds", [(a, b) for a in ("uint8", "int8") for b in ("uint8", "int8")])
@pytest.mark.parametrize("constant", [True, False])
def test_products_are_exact(kind: str, kinds: tuple[str, str], constant: bool) -> None:
    """Fails without the conversion on x86 processors without VNNI instructions."""
    if (kind, *kinds) in UNSUPPORTED:
        pytest.skip("ONNX Runtime has no kernel")
    for seed in range(4):
        some = operands(kind, kinds, seed)
        sums = some.sums("Conv" in kind)
        scale = np.float32(2.0 ** np.ceil(np.log2(np.abs(sums).max() / 100)))
        zero = np.array(0 if kinds[0] == "int8" else 128, kinds[0])
        known = {**some._asdict(), "one": np.float32(1), "scale": scale, "zy": zero}
        known = {name: np.asarray(one) for name, one in known.items()}
        given = {"a": some.a} if constant else {"a": some.a, "b": some.b}
        made = of_node(kind, NAMES[kind], known, given)
        right = np.rint(sums / scale) + zero if "QLinear" in kind or kind == "QGemm" else sums
        np.testing.assert_array_equal(made, right)


def test_zero_points_that_are_not_given() -> None:
    some = operands("MatMulInteger", ("uint8", "int8"), 1)._replace(za=np.int8(0), zb=np.int8(0))
    made = of_node("MatMulInteger", "a b", some._asdict(), {"a": some.a})
    np.testing.assert_array_equal(made, some.sums(False))


def test_zero_points_of_columns() -> None:
    random = np.random.default_rng(2)
    some = operands("MatMulInteger", ("uint8", "int8"), 3)
    some = some._replace(zb=drawn(random, "int8", (7,), False))
    made = of_node("MatMulInteger", "a b za zb", some._asdict(), {"a": some.a})
    np.testing.assert_array_equal(made, some.sums(False))


def test_real_numbers_that_the_operator_quantises() -> None:
    """Whole numbers from 0 to 255 become themselves."""
    random = np.random.default_rng(3)
    x = random.choice([0.0, 255.0], (3, 64)).astype(np.float32)
    b = drawn(random, "int8", (64, 7), True)
    known = {"b": b, "one": np.array(1, np.float32)}
    made = of_node("DynamicQuantizeMatMul", "x b one", known, {"x": x})
    np.testing.assert_array_equal(made, x.astype(int) @ b.astype(int))


def test_models_and_their_subgraphs() -> None:
    """Types are inferred: neither operand is an input of the model."""
    random = np.random.default_rng(4)
    w = drawn(random, "int8", (64, 7), True)
    branch = helper.make_graph(
        [helper.make_node("MatMulInteger", ["q", "w", "z"], ["s"])], "branch", [],
        [helper.make_empty_tensor_value_info("s")],
    )  # fmt: skip
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "z"]),
        helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch),
    ]
    constants = [onnx.numpy_helper.from_array(w, "w"),
                 onnx.numpy_helper.from_array(np.array(True), "yes")]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [3, 64])],
        [helper.make_empty_tensor_value_info("y")], constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = random.choice([0.0, 255.0], (3, 64)).astype(np.float32)
    (made,) = open_session(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(made, x.astype(int) @ w.astype(int))
