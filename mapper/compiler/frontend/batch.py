"""Rewrite models with a fixed batch for one sample, where their nodes permit it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.frontend.rows import Departure, first_departure
from mapper.errors import MapperError

SHAPES = {"Reshape": 1, "Expand": 1, "Resize": 3, "ConstantOfShape": 0}
"""Operators that read a shape, with the index of that input."""


def one_sample(model: Any, name: str, computed: Collection[str]) -> Any:
    """Return a model (`onnx.ModelProto`) for one sample in place of a fixed batch.

    name : input whose first axis is the batch; computed : operators that cores compute
    For each sample, the new model must give the matching row of the batch in ONNX Runtime.
    Raises `MapperError` that names the node that needs the batch, `BadInputError` if the model does
    not run.
    """
    single = type(model)()
    single.CopyFrom(model)
    (given,) = (one for one in single.graph.input if one.name == name)
    batch = given.type.tensor_type.shape.dim[0]
    count, batch.dim_value = int(batch.dim_value), 1
    batched = _Batched(single, count)
    for node in single.graph.node:
        batched.shrink_shape(node, leading=True)
    while (found := first_departure(model, single, count)) is not None:
        node = next((one for one in single.graph.node if _name(one) == found.node), None)
        if node is None or not (batched.shrink_shape(node) or batched.shrink_constants(node)):
            raise MapperError(_refusal(name, count, node, found, computed))
    return single


def _refusal(name: str, count: int, node: Any, found: Departure, computed: Collection[str]) -> str:
    about = f"input {name!r} has a batch of {count}"
    advice = "export the model for a batch of 1"
    if node is None:
        return f"{about}, and does not run on one sample; {advice}"
    label = f"node {_name(node)!r} ({node.op_type})"
    if node.op_type not in computed and not found.fails:
        return (
            f"{label}: no core computes {node.op_type}, which mixes samples along axis 0 of "
            f"{name!r}"
        )
    does = "does not run on one sample" if found.fails else "needs the whole batch"
    return f"{about}, and {label} {does}; {advice}"


def _name(node: Any) -> str:
    return str(node.name or next(iter(node.output), ""))


class _Batched:
    """A model and its constants, some of which contain the batch size.

    Each node input is replaced at most once, by a constant used only by that node.
    """

    def __init__(self, model: Any, count: int) -> None:
        from onnx import helper, numpy_helper

        self._graph, self._count = model.graph, count
        self._known: dict[str, NDArray[Any]] = {
            one.name: numpy_helper.to_array(one) for one in model.graph.initializer
        }
        for node in model.graph.node:
            if node.op_type == "Constant" and node.attribute:
                value = helper.get_attribute_value(node.attribute[0])
                held = node.attribute[0].name
                if held == "value":
                    self._known[node.output[0]] = numpy_helper.to_array(value)
                elif held == "value_ints":
                    self._known[node.output[0]] = np.asarray(value, np.int64)
        self._done: set[tuple[str, int]] = set()

    def shrink_shape(self, node: Any, leading: bool = False) -> bool:
        """Replace the batch size in a constant shape that a node reads; return whether it had one.

        leading : replace it only where it is the first size
        """
        place = SHAPES.get(node.op_type, -1)
        if not 0 <= place < len(node.input) or (_name(node), place) in self._done:
            return False
        shape = self._known.get(node.input[place])
        if shape is None or shape.ndim != 1 or shape.dtype.kind != "i" or not shape.size:
            return False
        made = shape.copy()
        at = np.flatnonzero(shape == self._count)
        if shape[0] == self._count:
            made[0] = 1
        elif leading:
            return False
        elif at.size:
            made[at[0]] = 1
        elif shape[0] > 0 and shape[0] % self._count == 0:
            made[0] //= self._count
        else:
            return False
        self._put(node, place, made)
        return True

    def shrink_constants(self, node: Any) -> bool:
        """Keep one row of a node's constants whose rows are all equal; return whether one was
        shrunk.
        """
        for place, name in enumerate(node.input):
            value = self._known.get(name)
            if value is None or (_name(node), place) in self._done:
                continue
            for axis, size in enumerate(value.shape):
                first = value.take([0], axis) if size == self._count else None
                if first is not None and (value == first).all():
                    self._put(node, place, first)
                    return True
        return False

    def _put(self, node: Any, place: int, value: NDArray[Any]) -> None:
        from onnx import numpy_helper

        name = f"{_name(node)}.one_sample.{place}"
        self._graph.initializer.append(numpy_helper.from_array(value, name))
        node.input[place] = name
        self._done.add((_name(node), place))
