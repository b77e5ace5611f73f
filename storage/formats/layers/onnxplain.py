"""Replace QONNX operators and RequantShift by ONNX operators, for ONNX Runtime.

The modules of the judge share no code with the front end, the host's plan and the passes: they read
ONNX independently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TO_EVEN = np.float32(1.5 * 2**23)
"""Added and subtracted again, it rounds numbers below 2^22, halves to even, in any opset."""
INTEGER_WEIGHTS = {
    "QLinearConv": (3, 5, 2), "QLinearMatMul": (3, 5, 2), "QGemm": (3, 5, 2),
    "ConvInteger": (1, 3, 2), "MatMulInteger": (1, 3, 2),
}  # fmt: skip
"""Input indices of weights, their zero points, and the zero point of the map."""


class _Expanded:
    """Nodes that replace one without a kernel in ONNX Runtime."""

    def __init__(self, proto: Any, constants: dict[str, Array], number: int) -> None:
        self.proto, self.constants, self.prefix = proto, constants, f"plain{number}"
        self.nodes: list[Any] = []
        self.made: dict[str, Array] = {}
        self.attributes = {one.name: _value(one) for one in proto.attribute}

    def constant(self, value: Any) -> str:
        name = f"{self.prefix}.c{len(self.made)}"
        self.made[name] = np.asarray(value)
        return name

    def node(self, kind: str, *inputs: str, output: str | None = None, **more: Any) -> str:
        from onnx import helper

        name = output or f"{self.prefix}.v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **more))
        return name

    def known(self, place: int) -> Array:
        """Return a constant input; raise `KeyError` if it is not constant."""
        return self.constants[self.proto.input[place]]

    def rounded(self, value: str, mode: str) -> str:
        match mode.upper():
            case "FLOOR":
                return self.node("Floor", value)
            case "CEIL":
                return self.node("Ceil", value)
            case "ROUND_TO_ZERO" | "DOWN":
                whole = self.node("Floor", self.node("Abs", value))
                return self.node("Mul", self.node("Sign", value), whole)
            case _:
                large = self.constant(TO_EVEN)
                return self.node("Sub", self.node("Add", value, large), large)

    def mode(self, usual: str) -> str:
        found = self.attributes.get("rounding_mode", usual.encode())
        return str(found.decode())


def _value(attribute: Any) -> Any:
    from onnx import helper

    return helper.get_attribute_value(attribute)


def _quant(e: _Expanded) -> None:
    """Add (rint(clip(x / scale + zero)) - zero) * scale (QONNX, Quant)."""
    x, scale, zero, _ = e.proto.input
    bits = float(np.max(e.known(3)))
    signed, narrow = e.attributes.get("signed", 1), e.attributes.get("narrow", 0)
    low = -(2.0 ** (bits - 1)) + narrow if signed else 0.0
    high = 2.0 ** (bits - 1) - 1 if signed else 2.0**bits - 1 - narrow
    value = e.node("Add", e.node("Div", x, scale), zero)
    value = e.node("Max", value, e.constant(np.float32(low)))
    value = e.node("Min", value, e.constant(np.float32(high)))
    whole = e.rounded(value, e.mode("ROUND"))
    e.node("Mul", e.node("Sub", whole, zero), scale, output=e.proto.output[0])


def _bipolar(e: _Expanded) -> None:
    x, scale = e.proto.input
    below = e.node("Less", x, e.constant(np.float32(0)))
    e.node("Where", below, e.node("Neg", scale), scale, output=e.proto.output[0])


def _trunc(e: _Expanded) -> None:
    x, scale, zero = e.proto.input[:3]
    steps = np.float32(2.0 ** (float(e.known(3)) - float(e.known(4))))
    whole = e.rounded(e.node("Add", e.node("Div", x, scale), zero), "ROUND")
    cut = e.rounded(e.node("Div", whole, e.constant(steps)), e.mode("FLOOR"))
    e.node("Mul", e.node("Sub", cut, zero), scale, output=e.proto.output[0])


def _requant_shift(e: _Expanded) -> None:
    """Add floor((x mul + add) / div + 1/2), clipped to the levels, in float64."""
    from onnx import TensorProto, numpy_helper

    def number(name: str) -> float:
        found = e.attributes[name]
        whole = numpy_helper.to_array(found) if isinstance(found, TensorProto) else found
        return float(np.asarray(whole).reshape(()))

    levels, signed = number("n_levels_out"), number("signed")
    low = -(levels // 2) if signed else 0.0
    x = e.node("Cast", e.proto.input[0], to=TensorProto.DOUBLE)
    factor, offset = (e.constant(e.known(at).astype(np.float64)) for at in (1, 2))
    value = e.node("Add", e.node("Mul", x, factor), offset)
    value = e.node("Div", value, e.constant(np.float64(number("div"))))
    value = e.node("Floor", e.node("Add", value, e.constant(np.float64(0.5))))
    value = e.node("Max", value, e.constant(np.float64(low)))
    value = e.node("Min", value, e.constant(np.float64(low + levels - 1)))
    e.node("Cast", value, to=TensorProto.FLOAT, output=e.proto.output[0])


def _quantised_pool(e: _Expanded) -> None:
    """Pooling of real numbers between DequantizeLinear and QuantizeLinear: a mean of integers is
    halfway between two of them so often that it must be seen where that is so."""
    x, x_scale, x_zero, y_scale, y_zero = (*e.proto.input, "")[:5]
    if e.attributes.pop("channels_last", 0):
        raise KeyError("channels_last")
    real = e.node("DequantizeLinear", x, x_scale, *([x_zero] if x_zero else []))
    mean = e.node(e.proto.op_type.removeprefix("QLinear"), real, **e.attributes)
    given = [y_scale, *([y_zero] if y_zero else [])]
    e.node("QuantizeLinear", mean, *given, output=e.proto.output[0])


EXPANDED: dict[str, Callable[[_Expanded], None]] = {
    "Quant": _quant,
    "BipolarQuant": _bipolar,
    "Trunc": _trunc,
    "RequantShift": _requant_shift,
    "QLinearAveragePool": _quantised_pool,
    "QLinearGlobalAveragePool": _quantised_pool,
}


def plain_model(model: Any) -> None:
    """Change a model (`onnx.ModelProto`) to operators of ONNX Runtime, a batch of one, and exact
    kernels.

    Unknown operators stay. The kernels are exact on every processor.
    """
    from onnx import numpy_helper

    graph = model.graph
    constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    nodes: list[Any] = []
    for number, node in enumerate(graph.node):
        made = list(_expanded(node, constants, number, graph)) or [node]
        for one in made:
            _exact_weights(one, constants, graph)
        nodes += made
    kept = [_copied(node) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    del graph.value_info[:]
    given = {one.name for one in graph.initializer}
    for one in graph.input:
        dims = one.type.tensor_type.shape.dim
        if one.name not in given and len(dims):
            dims[0].Clear()
            dims[0].dim_value = 1
    for one in graph.output:
        if one.type.HasField("tensor_type"):
            one.type.tensor_type.ClearField("shape")


def _copied(node: Any) -> Any:
    made = type(node)()
    made.CopyFrom(node)
    return made


def _expanded(node: Any, constants: dict[str, Array], number: int, graph: Any) -> Iterator[Any]:
    """Yield the nodes that replace one; none if it stays."""
    from onnx import numpy_helper

    if node.op_type not in EXPANDED:
        return
    made = _Expanded(node, constants, number)
    try:
        EXPANDED[node.op_type](made)
    except KeyError:
        return  # bits or levels are computed: ONNX Runtime will report the node
    graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in made.made.items())
    yield from made.nodes


def _exact_weights(node: Any, constants: dict[str, Array], graph: Any) -> None:
    """Convert int8 weights to uint8, for kernels that are exact on every processor.

    Without VNNI instructions, products of uint8 and int8 are added in 16 bits with saturation
    (onnxruntime_session_options_config_keys.h).
    """
    from onnx import numpy_helper

    places = INTEGER_WEIGHTS.get(node.op_type)
    weights = None if places is None else constants.get(node.input[places[0]])
    if places is None or weights is None or weights.dtype != np.int8:
        return
    taken = constants.get(node.input[places[2]]) if len(node.input) > places[2] else None
    if taken is not None and taken.dtype == np.int8:
        return  # products of int8 and int8 are exact
    while len(node.input) <= places[1]:
        node.input.append("")
    zero = constants.get(node.input[places[1]], np.zeros((), np.int8))
    for place, value in zip(places[:2], (weights, zero), strict=True):
        name = f"{node.input[places[0]]}.unsigned.{place}"
        if name not in constants:
            whole = (value.astype(np.int16) + 128).astype(np.uint8)
            constants[name] = whole
            graph.initializer.append(numpy_helper.from_array(whole, name))
        node.input[place] = name


def names_made(nodes: Iterable[Any]) -> set[str]:
    """Return the names of values that nodes compute."""
    return {name for node in nodes for name in node.output if name}
