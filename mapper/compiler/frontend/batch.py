"""Rewrite models with a fixed batch for one sample, where their nodes permit it.

Both models are compared in ONNX Runtime to find the nodes that do not.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.errors import MapperError
from storage.budget import declared_bytes, require_room
from storage.formats.layers.onnxplain import plain_model
from storage.formats.layers.onnxruns import (
    SessionError,
    limited_memory,
    numpy_type,
    open_session,
    run_session,
)

SHAPES = {"Reshape": 1, "Expand": 1, "Resize": 3, "ConstantOfShape": 0}
"""Operators that read a shape, with the index of that input."""
DRAWN = 12  # bytes per element of random samples: float64, then the type of the input


def one_sample(model: Any, name: str, computed: Collection[str], memory: int) -> Any:
    """Return a model (`onnx.ModelProto`) for one sample in place of a fixed batch.

    name : input whose first axis is the batch; computed : operators that cores compute
    memory : bytes for a batch and its results
    For each sample, the new model must give the matching row of the batch in ONNX Runtime.
    Raises `MapperError` that names the node that needs the batch, `BadInputError` if the model does
    not run, `MemoryShortError` if it needs more memory.
    """
    (given,) = (one for one in model.graph.input if one.name == name)
    sizes = [one.dim_value for one in given.type.tensor_type.shape.dim]
    require_room(f"input {name!r} of shape {tuple(sizes)}", declared_bytes(sizes, DRAWN), memory)
    single = type(model)()
    single.CopyFrom(model)
    (given,) = (one for one in single.graph.input if one.name == name)
    batch = given.type.tensor_type.shape.dim[0]
    count, batch.dim_value = int(batch.dim_value), 1
    batched = _Batched(single, count)
    for node in single.graph.node:
        batched.shrink_shape(node, leading=True)
    with limited_memory(memory):
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


Array = NDArray[Any]
CLOSE = 1e-3
"""Relative to the largest number: difference between kernels for a batch and for one sample."""
OFF = 0.01  # share of elements that may differ more, for example by rounding


class Departure(NamedTuple):
    """The first node that prevents a model from running on one sample.

    fails : it does not run on one sample; otherwise its results differ
    """

    node: str
    fails: bool


def first_departure(whole: Any, single: Any, count: int) -> Departure | None:
    """Return the first node whose rows for a batch differ from its results for each sample, or
    None.

    whole, single : `onnx.ModelProto`, for `count` samples and for one
    Raises `BadInputError` if ONNX Runtime does not run the whole model.
    """
    ran = _Run(whole, count)
    sample = ran.sample()
    rows = dict.fromkeys((0, 1, count - 1))
    found: Departure | None = None
    for every in (False, True):  # compare all values only if the outputs differ
        made = ran.values(sample, every)
        try:
            alone = _Run(single, 1)
            each = {row: alone.values(sample[row : row + 1], every) for row in rows}
        except SessionError as error:
            return Departure(error.node, fails=True)
        departed = [
            name
            for name, value in made.items()
            if not all(_is_row(value, one[name], row, count) for row, one in each.items())
        ]
        if not departed:
            return found
        found = Departure(ran.makers[departed[0]], fails=False)
    return found


class _Run:
    """A copy of a model whose nodes all have names.

    makers : by value name, the names of the nodes that compute them, in order
    """

    def __init__(self, model: Any, count: int) -> None:
        self._model = type(model)()
        self._model.CopyFrom(model)
        graph = self._model.graph
        for node in graph.node:
            node.name = node.name or next(iter(node.output), "")
        self.makers = {name: node.name for node in graph.node for name in node.output if name}
        plain_model(self._model)
        constants = {one.name for one in graph.initializer}
        (self._input,) = (one for one in graph.input if one.name not in constants)
        self._input.type.tensor_type.shape.dim[0].dim_value = count

    def sample(self) -> Array:
        """Return random numbers that differ from row to row, the same in each run."""
        from onnx import helper

        given = self._input.type.tensor_type
        shape = [one.dim_value for one in given.shape.dim]
        kind = np.dtype(helper.tensor_dtype_to_np_dtype(given.elem_type))
        random = np.random.default_rng(0)
        if kind.kind == "f":
            return random.normal(size=shape).astype(kind)
        most = 2 if kind.itemsize > 1 or kind.kind == "b" else 100  # wide integers may be indices
        return random.integers(0, most, shape).astype(kind)

    def values(self, sample: Array, every: bool) -> dict[str, Array]:
        """Return the outputs, or all values of the model, by name in the order of the nodes."""
        from onnx import helper

        model = type(self._model)()
        model.CopyFrom(self._model)
        if every:
            known = {one.name for one in model.graph.output}
            more = [name for name in self.makers if name not in known]
            model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in more)
        data = model.SerializeToString()
        session = open_session(data, limited=True)
        names = [one.name for one in session.get_outputs()]
        for one in session.get_outputs():
            numpy_type(one.type)
        made = dict(zip(names, run_session(session, {self._input.name: sample}, data), strict=True))
        return {name: made[name] for name in self.makers if name in made}


def _is_row(whole: Array, alone: Array, row: int, count: int) -> bool:
    """Return whether a value for one sample is a row of the value for a batch, along any axis.

    Values that are equal for all samples also count.
    """
    if whole.shape == alone.shape and _close(whole, alone):
        return True
    if whole.ndim != alone.ndim:
        return False
    for axis, size in enumerate(alone.shape):
        others = [n for at, n in enumerate(whole.shape) if at != axis]
        if whole.shape[axis] == count * size and others == [
            n for at, n in enumerate(alone.shape) if at != axis
        ]:
            part = whole.take(range(row * size, (row + 1) * size), axis)
            if _close(part, alone):
                return True
    return False


def _close(a: Array, b: Array) -> bool:
    if a.dtype.kind not in "fiub" or not a.size:
        return bool((a == b).all())
    with np.errstate(invalid="ignore"):
        first, second = a.astype(np.float64), b.astype(np.float64)
        off = np.abs(first - second) > CLOSE * np.abs(first[np.isfinite(first)]).max(initial=1e-6)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return bool((off & ~same).mean() <= OFF)
