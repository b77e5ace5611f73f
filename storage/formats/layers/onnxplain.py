"""Replace QONNX operators and operators of integer networks by ONNX operators, for ONNX Runtime.

The modules of the judge share no code with the front end, the host's plan and the passes, except
for the definitions in `onnxwhole`: they read ONNX independently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.formats.layers.onnxexpanded import Expanded, version_of
from storage.formats.layers.onnxruns import OLDEST_IR
from storage.formats.layers.onnxwhole import WHOLE

Array = NDArray[Any]
INTEGER_WEIGHTS = {"ConvInteger": (1, 3, 2), "MatMulInteger": (1, 3, 2)}
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


def _real(e: Expanded, place: int) -> str:
    """Add the real numbers of an operand, whose scale and zero point are the next inputs."""
    x, scale, zero = (*e.proto.input, "", "")[place : place + 3]
    return e.node("DequantizeLinear", x, scale, *([zero] if zero else []))


def _stored(e: Expanded, value: str, place: int) -> None:
    """Add QuantizeLinear of the result. place : of its scale among the inputs of the operator"""
    scale, zero = (*e.proto.input, "")[place : place + 2]
    e.node("QuantizeLinear", value, scale, *([zero] if zero else []), output=e.proto.output[0])


def _quantised(kind: str, operands: int, e: Expanded) -> None:
    """Add an operator of real numbers between DequantizeLinear and QuantizeLinear.

    Sums, products and means of integers are often halfway between two integers of the result, which
    kernels round differently: the halves must be visible.
    """
    if e.attributes.pop("channels_last", 0):
        raise KeyError("channels_last")
    real = [_real(e, 3 * at) for at in range(operands)]
    _stored(e, e.node(kind, *real, **e.attributes), 3 * operands)


def _quantised_concat(e: Expanded) -> None:
    parts = [_real(e, at) for at in range(2, len(e.proto.input), 3)]
    _stored(e, e.node("Concat", *parts, **e.attributes), 0)


def _quantised_layer(kind: str, e: Expanded) -> None:
    """Add a layer whose weights and scales are constant."""
    bias, place = (6, 7) if kind == "Gemm" else (8, 6)
    inputs = [*e.proto.input, "", "", ""]
    if not inputs[place] or e.attributes.get("alpha", 1.0) != 1.0:
        raise KeyError("alpha")
    whole, scale = e.known(3).astype(np.int64), e.known(4).astype(np.float64)
    zero = e.known(5).astype(np.int64) if inputs[5] else np.zeros((), np.int64)
    unit = e.known(1).astype(np.float64) * scale
    if kind == "Conv" or e.attributes.get("transB"):  # outputs on the first axis
        column = [-1, *[1] * (whole.ndim - 1)]
        scale, zero = scale.reshape(column), zero.reshape(column)
    weights = e.constant(((whole - zero) * scale).astype(np.float32))
    more = [e.constant((e.known(bias) * unit).astype(np.float32))] if inputs[bias] else []
    _stored(e, e.node(kind, _real(e, 0), weights, *more, **e.attributes), place)


EXPANDED: dict[str, Callable[[Expanded], None]] = {
    "Quant": _quant,
    "BipolarQuant": _bipolar,
    "Trunc": _trunc,
    **WHOLE,
    **{f"QLinear{kind}": partial(_quantised, kind, 2) for kind in ("Add", "Mul")},
    **{
        f"QLinear{kind}": partial(_quantised, kind, 1)
        for kind in ("AveragePool", "GlobalAveragePool", "LeakyRelu", "Sigmoid")
    },
    "QLinearConcat": _quantised_concat,
    "QLinearConv": partial(_quantised_layer, "Conv"),
    "QLinearMatMul": partial(_quantised_layer, "MatMul"),
    "QGemm": partial(_quantised_layer, "Gemm"),
}


def plain_model(model: Any) -> None:
    """Change a model (`onnx.ModelProto`) to the needed operators of ONNX Runtime, a batch of one,
    and exact kernels.

    Unknown operators stay. The kernels are exact on every processor.
    """
    from onnx import numpy_helper

    graph = model.graph
    model.ir_version = max(model.ir_version, OLDEST_IR)  # constants are no inputs
    drop_unneeded(graph)
    version = version_of((one.domain, one.version) for one in model.opset_import)
    _constants_as_initializers(graph)
    constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
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


def drop_unneeded(graph: Any) -> None:
    """Remove the nodes that no output needs, which ONNX Runtime would also run."""
    wanted, kept = {one.name for one in graph.output}, []
    for node in reversed(list(graph.node)):
        if not wanted.isdisjoint(node.output):
            kept.append(_copied(node))
            wanted |= _read(node)
    del graph.node[:]
    graph.node.extend(reversed(kept))


def _read(node: Any) -> set[str]:
    """Return the names that a node reads, also in its subgraphs."""
    found = set(node.input)
    for attribute in node.attribute:
        for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            found |= {name for one in inner.node for name in _read(one)}
            found |= {one.name for one in inner.output}
    return found


def _constants_as_initializers(graph: Any) -> None:
    """Replace nodes that are constants, so that each constant has one form."""
    results = {one.name for one in graph.output}
    for node in list(graph.node):
        if node.op_type == "Constant" and node.output[0] not in results:
            (value,) = node.attribute
            if value.name == "value":
                graph.initializer.append(value.t)
                graph.initializer[-1].name = node.output[0]
                graph.node.remove(node)


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
