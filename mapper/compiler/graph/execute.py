"""Running a graph: what a node computes is in a table by the class of its operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.graph.graph import Graph, View
from mapper.compiler.graph.hosted import session_of, views_of
from mapper.compiler.graph.node import Host, Node, Operator, Slice
from mapper.compiler.graph.tensor import Tensor
from mapper.errors import MapperError
from storage.errors import BadInputError

Data = NDArray[Any]
Rule = Callable[[Node, list[Data]], Data | list[Data]]
"""What a node makes of its inputs: an array, or one for each output."""
Rules = Mapping[type[Operator], Rule]


def run_graph(
    graph: Graph, feeds: Mapping[Tensor, Data], rules: Rules, keep: Iterable[Tensor]
) -> dict[Tensor, Data]:
    """The data of some tensors, for those of the inputs, shape (frames, ...) each.

    What no node takes any more is let go.
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
            continue  # of the host, beside or behind all that is wanted
        taken = [
            tensor.value if tensor.value is not None else data[tensor] for tensor in node.inputs
        ]
        with np.errstate(over="ignore", invalid="ignore"):  # whoever reads them looks for both
            made = results(node, taken, rules, next(iter(feeds.values())).shape[0])
        data |= zip(node.outputs, made, strict=True)
        for tensor in node.inputs:
            if last[tensor] == at and tensor not in kept:
                data.pop(tensor, None)
    return {tensor: data[tensor] for tensor in kept}


def results(node: Node, taken: list[Data], rules: Rules, frames: int = 1) -> list[Data]:
    """What a node makes, an array for each output; of constants alone the same in all frames."""
    found = rules[type(node.operator)](node, taken)
    made = found if isinstance(found, list) else [found]
    return made if node.inputs else [np.repeat(one, frames, 0) for one in made]


def on_host(node: Node, inputs: list[Data]) -> list[Data]:
    """What a node of the host makes of real numbers, frame by frame: models have a batch of one."""
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
            raise MapperError(f"{operator.label}: {error}") from error
    return [
        np.concatenate([_stored(view, row[number], operator) for row in rows])
        for number, view in enumerate(operator.results)
    ]


def _stored(view: View, array: Data, operator: Host) -> Data:
    """One frame of a tensor; real numbers are float32."""
    if array.size != math.prod(view.shape):
        raise MapperError(
            f"{operator.label}: makes shape {array.shape} of one sample, {view.shape} of another; "
            "export the model without shapes that depend on data"
        )
    real = array.dtype.kind == "f"
    whole = (array.astype(np.float32) if real else array).reshape(view.ordered)
    return whole.transpose(np.argsort(view.order))


def concatenated(node: Node, inputs: list[Data]) -> Data:
    return np.concatenate(inputs, node.operator.axis)  # type: ignore[attr-defined]


def sliced(node: Node, inputs: list[Data]) -> Data:
    operator = node.operator
    assert isinstance(operator, Slice)
    size = node.output.shape[operator.axis]
    places = [slice(None)] * 4
    places[operator.axis] = slice(operator.first, operator.first + size)
    return inputs[0][tuple(places)]


def copied(node: Node, inputs: list[Data]) -> Data:
    return inputs[0]
