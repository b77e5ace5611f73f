"""Verifier of graphs: order, producers, shapes, types, scales and views.

Like the verifier of LLVM (https://llvm.org/docs/LangRef.html#well-formedness), it checks rules that
hold between any two passes, without knowledge of the passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor
from mapper.errors import MapperError

Shape = tuple[int, ...]
SUMS = ("int32", "int64")
STORED = ("int8", "int16", "bits")
SAME_SHAPE = (
    op.Activation | op.Affine | op.Clamp | op.Copy | op.Dequantise | op.Function | op.Levels
    | op.Lookup | op.Quantise | op.Requantise | op.Sign | op.Threshold
)  # fmt: skip
SAME_SCALE = (
    op.Concat | op.Copy | op.DepthToSpace | op.Interleave | op.Unfold | op.Upsample
)  # fmt: skip
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
        if isinstance(node.operator, op.Host):
            continue
        if len(node.outputs) != 1:
            yield f"{node.label}: {len(node.outputs)} results"
            continue
        shapes = shapes_of(node)
        if shapes and node.output.shape not in shapes:
            expected = " or ".join(map(str, shapes))
            yield f"{node.label}: result {node.output.shape}, expected {expected}"
        for text in _types(node):
            yield f"{node.label}: {text}"


def shapes_of(node: Node) -> list[Shape]:
    """Return the possible shapes of a result; [()] if the inputs do not fit, [] if unknown."""
    data, *rest = node.inputs
    frames, height, width, channels = data.shape
    match node.operator:
        case op.Conv(window, groups):
            weights, *bias = rest
            outputs, *size, inputs = weights.shape
            fits = (*size,) == window.size and inputs * groups == channels
            fits &= all(one.shape == (outputs,) for one in bias)
            return [(1, *window.results(height, width), outputs)] if fits else [()]
        case op.Dense():
            weights, *bias = rest
            fits = weights.shape[1:] == data.shape[1:]
            fits &= all(one.shape == weights.shape[:1] for one in bias)
            return [(1, 1, 1, weights.shape[0])] if fits else [()]
        case op.Pool(window=window):  # whether partial windows count is not part of the operator
            sizes = (window.results(height, width, ceil) for ceil in (False, True))
            return [(1, *size, channels) for size in sizes]
        case op.Add():
            return [data.shape] if data.shape == rest[0].shape else [()]
        case op.Product():
            pixel = (1, 1, 1, channels)
            return [data.shape] if rest[0].shape in (data.shape, pixel) else [()]
        case op.Concat(axis):
            size_ = sum(one.shape[axis] for one in node.inputs)
            made = {_with(one.shape, axis, size_) for one in node.inputs}
            return [*made] if len(made) == 1 else [()]
        case op.Slice(axis, first):
            count = node.output.shape[axis]
            inside = first >= 0 and first + count <= data.shape[axis]
            return [_with(data.shape, axis, count)] if inside else [()]
        case op.Unfold(count):
            return [(frames, height, width * count, channels // count)]
        case op.Upsample(rows, columns):
            return [(frames, height * rows, width * columns, channels)]
        case op.DepthToSpace(rows, columns, groups):
            if channels % (rows * columns * groups):
                return [()]
            least = rows * (height - 1), columns * (width - 1)
            return [
                (frames, least[0] + below, least[1] + right, channels // (rows * columns))
                for below in range(1, rows + 1)
                for right in range(1, columns + 1)
            ]
        case op.Interleave(rows, columns):
            return [_interleaved(node, rows, columns)]
        case op.Windows(window) | op.WindowColumns(window):
            if isinstance(node.operator, op.WindowColumns):
                channels = -(-channels // 4) * 4
            return [(1, *window.results(height, width), math.prod(window.size) * channels)]
        case op.PadMap(pad):
            height, width = height + pad.top + pad.bottom, width + pad.left + pad.right
            return [(frames, height, width, channels)]
        case operator:
            return [data.shape] if isinstance(operator, SAME_SHAPE) else []


def _interleaved(node: Node, rows: int, columns: int) -> Shape:
    """Return the shape of the result of `Interleave`; () if the inputs do not fit."""
    if len(node.inputs) != rows * columns:
        return ()
    height = sum(one.height for one in node.inputs[::columns])
    width = sum(one.width for one in node.inputs[:columns])
    channels = node.inputs[0].channels
    for number, one in enumerate(node.inputs):
        row, column = divmod(number, columns)
        size = -(-(height - row) // rows), -(-(width - column) // columns)
        if one.shape != (1, *size, channels):
            return ()
    return (1, height, width, channels)


def _with(shape: Shape, axis: int, size: int) -> Shape:
    """Return a shape with another size of an axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])


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
        case op.Conv() | op.Dense() | op.Product() if whole != (made.type in SUMS):
            yield f"computes {made.type} from {data.type}"
        case _ if isinstance(operator, SAME_SCALE):
            for one in node.inputs:
                if not one.same_scale(made):
                    yield f"moves {_stored(one)} to {_stored(made)}"
        case op.Lookup(entries):
            sizes = {"int8": op.PAGES, "int16": op.PAGES + 1}
            if made.type not in sizes or len(entries) != sizes.get(data.type):
                yield f"looks up {data.type} in {len(entries)} entries of {made.type}"
            elif entries.min() < made.low or entries.max() > made.high:
                yield f"has entries outside {made.type}"
        case op.Slice() if data.type != made.type:
            yield f"takes {made.type} from {data.type}"
        case op.Clamp() if not data.same_scale(made):
            yield f"clips {_stored(data)} to {_stored(made)}"


def _stored(one: Tensor) -> str:
    return f"{one.type} of scale {one.scale:g} and zero point {one.zero_point}"
