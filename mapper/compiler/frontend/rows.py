"""Layout of values of vectors, as transformers have them: each vector is a pixel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from mapper.compiler.ir.graph import View
from mapper.compiler.ir.tensor import Tensor
from storage.formats.layers.onnxgraph import Model, OnnxNode

ORDER = (0, 1, 2, 3)
MATRIX = {"MatMul": 1, "MatMulInteger": 1, "QLinearMatMul": 3}
"""Products of the vectors on the last axis and a matrix, with the index of the matrix."""
NORMS = {"LayerNormalization": 1, "SimplifiedLayerNormalization": 1, "iLayerNorm": 1}
"""Operators that normalise these vectors, with the index of a constant of their size."""
KEEPS_ORDER = frozenset(
    {"QuantizeLinear", "DequantizeLinear", "RequantShift", "Add", "Sub", "Mul", "Div", "Relu",
     "LeakyRelu", "Clip", "Gelu", "Sigmoid", "Tanh", "Erf", "Identity", "Dropout", "Cast",
     "Reshape", "Flatten", "Squeeze", "Unsqueeze"}
)  # fmt: skip
"""Operators that keep the order of the elements of their input."""
STORING = frozenset({"DequantizeLinear", "Cast", "Identity"})
"""Operators through which a node reads a constant of the same shape."""


def vector_size(model: Model, users: Mapping[str, Sequence[OnnxNode]], name: str) -> int | None:
    """Return the size of the vectors that the users of a value read; None for other values.

    users : nodes that read a value, by its name
    """
    seen, waiting = {name}, [name]
    while waiting:
        one = waiting.pop(0)
        for node in users.get(one, ()):
            if (size := _size_read(model, node, one)) is not None:
                return size
            made = {str(result) for result in node.proto.output} - seen
            if node.kind == "Add" or (node.kind in KEEPS_ORDER and node.proto.input[0] == one):
                seen |= made
                waiting += sorted(made)
    return None


def _size_read(model: Model, node: OnnxNode, name: str) -> int | None:
    place = MATRIX.get(node.kind, NORMS.get(node.kind))
    if place is None or node.proto.input[0] != name:
        return None
    constant = str(node.proto.input[place])
    while constant not in model.constants:
        maker = next((one for one in model.nodes if constant in one.proto.output), None)
        if maker is None or maker.kind not in STORING:
            return None
        constant = str(maker.proto.input[0])
    shape = model.constants[constant].shape
    least = 1 if node.kind in NORMS else 2
    return int(shape[-least]) if len(shape) >= least else None


def _first_axis(shape: Sequence[int], size: int) -> int | None:
    """Return the first of the last axes that hold several vectors of a size; None if none do."""
    axes = (n for n in range(1, len(shape)) if math.prod(shape[n:]) == size)
    return next((n for n in axes if math.prod(shape[:n]) > 1), None)


def scatters(view: View, size: int) -> bool:
    """Return whether the last axes of a value hold vectors of a size that are no pixels."""
    axis = _first_axis(view.shape, size)
    if axis is None:
        return False
    return axis != view._replace(shape=(*view.shape[:axis], size)).channel_axis


def vectors(name: str, shape: Sequence[int], size: int, others: Iterable[View]) -> View | None:
    """Return a view of a new tensor for a value of vectors, which its last axes hold.

    size : of a vector; others : existing views: with as many vectors, pixels have the same layout
    Returns None if the last axes do not hold vectors of this size.
    """
    shape = tuple(int(one) for one in shape)
    axes = _first_axis(shape, size)
    if axes is None or shape[0] != 1:
        return None
    for one in others:
        if one.shape[:-1] == shape[:axes] and one.channel_axis == axes:
            return View(Tensor(name, (*one.tensor.shape[:3], size)), one.order, shape)
    count = math.prod(shape[:axes])
    columns = next(one for one in range(math.isqrt(count), 0, -1) if count % one == 0)
    return View(Tensor(name, (1, count // columns, columns, size)), ORDER, shape)
