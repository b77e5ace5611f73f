"""Compare a model with a fixed batch and the same model for one sample in ONNX Runtime."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.formats.layers.onnxplain import plain_model
from storage.formats.layers.onnxruns import SessionError, numpy_type, open_session, run_session

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
        session = open_session(data)
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
