"""Graph under construction: adds nodes for cores, and nodes that the host computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.frontend.rows import vector_size, vectors
from mapper.compiler.ir.graph import CHANNELS_FIRST, Graph, View, four_axes
from mapper.compiler.ir.node import Host, Node, Operator
from mapper.compiler.ir.tensor import MOST_ELEMENTS, Tensor, constant
from mapper.compiler.numerics.execute import session_of
from mapper.errors import MapperError
from storage.formats.layers.onnxgraph import Model, OnnxNode

Value = NDArray[Any] | View
Evaluator = Callable[[OnnxNode, list[Any]], list[NDArray[Any]]]
"""Evaluates a node of constants."""


class GraphBuilder:
    """Graph of a model, and the values of its nodes so far.

    values : constants, and views of maps, by name
    types : element types of inputs and of results of the host, by name
    why : reason why the host computes the current node
    """

    def __init__(self, model: Model, evaluators: Mapping[str, Evaluator]) -> None:
        self.model = model
        self.evaluators = dict(evaluators)
        self.graph = Graph()
        self.values: dict[str, Value] = dict(model.constants)
        self.types: dict[str, np.dtype[Any]] = {}
        self.why = ""
        self._of_model: dict[str, str] = {}  # values of the model that host nodes make in part
        self._users: dict[str, list[OnnxNode]] = {}
        for node in model.nodes:
            for name in dict.fromkeys(node.proto.input):
                self._users.setdefault(str(name), []).append(node)

    @property
    def opsets(self) -> list[tuple[str, int]]:
        """Domains and versions of the operators."""
        return self.model.opsets

    def view(
        self, name: str, shape: Sequence[int], order: tuple[int, ...] = CHANNELS_FIRST
    ) -> View:
        """Return a view of a new tensor for an ONNX value of a given shape; missing axes are 1."""
        shape = tuple(int(size) for size in shape)
        if not 1 <= len(shape) <= 4:
            raise MapperError(f"{name!r} has {len(shape)} axes; cores take 1 to 4")
        require_size(name, shape)
        map_shape = [0, 0, 0, 0]
        for axis, size in zip(order, four_axes(shape), strict=True):
            map_shape[axis] = size
        return View(Tensor(name, tuple(map_shape)), order, shape)

    def _host_view(self, name: str, shape: Sequence[int], inputs: list[Any]) -> View:
        """Return a view of a host result with any number of axes, in the layout of its users, or
        else of an input of that shape.
        """
        require_size(name, shape)
        if (found := self.of_vectors(name, shape)) is not None:
            return found
        like = next((one for one in inputs if isinstance(one, View) and one.shape == shape), None)
        if like is not None and like.groups is not None and len(shape) > 2:
            return like._replace(tensor=Tensor(name, like.tensor.shape))
        if 1 <= len(shape) <= 4 and shape[0] == 1:
            return self.view(name, shape)
        tensor = Tensor(name, (1, 1, 1, math.prod(shape)))
        return View(tensor, CHANNELS_FIRST, tuple(int(size) for size in shape))

    def vector_size(self, name: str) -> int | None:
        """Return the size of the vectors that the users of a value read; None for others."""
        return vector_size(self.model, self._users, self._of_model.get(name, name))

    def of_vectors(self, name: str, shape: Sequence[int]) -> View | None:
        """Return a view of a new tensor if the users of a value read vectors on its last axes."""
        size = self.vector_size(name) if len(shape) > 2 else None
        others = (one for one in self.values.values() if isinstance(one, View))
        return None if size is None else vectors(name, shape, size, others)

    def add(
        self, operator: Operator, inputs: Sequence[Tensor], node: OnnxNode, shape: Sequence[int]
    ) -> View:
        """Add a graph node for an ONNX node whose value has the given ONNX shape."""
        made = self.view(str(node.proto.output[0]), shape)
        self.graph.nodes.append(Node(operator, list(inputs), [made.tensor], (node.name,)))
        return made

    def like(
        self, operator: Operator, inputs: Sequence[Tensor], node: OnnxNode, view: View
    ) -> View:
        """Add an elementwise node: the result has the shape and axis order of a view."""
        tensor = Tensor(str(node.proto.output[0]), view.tensor.shape)
        self.graph.nodes.append(Node(operator, list(inputs), [tensor], (node.name,)))
        return view._replace(tensor=tensor)

    def constant(self, node: OnnxNode, role: str, value: NDArray[Any]) -> Tensor:
        """Return a constant of a node; raise `MapperError` if it contains NaN or infinity."""
        if not np.isfinite(value).all():
            raise MapperError(
                f"NaN or infinite numbers in its {role}; train or export the model again"
            )
        return constant(f"{node.name}.{role}", value)

    def _evaluate(self, node: OnnxNode, inputs: list[Any], kept: bool = False) -> list[Any]:
        """Evaluate a node of constants, by ONNX or by an evaluator of an added operator."""
        evaluator = self.evaluators.get(node.kind)
        if evaluator is not None:
            return list(evaluator(node, inputs))
        return self.model.evaluate(node, inputs, kept)

    def host(
        self, kind: str, node: OnnxNode, inputs: list[Any], attributes: dict[str, Any],
        role: str = "real",
    ) -> View:  # fmt: skip
        """Add a host node with an ONNX operator in place of a node or a part of it; return its
        value.

        role : suffix of its name
        """
        from onnx import helper

        made = f"{node.proto.output[0]}.{role}"
        self._of_model[made] = str(node.proto.output[0])
        names: list[str] = []
        for at, one in enumerate(inputs):
            name = one.tensor.name if isinstance(one, View) else f"{node.name}.{role}.{at}"
            # several views of one tensor also need distinct names
            names.append("" if one is None else f"{name}.{at}" if name in names else name)
        proto = helper.make_node(kind, names, [made], node.name, **attributes)
        self._host(OnnxNode(proto, attributes), inputs)
        found = self.values[made]
        assert isinstance(found, View)
        return found

    def host_parts(self, node: OnnxNode, inputs: list[Any]) -> list[Value]:
        """All results of a node that the host computes."""
        self._host(node, inputs)
        return [self.values[str(name)] for name in node.proto.output]

    def _shapes_of(
        self, node: OnnxNode, inputs: list[Any]
    ) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Return shape and type of each result of a node, by shape inference or else by running it
        on zeros.
        """
        kinds = self._kinds(inputs)
        given = [
            (value.shape, kind) if isinstance(value, View) else value
            for value, kind in zip(inputs, kinds, strict=True)
        ]
        if found := self.model.inferred(node, given):
            return found
        made, other = (
            self._evaluate(node, [
                np.full(value.shape, number, kind) if isinstance(value, View) else value
                for value, kind in zip(inputs, kinds, strict=True)
            ])
            for number in (0, 1)
        )  # fmt: skip
        for first, second in zip(made, other, strict=True):
            if first.shape != second.shape:
                raise MapperError(
                    f"makes shape {first.shape} from zeros, {second.shape} from ones; export the "
                    "model without shapes that depend on data"
                )
        return [(array.shape, array.dtype) for array in made]

    def _kinds(self, inputs: list[Any]) -> list[np.dtype[Any]]:
        """Return the number types of a node's inputs; maps of cores are real, as wide as the other
        reals.
        """
        known = [
            self.types.get(one.tensor.name) if isinstance(one, View) else one.dtype
            for one in inputs
            if one is not None
        ]
        kinds = (kind for kind in known if kind is not None and kind.kind == "f")
        real = next(kinds, np.dtype(np.float32))
        return [
            self.types.get(one.tensor.name, real) if isinstance(one, View) else real
            for one in inputs
        ]

    def _host(self, node: OnnxNode, inputs: list[Any]) -> None:
        """Add a host node; its results have the shapes that zeros produce."""
        made = self._shapes_of(node, inputs)
        views = [
            self._host_view(str(name), shape, inputs)
            for name, (shape, _) in zip(node.proto.output, made, strict=False)
        ]
        self.types |= {str(n): kind for n, (_, kind) in zip(node.proto.output, made, strict=False)}
        operator = Host(
            node, tuple(inputs), tuple(views), self.why, tuple(self.opsets),
            tuple(self._kinds(inputs)),
        )  # fmt: skip
        session_of(operator)  # rejects operators without a kernel in ONNX Runtime
        taken = [value.tensor for value in inputs if isinstance(value, View)]
        self.graph.nodes.append(Node(operator, taken, [v.tensor for v in views], (node.name,)))
        self.values |= zip(node.proto.output, views, strict=False)


def require_size(name: str, shape: Sequence[int]) -> None:
    """Raise `MapperError` for a map without elements, or too large for any chip."""
    if 0 in shape:
        raise MapperError(f"{name!r} has shape {tuple(shape)}: no elements; nothing to compute")
    if math.prod(shape) > MOST_ELEMENTS:
        raise MapperError(
            f"{name!r} has shape {tuple(shape)}; maps have at most {MOST_ELEMENTS:,} elements"
        )
