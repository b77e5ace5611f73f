"""Graph execution by the rule of an arithmetic.

Nodes of the host are single-node models that ONNX Runtime runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import Host, Node
from mapper.compiler.ir.tensor import Tensor
from mapper.errors import HostNodeError, MapperError
from storage.errors import BadInputError
from storage.formats.layers.onnxruns import NodeSession, model_of_node

Data = NDArray[Any]
Rule = Callable[[Node, list[Data]], Data | list[Data]]
"""Computes a node from its inputs: returns an array, or one per output."""


def run_graph(
    graph: Graph, feeds: Mapping[Tensor, Data], rule: Rule, keep: Iterable[Tensor]
) -> dict[Tensor, Data]:
    """Run a graph and return the data of some tensors, shape (frames, ...) each.

    Intermediate data is released after its last use.
    """
    kept = dict.fromkeys(keep)
    last = {tensor: at for at, node in enumerate(graph.nodes) for tensor in node.inputs}
    wanted = set(kept) - feeds.keys()
    for node in reversed(graph.nodes):
        if wanted & set(node.outputs):
            wanted |= set(node.inputs) - feeds.keys()
    data: dict[Tensor, Data] = dict(feeds)
    for at, node in enumerate(graph.nodes):
        missing = kept.keys() - data.keys()
        if not missing:
            break
        if not wanted & set(node.outputs):
            continue  # host nodes that no requested tensor depends on
        taken = [
            tensor.value if tensor.value is not None else data[tensor] for tensor in node.inputs
        ]
        with np.errstate(over="ignore", invalid="ignore"):  # callers check for both
            made = results(node, taken, rule, next(iter(feeds.values())).shape[0])
        data |= zip(node.outputs, made, strict=True)
        for tensor in node.inputs:
            if last[tensor] == at and tensor not in kept:
                data.pop(tensor, None)
    return {tensor: data[tensor] for tensor in kept}


def results(node: Node, taken: list[Data], rule: Rule, frames: int = 1) -> list[Data]:
    """Return the outputs of a node; nodes with constant inputs only are repeated for all frames."""
    found = rule(node, taken)
    made = found if isinstance(found, list) else [found]
    return made if node.inputs else [np.repeat(one, frames, 0) for one in made]


def run_chain(
    nodes: Iterable[Node], given: Callable[[Tensor], Data], rule: Rule, frames: int = 1
) -> list[Data]:
    """Run nodes in sequence; return the outputs of the last one.

    given : returns the data of a tensor that none of them computes
    """
    data: dict[Tensor, Data] = {}
    made: list[Data] = []
    for node in nodes:
        taken = [
            one.value if one.value is not None else data[one] if one in data else given(one)
            for one in node.inputs
        ]
        made = results(node, taken, rule, frames)
        data |= zip(node.outputs, made, strict=True)
    return made


def on_host(node: Node, inputs: list[Data]) -> list[Data]:
    """Run a host node on real numbers, frame by frame, as models have a batch size of one."""
    operator = node.operator
    assert isinstance(operator, Host)
    session = session_of(operator)
    rows = []
    for at in range(inputs[0].shape[0] if inputs else 1):
        data = iter(inputs)
        given = {name: one.frame(next(data)[at : at + 1]) for name, one in views_of(operator)}
        try:
            rows.append(session.run(given))
        except BadInputError as error:
            raise HostNodeError(f"{operator.label}: {error}") from error
    return [
        np.concatenate([_stored(view, row[number], operator) for row in rows])
        for number, view in enumerate(operator.results)
    ]


def _stored(view: View, array: Data, operator: Host) -> Data:
    """Return the data of a tensor for one frame; real numbers are float32."""
    if array.size != math.prod(view.shape):
        raise MapperError(
            f"{operator.label}: output shape depends on data ({array.shape} for one sample, "
            f"{view.shape} for another); export the model with fixed shapes"
        )
    real = array.dtype.kind == "f"
    whole = (array.astype(np.float32) if real else array).reshape(view.ordered)
    return whole.transpose(np.argsort(view.order))


def moved(node: Node, inputs: list[Data]) -> Data:
    """Return the result of a node that only moves numbers."""
    match node.operator:
        case op.Concat(axis):
            return np.concatenate(inputs, axis)
        case op.Slice(axis, first):
            part = slice(first, first + node.output.shape[axis])
            return inputs[0][(*[slice(None)] * axis, part)]
        case op.Copy():
            return inputs[0]
        case op.Unfold():
            return inputs[0].reshape(len(inputs[0]), *node.output.shape[1:])
        case op.Upsample(rows, columns):
            return inputs[0].repeat(rows, 1).repeat(columns, 2)
        case op.DepthToSpace(rows, columns, groups):
            frames, height, width = inputs[0].shape[:3]
            split = inputs[0].reshape(frames, height, width, groups, rows, columns, -1)
            made = split.transpose(0, 1, 4, 2, 5, 3, 6)
            whole = made.reshape(frames, height * rows, width * columns, -1)
            return whole[:, : node.output.height, : node.output.width]
        case op.Interleave(rows, columns):
            whole = np.empty((len(inputs[0]), *node.output.shape[1:]), inputs[0].dtype)
            for number, one in enumerate(inputs):
                row, column = node.operator.phase(number)
                whole[:, row::rows, column::columns] = one
            return whole
    raise TypeError(f"no rule computes {node.label}")


MOST_FRAMES = 16
MOST_NUMBERS = 1 << 26  # elements of all tensors of a graph together


def batches(graph: Graph, feeds: Mapping[Tensor, Data]) -> Iterator[tuple[int, dict[Tensor, Data]]]:
    """Yield the first frame of each batch, and the data of its frames."""
    numbers = sum(math.prod(one.shape) for one in graph.tensors() if one.value is None)
    step = min(max(MOST_NUMBERS // max(numbers, 1), 1), MOST_FRAMES)
    frames = next(iter(feeds.values())).shape[0]
    for at in range(0, frames, step):
        yield at, {tensor: data[at : at + step] for tensor, data in feeds.items()}


_sessions: WeakKeyDictionary[Host, NodeSession] = WeakKeyDictionary()


def views_of(operator: Host) -> list[tuple[str, View]]:
    """Return the non-constant inputs of a node with their names, in order."""
    pairs = zip(operator.node.proto.input, operator.given, strict=True)
    return [(name, one) for name, one in pairs if isinstance(one, View)]


def model_of(operator: Host, any_shape: bool = False) -> bytes:
    """Return a node as a serialised model with constants; any_shape : leave input shapes open"""
    pairs = list(zip(operator.node.proto.input, operator.given, strict=True))
    constants = {name: one for name, one in pairs if isinstance(one, np.ndarray)}
    inputs = {
        name: (operator.kind(number), None if any_shape else one.shape)
        for number, (name, one) in enumerate(pairs)
        if isinstance(one, View)
    }
    return model_of_node(operator.node.proto, inputs, constants, operator.opsets)


def session_of(operator: Host) -> NodeSession:
    """Return the session of a node, which is cached."""
    found = _sessions.get(operator)
    if found is None:
        found = _sessions[operator] = NodeSession(model_of(operator))
    return found
