"""Functions of single elements: formulas, patterns of exporters, and tables of integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Function, Lookup, Product
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.ir.term import Term, X, affine
from mapper.compiler.numerics.formulas import looked_up
from mapper.compiler.quantisation.layers import table_node
from mapper.compiler.quantisation.scales import steep_part
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.registry import optimise
from mapper.errors import MapperError
from tests.compiler.models import agree, check, onnx_model, read
from tests.storage.formats.onnx_models import node

MAP = (1, 3, 4, 5)
ONE = [
    ("Sigmoid", {}), ("Tanh", {}), ("Softplus", {}), ("Softsign", {}), ("Erf", {}), ("Exp", {}),
    ("Abs", {}), ("Neg", {}), ("Sin", {}), ("Cos", {}), ("Atan", {}), ("Floor", {}), ("Ceil", {}),
    ("Round", {}), ("HardSigmoid", {}), ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
    ("HardSwish", {}), ("Elu", {}), ("Elu", {"alpha": 0.7}), ("Selu", {}), ("Celu", {"alpha": 2.0}),
    ("ThresholdedRelu", {"alpha": 0.3}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "how"), ONE, ids=lambda one: str(one))
def test_operators_equal_the_reference_of_onnx(
    kind: str, how: dict[str, float], tmp_path: Path
) -> None:
    graph = check(onnx_model([node(kind, "x", "y", **how)], {}, MAP), tmp_path)
    assert [type(one.operator) for one in graph.nodes] == [Function]


@pytest.mark.parametrize(
    ("kind", "how"), [("Gelu", {}), ("Gelu", {"approximate": "tanh"}), ("Mish", {})]
)
def test_operators_of_later_opsets(kind: str, how: dict[str, Any], tmp_path: Path) -> None:
    check(onnx_model([node(kind, "x", "y", **how)], {}, MAP, opset=20), tmp_path)


@pytest.mark.parametrize("kind", ["Log", "Sqrt", "Reciprocal", "Pow"])
def test_operators_of_positive_numbers(kind: str, tmp_path: Path) -> None:
    inputs = "p e" if kind == "Pow" else "p"
    nodes = [node("Exp", "x", "p"), node(kind, inputs, "y")]
    constants = {"e": np.float32(1.5)} if kind == "Pow" else {}
    check(onnx_model(nodes, constants, MAP), tmp_path)


NUMBERS = {
    name: np.float32(value)
    for name, value in (
        ("one", 1), ("three", 3), ("six", 6), ("zero", 0), ("half", 0.5), ("root", 2**0.5),
    )
}  # fmt: skip
EXPORTED = {
    "SiLU": [node("Sigmoid", "x", "s"), node("Mul", "x s", "y")],
    "HardSwish": [
        node("Add", "x three", "a"), node("Clip", "a zero six", "b"), node("Mul", "x b", "c"),
        node("Div", "c six", "y"),
    ],
    "GELU": [
        node("Div", "x root", "a"), node("Erf", "a", "e"), node("Add", "e one", "b"),
        node("Mul", "x b", "c"), node("Mul", "c half", "y"),
    ],
    "Mish": [node("Softplus", "x", "p"), node("Tanh", "p", "t"), node("Mul", "x t", "y")],
    "ReLU6 of a square": [node("Mul", "x x", "q"), node("Min", "q six", "y")],
    "a sum of two": [node("Tanh", "x", "t"), node("Sigmoid", "x", "s"), node("Add", "t s", "y")],
}  # fmt: skip


def joined(graph: Graph) -> Graph:
    optimise(graph, (), Context())
    return graph


@pytest.mark.parametrize("name", EXPORTED)
def test_nodes_of_exporters_become_one_function(name: str, tmp_path: Path) -> None:
    nodes = EXPORTED[name]
    used = {k: v for k, v in NUMBERS.items() if any(k in one.input for one in nodes)}
    made = onnx_model(nodes, used, MAP)
    graph = joined(read(made, tmp_path))
    assert [type(one.operator) for one in graph.nodes] == [Function]
    assert set(graph.nodes[0].sources) == {one.name for one in nodes}
    agree(graph, made)


def test_values_that_others_read_are_kept(tmp_path: Path) -> None:
    """The gate is an output as well, so only the product joins it."""
    nodes = [node("Sigmoid", "x", "s"), node("Mul", "x s", "y")]
    made = onnx_model(nodes, {}, MAP, outputs=("y", "s"))
    graph = joined(read(made, tmp_path))
    assert [type(one.operator) for one in graph.nodes] == [Function, Product]
    agree(graph, made)


def test_numbers_per_channel_end_a_function(tmp_path: Path) -> None:
    factor = np.array([1, 2, 3], np.float32).reshape(3, 1, 1)
    nodes = [node("Sigmoid", "x", "s"), node("Mul", "s k", "m"), node("Tanh", "m", "y")]
    made = onnx_model(nodes, {"k": factor}, MAP)
    graph = joined(read(made, tmp_path))
    assert sum(isinstance(one.operator, Function) for one in graph.nodes) == 2
    agree(graph, made)


PIXEL = [node("GlobalAveragePool", "x", "g"), node("Sigmoid", "g", "s")]


@pytest.mark.parametrize("inputs", ["x s", "s x"])
def test_one_pixel_scales_a_map(inputs: str, tmp_path: Path) -> None:
    graph = check(onnx_model([*PIXEL, node("Mul", inputs, "y")], {}, MAP), tmp_path)
    assert isinstance(graph.nodes[-1].operator, Product)
    assert graph.nodes[-1].inputs[1].shape == (1, 1, 1, 3)


def test_other_shapes_are_products_of_the_host(tmp_path: Path) -> None:
    nodes = [node("ReduceMean", "x", "s", axes=[1]), node("Mul", "x s", "y")]
    graph = read(onnx_model(nodes, {}, MAP, opset=13), tmp_path)
    assert [one.kind for one in graph.nodes] == ["host", "host"]


SIGMOID = Term("sigmoid", (X,))


def test_a_table_of_bytes() -> None:
    """Literal values of a sigmoid with steps of 1/16 and 1/256."""
    data = Tensor("x", (1, 1, 1, 1), "int8", 1 / 16, 0)
    made = Tensor("y", (1, 1, 1, 1), "int8", 1 / 256, -128)
    table = table_node(SIGMOID, data, made, ("s",), "away").operator
    assert isinstance(table, Lookup)
    numbers = np.array([-128, -16, 0, 16, 127])
    assert looked_up(numbers, table).tolist() == [-128, -59, 0, 59, 127]


def test_halves_of_a_table_round_as_asked() -> None:
    data = Tensor("x", (1, 1, 1, 1), "int8", 0.5, 0)
    made = Tensor("y", (1, 1, 1, 1), "int8", 1.0, 0)
    numbers = np.array([-5, -3, -1, 1, 3, 5])  # -2.5 to 2.5
    away = table_node(X, data, made, ("s",), "away").operator
    even = table_node(X, data, made, ("s",), "even").operator
    assert isinstance(away, Lookup)
    assert isinstance(even, Lookup)
    assert looked_up(numbers, away).tolist() == [-3, -2, -1, 1, 2, 3]
    assert looked_up(numbers, even).tolist() == [-2, -2, 0, 0, 2, 2]


def test_a_table_of_16_bits_is_close_to_its_function() -> None:
    """Straight lines over 1/16 miss tanh by at most h^2/8 max |f''|, and a step for rounding."""
    data = Tensor("x", (1, 1, 1, 1), "int16", 8 / 32768, 0)
    made = Tensor("y", (1, 1, 1, 1), "int16", 1 / 32767, 0)
    table = table_node(Term("tanh", (X,)), data, made, ("t",), "away").operator
    assert isinstance(table, Lookup)
    assert len(table.entries) == 257
    numbers = np.arange(-32768, 32768)
    error = looked_up(numbers, table) / 32767 - np.tanh(numbers * 8 / 32768)
    assert np.abs(error).max() < (1 / 16) ** 2 / 8 * 0.77 + 1.5 / 32767


def test_functions_without_a_value_or_too_steep_are_refused() -> None:
    data = Tensor("x", (1, 1, 1, 1), "int8", 0.5, 0)
    with pytest.raises(MapperError, match=r"'r': sqrt\(x\) is not a number for some values"):
        table_node(Term("sqrt", (X,)), data, data, ("r",), "away")
    wide = Tensor("x", (1, 1, 1, 1), "int16", 0.5, 0)
    with pytest.raises(MapperError, match=r"'s': sign\(x\) is too steep for a table of 256"):
        made = Tensor("y", (1, 1, 1, 1), "int16", 1 / 40000, 0)
        table_node(Term("sign", (X,)), wide, made, ("s",), "away")


def test_infinite_values_are_clipped() -> None:
    data = Tensor("x", (1, 1, 1, 1), "int8", 0.5, 0)
    table = table_node(Term("log", (Term("abs", (X,)),)), data, data, ("l",), "away").operator
    assert isinstance(table, Lookup)
    assert looked_up(np.array([0]), table).tolist() == [-128]


@pytest.mark.parametrize(
    ("term", "low", "high"),
    [
        (Term("clip", (affine(1.0, 0.0),), (-2.0, 3.0)), -2.0, 3.0),
        (SIGMOID, -6.9, 6.9),
        (X, -20.0, 10.0),
    ],
)
def test_flat_ends_of_a_function_need_no_integers(term: Term, low: float, high: float) -> None:
    """Steps of 1/256; a sigmoid is within a quarter of one of its end beyond 6.93."""
    found = steep_part(term, -20.0, 10.0, 1 / 256)
    assert found == pytest.approx((low, high), abs=0.05)
