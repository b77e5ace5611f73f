"""Replace QONNX operators and operators of integer networks by ONNX operators, for ONNX Runtime.

The modules of the judge share no code with the front end, the host's plan and the passes, except
for the definitions in `onnxwhole`: they read ONNX independently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.formats.layers.onnxexpanded import Expanded, version_of
from storage.formats.layers.onnxwhole import WHOLE

Array = NDArray[Any]
INTEGER_WEIGHTS = {
    "QLinearConv": (3, 5, 2), "QLinearMatMul": (3, 5, 2), "QGemm": (3, 5, 2),
    "ConvInteger": (1, 3, 2), "MatMulInteger": (1, 3, 2),
}  # fmt: skip
"""Input indices of weights, their zero points, and the zero point of the map."""


def _quant(e: Expanded) -> None:
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


def _bipolar(e: Expanded) -> None:
    x, scale = e.proto.input
    below = e.node("Less", x, e.constant(np.float32(0)))
    e.node("Where", below, e.node("Neg", scale), scale, output=e.proto.output[0])


def _trunc(e: Expanded) -> None:
    x, scale, zero = e.proto.input[:3]
    steps = np.float32(2.0 ** (float(e.known(3)) - float(e.known(4))))
    whole = e.rounded(e.node("Add", e.node("Div", x, scale), zero), "ROUND")
    cut = e.rounded(e.node("Div", whole, e.constant(steps)), e.mode("FLOOR"))
    e.node("Mul", e.node("Sub", cut, zero), scale, output=e.proto.output[0])


def _quantised_pool(e: Expanded) -> None:
    """Pooling of real numbers between DequantizeLinear and QuantizeLinear: a mean of integers is
    halfway between two of them so often that it must be seen where that is so."""
    x, x_scale, x_zero, y_scale, y_zero = (*e.proto.input, "")[:5]
    if e.attributes.pop("channels_last", 0):
        raise KeyError("channels_last")
    real = e.node("DequantizeLinear", x, x_scale, *([x_zero] if x_zero else []))
    mean = e.node(e.proto.op_type.removeprefix("QLinear"), real, **e.attributes)
    given = [y_scale, *([y_zero] if y_zero else [])]
    e.node("QuantizeLinear", mean, *given, output=e.proto.output[0])


EXPANDED: dict[str, Callable[[Expanded], None]] = {
    "Quant": _quant,
    "BipolarQuant": _bipolar,
    "Trunc": _trunc,
    **WHOLE,
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
    version = version_of((one.domain, one.version) for one in model.opset_import)
    constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    nodes: list[Any] = []
    for number, node in enumerate(graph.node):
        made = list(_expanded(node, constants, number, version, graph)) or [node]
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


def _expanded(
    node: Any, constants: dict[str, Array], number: int, version: int, graph: Any
) -> Iterator[Any]:
    """Yield the nodes that replace one; none if it stays."""
    from onnx import numpy_helper

    if node.op_type not in EXPANDED:
        return
    made = Expanded(node, constants, f"plain{number}", version)
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
