"""The compiler's graph: nodes in order of execution."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import UnionType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.node import Host, Node, Operator
from mapper.compiler.ir.tensor import Tensor

Kind = type[Operator] | UnionType | tuple[type[Operator], ...]
"""Operators that `isinstance` accepts."""
CHANNELS_FIRST = (0, 3, 1, 2)
"""Axes of a feature map in ONNX order: frames, channels, rows, columns."""


class View(NamedTuple):
    """An ONNX value: a tensor with permuted axes, which is then reshaped.

    Transposing and flattening thus move no data: they only change the view.
    """

    tensor: Tensor
    order: tuple[int, ...] = CHANNELS_FIRST
    shape: tuple[int, ...] = ()

    @property
    def ordered(self) -> tuple[int, ...]:
        """The shape before reshaping."""
        return tuple(self.tensor.shape[axis] for axis in self.order)

    @property
    def whole(self) -> bool:
        """True if reshaping only adds or removes axes of size 1."""
        return _wide(self.shape) == _wide(self.ordered)

    @property
    def aligned(self) -> bool:
        """True if frames, channels, rows and columns are on the axes of the ONNX convention; with
        three axes the last one holds the columns."""
        return self.order == CHANNELS_FIRST and four_axes(self.shape) == self.ordered

    @property
    def groups(self) -> tuple[tuple[int, ...], ...] | None:
        """Axes of the tensor that each axis of the value merges; the axis of frames is in none.

        None if an axis of the tensor is split, or frames are not on the first axis.
        """
        if self.order[0] or self.shape[:1] != (1,):
            return None
        rest, found = list(self.order[1:]), []
        for size in self.shape[1:]:
            group, count = [], 1
            while count < size and rest:
                count *= self.tensor.shape[rest[0]]
                group.append(rest.pop(0))
            if count != size:
                return None
            found.append(tuple(group))
        if not found or any(self.tensor.shape[axis] > 1 for axis in rest):
            return None
        return (*found[:-1], (*found[-1], *rest))

    @property
    def channel_axis(self) -> int | None:
        """The axis of the value that holds the channels and nothing else; None without one."""
        for at, group in enumerate(self.groups or (), 1):
            if self.shape[at] == self.tensor.channels and 3 in group:
                return at
        return None

    def array(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return a tensor's data, shape (frames, rows, columns, channels), in the ONNX layout."""
        return stored.transpose(self.order).reshape(stored.shape[0], *self.shape[1:])

    def frame(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return one frame in the ONNX layout; the batch need not be its first axis."""
        return stored.transpose(self.order).reshape(self.shape)

    def stored(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the tensor's data from an array in the ONNX layout; the inverse of `array`."""
        frames = array.shape[0] * math.prod(self.shape[:1]) // max(1, self.shape[0])
        whole = array.reshape(frames, *self.ordered[1:])
        return whole.transpose(np.argsort(self.order))


def four_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the frames, channels, rows and columns of an ONNX value of 1 to 4 axes."""
    match shape:
        case (size,):
            return (1, size, 1, 1)
        case (frames, channels, columns):
            return (frames, channels, 1, columns)
        case _:
            return (*shape, 1, 1)[:4]


def _wide(shape: Iterable[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


class Graph:
    """Nodes in topological order, and the tensors between them.

    inputs, outputs : views by name in the model
    left_out : names of nodes that only rename results, or that no output depends on
    notes : assumptions to report to the user
    constant_scales : tensors whose scales make layers constant, each of which has a note
    folded : constant-folded nodes: kind, and bytes of their results, by name
    quantised : constants that the model stores as integers, by the tensor of their real numbers
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.inputs: dict[str, View] = {}
        self.outputs: dict[str, View] = {}
        self.left_out: list[str] = []
        self.notes: list[str] = []
        self.constant_scales: set[Tensor] = set()
        self.folded: dict[str, tuple[str, int]] = {}
        self.quantised: dict[Tensor, Any] = {}

    def users(self, tensor: Tensor) -> list[Node]:
        """Return the nodes that use a tensor, in order."""
        return [node for node in self.nodes if tensor in node.inputs]

    def nodes_of(self, kind: Kind) -> list[Node]:
        """Return the nodes with operators of a kind, in order."""
        return [node for node in self.nodes if isinstance(node.operator, kind)]

    def maker(self, tensor: Tensor, kind: Kind = Operator) -> Node | None:
        """Return the node of a kind that computes a tensor; None for inputs and constants."""
        found = next((node for node in self.nodes if tensor in node.outputs), None)
        return found if found is not None and isinstance(found.operator, kind) else None

    def is_output(self, tensor: Tensor) -> bool:
        return any(view.tensor is tensor for view in self.outputs.values())

    def only_user(self, tensor: Tensor, kind: Kind = Operator) -> Node | None:
        """Return the only node that uses a tensor if it is of a kind; model outputs count as
        uses."""
        users = self.users(tensor)
        only = len(users) == 1 and not self.is_output(tensor)
        return users[0] if only and isinstance(users[0].operator, kind) else None

    def remove(self, node: Node, instead: Tensor) -> None:
        """Remove a node; uses of its result are replaced by another tensor."""
        self.nodes.remove(node)
        self.replace(node.output, instead)

    def replace(self, tensor: Tensor, instead: Tensor) -> None:
        """Replace all uses of a tensor by another one."""
        for node in self.nodes:
            take_instead(node, tensor, instead)
        self.outputs = {
            name: view._replace(tensor=instead) if view.tensor is tensor else view
            for name, view in self.outputs.items()
        }

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Restore the nodes with their operators and inputs, and where maps are stored, at exit."""
        nodes = [(node, node.operator, list(node.inputs)) for node in self.nodes]
        kept = [(one, one.stored, one.address, one.planes) for one in self.tensors()]
        try:
            yield
        finally:
            self.nodes = [node for node, _, _ in nodes]
            for node, operator, inputs in nodes:
                node.operator, node.inputs = operator, inputs
            for one, stored, address, planes in kept:
                one.stored, one.address, one.planes = stored, address, planes

    def tensors(self) -> Iterator[Tensor]:
        """Yield every tensor once, in order of computation; constants before their users."""
        seen: set[int] = set()
        inputs = (view.tensor for view in self.inputs.values())
        for tensor in (*inputs, *(t for node in self.nodes for t in (*node.inputs, *node.outputs))):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield tensor


def take_instead(node: Node, tensor: Tensor, instead: Tensor) -> None:
    """Replace a tensor in a node's inputs; host nodes keep their view."""
    node.inputs = [instead if one is tensor else one for one in node.inputs]
    if isinstance(node.operator, Host):
        given = tuple(
            one._replace(tensor=instead) if isinstance(one, View) and one.tensor is tensor else one
            for one in node.operator.given
        )
        if any(a is not b for a, b in zip(given, node.operator.given, strict=True)):
            node.operator = replace(node.operator, given=given)


def part_of(nodes: Sequence[Node], results: Sequence[Tensor]) -> Graph:
    """Return a graph of some nodes, whose inputs are the maps that none of them computes."""
    graph = Graph()
    graph.nodes = [
        Node(node.operator, list(node.inputs), list(node.outputs), node.sources) for node in nodes
    ]
    made = {tensor for node in nodes for tensor in node.outputs}
    inputs = (tensor for node in nodes for tensor in node.inputs)
    graph.inputs = {
        tensor.name: View(tensor, shape=tensor.shape)
        for tensor in inputs
        if tensor.value is None and tensor not in made
    }
    graph.outputs = {tensor.name: View(tensor, shape=tensor.shape) for tensor in results}
    return graph
