"""Quantisation and dequantisation at the inputs and outputs of quantised models, done by the
host."""

from __future__ import annotations

import numpy as np

from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import Dequantise, Host, Node, Quantise
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.binary import steps_of
from storage.formats.layers.onnxgraph import OnnxNode

QUANTISING = (("", 21),)  # opset with QuantizeLinear of 8 and 16 bits


def settle_inputs(graph: Graph) -> None:
    """Move quantisation of model inputs to the host if all users of an input quantise it
    equally."""
    for name, view in graph.inputs.items():
        users = graph.users(view.tensor)
        stored = [
            one.output
            for one in users
            if isinstance(one.operator, Quantise) and one.operator.levels is None
        ]
        if (
            stored
            and not graph.is_output(view.tensor)
            and len(stored) == len(users)
            and all(stored[0].same_scale(one) for one in stored)
        ):
            for node in users:
                graph.remove(node, stored[0])
            graph.inputs[name] = view._replace(tensor=stored[0])


def settle_host(graph: Graph) -> None:
    """Remove Dequantise nodes that only feed the host or model outputs: the host dequantises there.

    Numbers that the host itself quantised are rounded and stay real.
    """
    for node in graph.nodes_of(Dequantise):
        data, real = node.inputs[0], node.output
        maker = graph.maker(data, Quantise)
        if any(not isinstance(user.operator, Host) for user in graph.users(real)):
            continue
        if maker is not None:
            _round_on_host(graph, maker, node)
            continue
        graph.remove(node, data)


def _round_on_host(graph: Graph, quantise: Node, dequantise: Node) -> None:
    """Replace QuantizeLinear and DequantizeLinear by host nodes; cores may also read the integers.

    Names refer to values in the order of the tensor's axes; the ONNX order may differ.
    """
    from onnx import helper

    source, stored, real = quantise.inputs[0], quantise.output, dequantise.output
    steps = [(dequantise, "DequantizeLinear", source, real)]
    zero, levels = stored.zero_point, quantise.operator.levels  # type: ignore[attr-defined]
    if levels is None:
        rounded = Tensor(f"{stored.name}.rounded", stored.shape)
        steps = [
            (quantise, "QuantizeLinear", source, rounded),
            (dequantise, "DequantizeLinear", rounded, real),
        ]
    else:  # whole numbers from a model input or a host node
        (_, offset), *_ = steps_of(quantise)
        zero = -int(offset.reshape(()))
    sign = "" if zero == stored.zero_point else "u"
    whole, scale = np.array(zero, f"{sign}int{stored.bits}"), np.array(stored.scale, np.float32)
    at = graph.nodes.index(dequantise)
    made = []
    for node, kind, taken, result in steps:
        names = [f"{taken.name}.map", f"{result.name}.scale", f"{result.name}.zero_point"]
        proto = helper.make_node(kind, names, [f"{result.name}.map"], node.sources[0])
        views = [View(one, shape=one.shape, order=(0, 1, 2, 3)) for one in (taken, result)]
        kinds = (whole.dtype if kind == "DequantizeLinear" else scale.dtype, scale.dtype)
        operator = Host(
            OnnxNode(proto, {}), (views[0], scale, whole), (views[1],),
            "its result is not used on cores", QUANTISING, (*kinds, whole.dtype),
        )  # fmt: skip
        made.append(Node(operator, [taken], [result], node.sources))
    graph.nodes[at : at + 1] = made
    if not graph.users(stored) and not graph.is_output(stored):
        graph.nodes.remove(quantise)
