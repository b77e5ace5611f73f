"""Verifier of graphs: order, producers, shapes, types, scales and views.

Like the verifier of LLVM (https://llvm.org/docs/LangRef.html#well-formedness), it checks rules that
hold between any two passes, without knowledge of the passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor
from mapper.errors import MapperError

Shape = tuple[int, ...]
SUMS = ("int32", "int64")
STORED = ("int8", "int16", "bits")
SAME_SHAPE = (
    op.Activation | op.Affine | op.Clamp | op.Copy | op.Dequantise | op.Levels | op.Quantise
    | op.Requantise | op.Sign | op.Threshold
)  # fmt: skip
MOVES = op.Concat | op.Copy | op.Unfold | op.Upsample
"""Operators whose results have the type and the scale of their inputs. A slice has its own scale:
parts of joined layers are quantised separately.
"""


def faults(graph: Graph) -> list[str]:
    """Return the violated rules of a graph, each with its node or tensor; [] if there are none."""
    found = [*_order(graph), *_tensors(graph), *_views(graph)]
    return found or list(_nodes(graph))


def require_sound(graph: Graph) -> None:
    """Raise `MapperError` if a graph violates a rule."""
    if found := faults(graph):
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise MapperError(
            f"{found[0]}{more}; this is a fault of mapper: please report it with the model"
        )


def _order(graph: Graph) -> Iterator[str]:
    """Check that every tensor is computed once, and before it is read."""
    known = {id(view.tensor) for view in graph.inputs.values()}
    for node in graph.nodes:
        for one in node.inputs:
            if one.value is None and id(one) not in known:
                yield f"{node.label}: reads {one.name!r} before it is computed"
        for one in node.outputs:
            if id(one) in known:
                yield f"{node.label}: computes {one.name!r} again"
            if one.value is not None:
                yield f"{node.label}: computes the constant {one.name!r}"
            known.add(id(one))
    for name, view in graph.outputs.items():
        if view.tensor.value is None and id(view.tensor) not in known:
            yield f"output {name!r}: no node computes {view.tensor.name!r}"


def _tensors(graph: Graph) -> Iterator[str]:
    for one in graph.tensors():
        if one.value is not None:
            if one.value.shape != one.shape:
                yield f"constant {one.name!r}: shape {one.shape}, values {one.value.shape}"
        elif len(one.shape) != 4 or one.shape[0] != 1:
            yield f"map {one.name!r}: shape {one.shape} is not (1, rows, columns, channels)"
        if not (math.isfinite(one.scale) and one.scale > 0):
            yield f"tensor {one.name!r}: scale {one.scale}"
        if one.type in ("int8", "int16") and not one.low <= one.zero_point <= one.high:
            yield f"tensor {one.name!r}: zero point {one.zero_point} is outside its type"


def _views(graph: Graph) -> Iterator[str]:
    """Check that views have as many elements as their tensors."""
    views = [*graph.inputs.items(), *graph.outputs.items()]
    for node in graph.nodes:
        if isinstance(node.operator, op.Host):
            of_host = (*node.operator.given, *node.operator.results)
            views += [(node.label, one) for one in of_host if isinstance(one, View)]
            given = [one.tensor for one in node.operator.given if isinstance(one, View)]
            if any(all(one is not tensor for tensor in node.inputs) for one in given):
                yield f"{node.label}: views other tensors than its inputs"
    for name, view in views:
        if sorted(view.order) != list(range(len(view.tensor.shape))):
            yield f"{name}: the order {view.order} is no permutation of axes"
        elif math.prod(view.shape) != math.prod(view.tensor.shape):
            yield f"{name}: view {view.shape} of a tensor {view.tensor.shape}"


def _nodes(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        operator = node.operator
        if isinstance(operator, op.Host):
            continue
        if len(node.outputs) != 1:
            yield f"{node.label}: {len(node.outputs)} results"
            continue
        if isinstance(operator, SAME_SHAPE):
            shapes: list[Shape] = [node.inputs[0].shape]
        else:
            check = _SHAPES.get(type(operator))
            shapes = [] if check is None else check(node, operator)
        if shapes and node.output.shape not in shapes:
            expected = " or ".join(map(str, shapes))
            yield f"{node.label}: result {node.output.shape}, expected {expected}"
        for text in _types(node):
            yield f"{node.label}: {text}"


def _conv(node: Node, operator: op.Conv) -> list[Shape]:
    data, weights, *bias = node.inputs
    rows, columns = operator.window.results(data.height, data.width)
    outputs, *size, inputs = weights.shape
    fits = (*size,) == operator.window.size and inputs * operator.groups == data.channels
    fits &= all(one.shape == (outputs,) for one in bias)
    return [(1, rows, columns, outputs)] if fits else [()]


def _dense(node: Node, _: op.Dense) -> list[Shape]:
    data, weights, *bias = node.inputs
    fits = weights.shape[1:] == data.shape[1:]
    fits &= all(one.shape == weights.shape[:1] for one in bias)
    return [(1, 1, 1, weights.shape[0])] if fits else [()]


def _pool(node: Node, operator: op.Pool) -> list[Shape]:
    """Return both sizes: whether partial windows count is not part of the operator."""
    (data,) = node.inputs
    sizes = (operator.window.results(data.height, data.width, ceil) for ceil in (False, True))
    return [(1, *size, data.channels) for size in sizes]


def _add(node: Node, _: op.Add) -> list[Shape]:
    first, second = node.inputs
    return [first.shape] if first.shape == second.shape else [()]


def _concat(node: Node, operator: op.Concat) -> list[Shape]:
    first = node.inputs[0].shape
    size = sum(one.shape[operator.axis] for one in node.inputs)
    rest = {(*one.shape[: operator.axis], *one.shape[operator.axis + 1 :]) for one in node.inputs}
    made = (*first[: operator.axis], size, *first[operator.axis + 1 :])
    return [made] if len(rest) == 1 else [()]


def _slice(node: Node, operator: op.Slice) -> list[Shape]:
    axis, data, made = operator.axis, node.inputs[0].shape, node.output.shape
    inside = operator.first >= 0 and operator.first + made[axis] <= data[axis]
    return [(*data[:axis], made[axis], *data[axis + 1 :])] if inside else [()]


def _unfold(node: Node, operator: op.Unfold) -> list[Shape]:
    frames, rows, columns, channels = node.inputs[0].shape
    return [(frames, rows, columns * operator.count, channels // operator.count)]


def _upsample(node: Node, operator: op.Upsample) -> list[Shape]:
    frames, rows, columns, channels = node.inputs[0].shape
    return [(frames, rows * operator.rows, columns * operator.columns, channels)]


def _windows(node: Node, operator: op.Windows | op.WindowColumns) -> list[Shape]:
    data = node.inputs[0]
    channels = data.channels
    if isinstance(operator, op.WindowColumns):
        channels = -(-channels // 4) * 4
    rows, columns = operator.window.results(data.height, data.width)
    return [(1, rows, columns, math.prod(operator.window.size) * channels)]


def _padded(node: Node, operator: op.PadMap) -> list[Shape]:
    frames, rows, columns, channels = node.inputs[0].shape
    pad = operator.pad
    return [(frames, rows + pad.top + pad.bottom, columns + pad.left + pad.right, channels)]


_SHAPES: dict[type, Callable[[Node, Any], list[Shape]]] = {
    op.Conv: _conv, op.Dense: _dense, op.Pool: _pool, op.Add: _add, op.Concat: _concat,
    op.Slice: _slice, op.Unfold: _unfold, op.Upsample: _upsample, op.Windows: _windows,
    op.WindowColumns: _windows, op.PadMap: _padded,
}  # fmt: skip
"""Functions that return the possible shapes of the result; [()] if the inputs do not fit."""


def _types(node: Node) -> Iterator[str]:
    operator, data, made = node.operator, node.inputs[0], node.output
    whole = data.type != "float32"
    match operator:
        case op.Requantise() | op.Threshold() if not whole or made.type not in STORED:
            yield f"converts {data.type} to {made.type}"
        case op.Quantise() if whole or made.type not in STORED:
            yield f"converts {data.type} to {made.type}"
        case op.Dequantise() if not whole or made.type != "float32":
            yield f"converts {data.type} to {made.type}"
        case op.Conv() | op.Dense() if whole != (made.type in SUMS):
            yield f"computes {made.type} from {data.type}"
        case _ if isinstance(operator, MOVES):
            for one in node.inputs:
                if not one.same_scale(made):
                    yield f"moves {_stored(one)} to {_stored(made)}"
        case op.Slice() if data.type != made.type:
            yield f"takes {made.type} from {data.type}"
        case op.Clamp() if not data.same_scale(made):
            yield f"clips {_stored(data)} to {_stored(made)}"


def _stored(one: Tensor) -> str:
    return f"{one.type} of scale {one.scale:g} and zero point {one.zero_point}"
