"""Where integers begin and end in a model that is quantised: what the host does itself."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mapper.compiler.graph.graph import Graph, View
from mapper.compiler.graph.node import Dequantise, Host, Node, Quantise
from mapper.compiler.graph.tensor import Tensor
from storage.formats.layers.onnxgraph import Node as OnnxNode

QUANTISING = 21  # opset with QuantizeLinear of 8 and 16 bits


def settle_inputs(graph: Graph) -> None:
    """The host quantises what the model does with its inputs first."""
    for name, view in graph.inputs.items():
        users = graph.users(view.tensor)
        stored = [one.output for one in users if isinstance(one.operator, Quantise)]
        if (
            stored
            and len(stored) == len(users)
            and all(stored[0].same_scale(one) for one in stored)
        ):
            for node in users:
                graph.remove(node, stored[0])
            graph.inputs[name] = view._replace(tensor=stored[0])


def settle_host(graph: Graph) -> None:
    """The host dequantises what its nodes and the user take: it needs no nodes for that. Numbers
    that it quantises for itself are rounded so, and stay real."""
    for node in [one for one in graph.nodes if isinstance(one.operator, Dequantise)]:
        data, real = node.inputs[0], node.output
        maker = graph.maker(data)
        if any(not isinstance(user.operator, Host) for user in graph.users(real)):
            continue
        if maker is not None and isinstance(maker.operator, Quantise):
            if graph.only_user(data) is node:
                _round_on_host(graph, maker, node)
            continue
        graph.remove(node, data)
        for user in graph.nodes:
            if isinstance(user.operator, Host):
                given = tuple(_seen(one, real, data) for one in user.operator.given)
                user.operator = replace(user.operator, given=given)


def _seen(value: Any, real: Tensor, data: Tensor) -> Any:
    same = isinstance(value, View) and value.tensor is real
    return value._replace(tensor=data) if same else value


def _round_on_host(graph: Graph, quantise: Node, dequantise: Node) -> None:
    """Real numbers as they are after QuantizeLinear and DequantizeLinear."""
    from onnx import helper

    source, stored, real = quantise.inputs[0], quantise.output, dequantise.output
    zero = np.array(stored.zero_point, np.int8 if stored.bits == 8 else np.int16)
    scale = np.array(stored.scale, np.float32)
    for node, kind, taken, made in (
        (quantise, "QuantizeLinear", source, stored),
        (dequantise, "DequantizeLinear", stored, real),
    ):
        constants = [f"{made.name}.scale", f"{made.name}.zero_point"]
        proto = helper.make_node(kind, [taken.name, *constants], [made.name], node.sources[0])
        onnx_node = OnnxNode(proto, {})
        views = [View(one, shape=(1, *one.shape[1:]), order=(0, 1, 2, 3)) for one in (taken, made)]
        given = (views[0], scale, zero)
        why = "its result goes to no core"
        evaluate = partial(_rounded, kind, given)
        takes = zero.dtype if taken is stored else scale.dtype
        kinds = (takes, scale.dtype, zero.dtype)
        node.operator = Host(onnx_node, given, (views[1],), why, evaluate, QUANTISING, kinds=kinds)
        node.inputs = [taken]
    stored.type, stored.stored = "float32", False


def _rounded(kind: str, given: tuple[Any, ...], inputs: list[Any]) -> list[Any]:
    data, (_, scale, zero) = inputs[0], given
    if kind == "DequantizeLinear":
        return [(np.asarray(data, np.float32) - np.float32(zero)) * scale]
    ends = np.iinfo(zero.dtype)
    return [np.clip(np.rint(data / scale) + zero, ends.min, ends.max).astype(zero.dtype)]
