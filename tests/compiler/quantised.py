"""Small quantised models, and their graphs from the front end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Host
from mapper.compiler.model import open_model
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.formulas import dequantise, quantise
from mapper.compiler.numerics.reference import INTEGER
from tests.compiler.models import onnx_model, saved
from tests.compiler.onnx_sessions import session_of
from tests.reference import quantised as twin
from tests.reference.quantised import Array, How
from tests.storage.formats.onnx_models import helper

MICROSOFT = "com.microsoft"
OF_ONNX = {"QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger",
           "MatMulInteger"}  # fmt: skip


class Net:
    """A model of the input x and the output y, built node by node; values are (1, ...)."""

    def __init__(self, shape: tuple[int, ...], opset: int = 17, seed: int = 0) -> None:
        self.shape, self.opset = shape, opset
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.random = np.random.default_rng(seed)

    def constant(self, value: Any, name: str = "") -> str:
        name = name or f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        own = kind.startswith("Q") and kind not in OF_ONNX
        made = helper.make_node(
            kind, inputs, [output], f"n_{output}", domain=MICROSOFT if own else "", **attributes
        )
        self.nodes.append(made)
        return output

    def how(self, how: How) -> list[str]:
        """Return the names of a scale and a zero point."""
        return [self.constant(how.scale), self.constant(np.array(how.zero, how.kind))]

    def stored(self, name: str, how: How, output: str) -> str:
        return self.node("QuantizeLinear", [name, *self.how(how)], output)

    def real(self, name: str, how: How, output: str) -> str:
        return self.node("DequantizeLinear", [name, *self.how(how)], output)

    @property
    def model(self) -> Any:
        return onnx_model(
            self.nodes, self.constants, self.shape, opset=self.opset, domains=[MICROSOFT]
        )

    def save(self, folder: Path) -> Path:
        return saved(self.model, folder)

    def sample(self) -> Array:
        return self.random.normal(0, 1.2, self.shape).astype(np.float32)


KINDS = ("uint8", "int8")
MAP = (1, 4, 6, 7)


def how(kind: str, scale: float, zero: int = 0) -> How:
    """Return the storage of a map with a zero point given for int8."""
    return How(np.float32(scale), zero + (128 if kind == "uint8" else 0), kind)


def less(x: Array, taken: How) -> Array:
    """Return the stored integers of x minus their zero point."""
    return twin.quantised(x, taken).astype(np.int64) - taken.zero


def pooled(
    x: Array, taken: How, made: How, size: tuple[int, int], pads: tuple[int, ...] = (0, 0, 0, 0),
    strides: tuple[int, int] = (1, 1), count: int = 0,
) -> Array:  # fmt: skip
    """Return means of stored integers, rounded once; count : divisor instead of the pixels inside
    the map, if any"""
    ratio = np.float64(taken.scale) / np.float64(made.scale)
    windows = list(twin.pooled(less(x, taken), size, pads, strides))
    found = np.zeros((1, *(1 + n for n in max(place for place, _ in windows))), np.float32)
    for place, part in windows:
        stored = np.rint(part.sum() * ratio / (count or part.size)) + made.zero
        found[0][place] = (np.clip(stored, *made.ends) - made.zero) * made.scale
    return found


def added(x: Array, parts: tuple[How, How], made: How, low: int | None = None) -> Array:
    """Return the sum of a map in two storages, rounded once; low : least stored integer"""
    real = sum(less(x, one) * (np.float64(one.scale) / np.float64(made.scale)) for one in parts)
    ends = made.ends[0] if low is None else low, made.ends[1]
    return twin.dequantised(np.clip(np.rint(real) + made.zero, *ends).astype(made.kind), made)


def run_integers(graph: Graph, x: Array) -> dict[str, Array]:
    """Return an integer graph's results for samples, in real numbers, in the form of ONNX."""
    ((_, view),) = graph.inputs.items()
    data = view.stored(x)
    taken = view.tensor
    if taken.type != "float32":
        data = quantise(data, taken.scale, taken.zero_point, taken.bits)
    outputs = graph.outputs
    made = run_graph(graph, {taken: data}, INTEGER, [one.tensor for one in outputs.values()])
    found = {}
    for name, one in outputs.items():
        values, tensor = made[one.tensor], one.tensor
        if tensor.type != "float32":
            values = dequantise(values, tensor.scale, tensor.zero_point)
        found[name] = one.array(values)
    return found


def check(net: Net, x: Array, expected: Array, folder: Path, hosts: tuple[str, ...] = ()) -> Graph:
    """Check a model's result for x here and in onnxruntime; the host computes only the given
    operators.
    """
    path = net.save(folder)
    graph = open_model(path).build(())
    hosted = [one.operator.node.kind for one in graph.nodes if isinstance(one.operator, Host)]
    assert tuple(hosted) == hosts
    if not hosts:
        assert all(tensor.type != "float32" for node in graph.nodes for tensor in node.outputs)
    found = run_integers(graph, x)["y"]
    assert found.shape == expected.shape
    assert len(np.unique(expected)) > 2, "the test shows nothing"
    np.testing.assert_array_equal(found, expected)
    wanted = by_onnxruntime(path, x)
    if wanted is not None:
        np.testing.assert_array_equal(expected, wanted)
    return graph


def by_onnxruntime(path: Path, x: Array) -> Array | None:
    """Return the result of onnxruntime's integer kernels; None where it is not installed."""
    try:
        session = session_of(path)
    except ImportError:
        return None
    name = session.get_inputs()[0].name
    rows = [session.run(None, {name: x[at : at + 1]})[0] for at in range(len(x))]
    return np.concatenate(rows)
