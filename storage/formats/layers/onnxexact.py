"""Products of uint8 and int8 that ONNX Runtime sums exactly on every processor.

Without VNNI instructions, its kernels of x86 processors add pairs of such products in 16 bits, with
saturation, and ConvInteger of int8 maps and uint8 weights is wrong (ONNX Runtime 1.32). Its kernels
of two uint8 operands are exact. Here an int8 operand becomes uint8: v + 128, and its zero point
z + 128, have the same difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from storage.formats.layers.onnxexpanded import MICROSOFT, STANDARD

UINT8, INT8, INT32 = 2, 3, 6  # of onnx.TensorProto
STEP = 128
OPSET = 13  # of nodes that convert operands, if the model imports only other domains
Pair = tuple[int, int]
"""Positions of an operand and its zero point among the inputs of a node."""

PRODUCTS: dict[tuple[str, str], tuple[Pair, ...]] = {
    ("", "MatMulInteger"): ((0, 2), (1, 3)),
    ("", "ConvInteger"): ((0, 2), (1, 3)),
    ("", "QLinearMatMul"): ((0, 2), (3, 5)),
    ("", "QLinearConv"): ((0, 2), (3, 5)),
    (MICROSOFT, "QGemm"): ((0, 2), (3, 5)),
    (MICROSOFT, "MatMulIntegerToFloat"): ((0, 4), (1, 5)),
}
"""Operators that multiply two stored operands."""
OF_REAL: dict[tuple[str, str], tuple[Pair, ...]] = {
    (MICROSOFT, "DynamicQuantizeMatMul"): ((1, 3),),
    (MICROSOFT, "DynamicQuantizeLSTM"): ((1, 9), (2, 11)),
}
"""Operators that quantise a real operand to uint8, and multiply it with these."""


def with_exact_products(model: bytes) -> bytes:
    """Return a serialised model without products of uint8 and int8, with the same results."""
    from onnx import load_model_from_string, shape_inference

    proto = load_model_from_string(model)
    if not any(_key(node) in PRODUCTS or _key(node) in OF_REAL for node in _nodes(proto.graph)):
        return model
    try:
        typed = shape_inference.infer_shapes(proto)
    except shape_inference.InferenceError:  # ONNX Runtime names the fault
        return model
    if not _change(proto.graph, typed.graph, {}):
        return model
    if not any(one.domain in STANDARD for one in proto.opset_import):
        proto.opset_import.add(domain="", version=OPSET)
    return bytes(proto.SerializeToString(deterministic=True))


def _key(node: Any) -> tuple[str, str]:
    return "" if node.domain in STANDARD else str(node.domain), str(node.op_type)


def _nodes(graph: Any) -> list[Any]:
    """Return the nodes of a graph and of its subgraphs."""
    inner = [one.g for node in graph.node for one in node.attribute if one.HasField("g")]
    return [*graph.node, *(node for one in inner for node in _nodes(one))]


def _change(graph: Any, typed: Any, outer: dict[str, int]) -> bool:
    """Make int8 operands uint8; return whether there were any.

    typed : the graph with inferred types; outer : types of the values of outer graphs
    """
    known = [*typed.input, *typed.value_info, *typed.output]
    kinds = outer | {one.name: one.type.tensor_type.elem_type for one in known}
    kinds |= {one.name: one.data_type for one in graph.initializer}
    nodes, changed = [], False
    for node, same in zip(graph.node, typed.node, strict=True):
        for one, other in zip(node.attribute, same.attribute, strict=True):
            if one.HasField("g"):
                changed |= _change(one.g, other.g, kinds)
        for operand, zero in _signed_operands(node, kinds):
            changed = True
            for at in (operand, zero):
                nodes += _unsigned(graph, node, at)
        nodes.append(node)
    if changed:
        kept = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(kept)
    return changed


def _signed_operands(node: Any, kinds: dict[str, int]) -> list[Pair]:
    """Return the int8 operands of a node that it multiplies with uint8."""
    given = [kinds.get(name, 0) for name in node.input]
    key = _key(node)
    if key in OF_REAL:
        return [pair for pair in OF_REAL[key] if len(given) > pair[0] and given[pair[0]] == INT8]
    pairs = PRODUCTS.get(key, ())
    if not pairs or {given[operand] for operand, _ in pairs} != {UINT8, INT8}:
        return []
    return [pair for pair in pairs if given[pair[0]] == INT8]


def _unsigned(graph: Any, node: Any, at: int) -> list[Any]:
    """Let a node read an int8 input as uint8; return the nodes that convert it.

    at : position of the input; one that is not given is a zero point of 0
    """
    from onnx import helper, numpy_helper

    name = node.input[at] if at < len(node.input) else ""
    made = f"{node.output[0]}.{at}.unsigned"  # names of values are unique
    stored = {one.name: one for one in graph.initializer}
    node.input.extend([""] * (at + 1 - len(node.input)))
    node.input[at] = made
    if not name or name in stored:
        given = numpy_helper.to_array(stored[name]) if name else np.zeros((), np.int8)
        value = (given.astype(np.int16) + STEP).astype(np.uint8)
        graph.initializer.append(numpy_helper.from_array(value, made))
        return []
    step = numpy_helper.from_array(np.array(STEP, np.int32), f"{made}.step")
    graph.initializer.append(step)
    wide, above = f"{made}.wide", f"{made}.above"
    return [
        helper.make_node("Cast", [name], [wide], to=INT32),
        helper.make_node("Add", [wide, step.name], [above]),
        helper.make_node("Cast", [above], [made], to=UINT8),
    ]
