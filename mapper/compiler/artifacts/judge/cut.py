"""A model in ONNX Runtime, cut where the cores store maps.

Nodes that read a value stored by the cores get the stored data. So each layer is checked
separately, and a fault shows in the layer that causes it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.artifacts.judge.integers import Integers, computed_by
from storage.formats.layers.onnxplain import names_made, plain_model
from storage.formats.layers.onnxruns import open_session, run_session

Array = NDArray[Any]
ROUNDED = 2.0**-20
"""Relative to the largest number before quantisation: error of float32 sums."""
SIGN_STEP = 2.0**-10
"""Step at a sign, relative to the largest number before it: float32 sums have an error."""
WEIGHTS = 2.0**-8
"""Relative to the largest number: error of a layer before a sign, of weights rounded to 8 bits."""
LAYERS = {"Conv": (0,), "Gemm": (0, 1), "MatMul": (0, 1)}
"""Axes of the weights that may be axes of the results."""
GIVEN = ".of the cores"  # suffix of values given in place of the model's own


class CutModel:
    """A model, cut at some of its values.

    values : requested values that the model has
    input : name of its input
    first : results of the uncut model for a sample
    signed : values computed by Sign
    integers : which values result from integers alone
    signs : possible signs of zero: 0 as in ONNX, and +1 as on cores if the model has signs
    """

    def __init__(
        self, model: bytes, asked: Collection[str], sample: Array,
        errors: Mapping[str, float] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """Cut a model, and run it on a sample.

        model : serialised; sample : float32, shape (1, ...)
        errors : relative errors of values that are rounded to integers, and not stored in this form

        Raises `BadInputError` if ONNX Runtime does not run the model.
        """
        from onnx import load_model_from_string

        proto = load_model_from_string(model)
        plain_model(proto)
        made = names_made(proto.graph.node)
        self._taken = {name: list(node.input) for node in proto.graph.node for name in node.output}
        self.values = [name for name in dict.fromkeys(asked) if name in made]
        self.outputs = [one.name for one in proto.graph.output]
        constants = {one.name for one in proto.graph.initializer}
        kinds = {name: node.op_type for node in proto.graph.node for name in node.output}
        self.signed = {name for name in self.values if kinds[name] == "Sign"}
        (self.input,) = (one.name for one in proto.graph.input if one.name not in constants)
        self.integers = Integers(proto.graph, self.input)
        whole = _Session(proto, self.values)
        self._kind = input_type(model)
        self._uncut = whole
        self.first = self.uncut(sample)
        _cut(proto, {name: self.first[name].dtype for name in self.values})
        self._proto, self._errors = proto, errors
        self.signs = (0, 1) if "Sign" in kinds.values() else (0,)
        self._sessions = {((0.0, 0.0), 0): _Session(proto, self.values)}

    def run(
        self,
        sample: Array,
        given: Mapping[str, Array],
        nudge: tuple[float, float] = (0.0, 0.0),
        sign: int = 0,
    ) -> dict[str, Array]:
        """Return the values and the outputs.

        given : by name, the integers that the cores stored, in the shapes and types of the model
        nudge : shares of a step that are added to tensors before they are quantised, first of the
            values that cores store and then of others; before signs, the step is SIGN_STEP of the
            largest number, or the error of integers if larger
        sign : the sign of zero
        """
        if (nudge, sign) not in self._sessions:
            changed = type(self._proto)()
            changed.CopyFrom(self._proto)
            if any(nudge):
                _nudge(changed.graph, nudge, self._errors, self.values)
            if sign:
                zero_is_positive(changed.graph)
            self._sessions[nudge, sign] = _Session(changed, self.values)
        session = self._sessions[nudge, sign]
        feeds = {f"{name}{GIVEN}": array for name, array in given.items()}
        some = {name: array for name, array in feeds.items() if name in session.inputs}
        return self._run(session, sample, some)

    def uncut(self, sample: Array) -> dict[str, Array]:
        """Return the values and the outputs of the model alone."""
        return self._run(self._uncut, sample, {})

    def between(self, name: str, given: Collection[str], others: Collection[str]) -> set[str]:
        """Return the names of values between given values and a value computed from them.

        others : names of the compiler's maps; those that it derived from a value, such as the map
            before a pooling that follows the activation, count as well
        """
        stops = set(given) - {name}
        made = {one: inputs for one, inputs in self._taken.items() if one not in stops}
        found = computed_by(made, name)
        derived = (one for one in others if one not in self._taken)
        return found | {
            one for one in derived if one.startswith(tuple(f"{each}." for each in {name, *found}))
        }

    def _run(
        self, session: _Session, sample: Array, feeds: Mapping[str, Array]
    ) -> dict[str, Array]:
        return session.run({self.input: sample.astype(self._kind), **feeds})


def input_type(model: bytes) -> np.dtype[Any]:
    """Return the type of the model's input."""
    from onnx import helper, load_model_from_string

    graph = load_model_from_string(model).graph
    constants = {one.name for one in graph.initializer}
    (given,) = (one for one in graph.input if one.name not in constants)
    return np.dtype(helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type))


def _cut(proto: Any, kinds: Mapping[str, np.dtype[Any]]) -> None:
    """Add inputs that replace values, for all nodes that read them."""
    from onnx import helper

    _rename(proto.graph, set(kinds))
    for name, kind in kinds.items():
        element = helper.np_dtype_to_tensor_dtype(kind)
        proto.graph.input.append(helper.make_tensor_value_info(f"{name}{GIVEN}", element, None))


def _nudge(
    graph: Any, shares: tuple[float, float], errors: Mapping[str, float], stored: Collection[str]
) -> None:
    """Add a share of a step to all tensors before a sign or before quantisation with a constant
    scale.

    shares : for results that are stored, and for others
    """
    from onnx import helper, numpy_helper

    constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    taken = {name: list(node.input) for node in graph.node for name in node.output}
    layers = {
        name: WEIGHTS for node in graph.node for name in node.output if _rounds(node, constants)
    }
    errors = layers | dict(errors)
    nodes = []

    def add(kind: str, inputs: list[str], output: str, **attributes: Any) -> None:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))

    def nudged(node: Any, share: float, step: float, parts: Mapping[str, float]) -> None:
        """Add a step to the input of a node, or, if that is larger, the sum of the relative errors
        of some values, by their names: of the largest number of the value or of the input."""
        given, name = node.input[0], node.output[0]
        most, addend, moved, step_, side = (f"{name}.nudge.{at}" for at in range(5))
        values, errors = {step_: step, side: math.copysign(1, share)}, []
        add("Abs", [given], f"{most}.size")
        add("ReduceMax", [f"{most}.size"], f"{most}.input", keepdims=0)
        for value, part in parts.items():
            size, large, larger, factor, error = (
                f"{name}.{value}.nudge.{at}" for at in range(5)
            )  # fmt: skip
            values[factor] = part
            errors.append(error)
            add("Abs", [value], size)
            add("ReduceMax", [size], large, keepdims=0)
            add("Max", [large, f"{most}.input"], larger)
            add("Mul", [larger, factor], error)
        for one, number in values.items():
            constant = np.full((), number, np.float32)
            graph.initializer.append(numpy_helper.from_array(constant, one))
        add("Sum", errors, f"{most}.sum")
        add("Max", [f"{most}.sum", step_], most)
        add("Mul", [most, side], addend)
        add("Add", [given, addend], moved)
        node.input[0] = moved

    for node in graph.node:
        share = shares[node.output[0] not in stored]
        scale = constants.get(node.input[1]) if node.op_type == "QuantizeLinear" else None
        if scale is not None and scale.size == 1 and node.input[0] not in constants:
            step = abs(share) * float(scale.reshape(()))
            nudged(node, share, step, {node.input[0]: ROUNDED})
        elif node.op_type == "Sign":
            given = node.input[0]
            parts = {name: errors[name] for name in computed_by(taken, given) if name in errors}
            parts[given] = max(abs(share) * SIGN_STEP, errors.get(given, 0.0))
            nudged(node, share, 0.0, parts)
        nodes.append(node)
    _replace_nodes(graph, nodes)


def _rounds(node: Any, constants: Mapping[str, Array]) -> bool:
    """Return whether a layer has weights other than two signs times one number per result."""
    weights = constants.get(node.input[1]) if node.op_type in LAYERS else None
    if weights is None or not weights.size:
        return False
    sizes = np.abs(weights)

    def spread(axis: int) -> float:
        rest = tuple(each for each in range(sizes.ndim) if each != axis)
        return float((sizes.max(rest) - sizes.min(rest)).max())

    return min(map(spread, LAYERS[node.op_type])) > ROUNDED * float(sizes.max())


def zero_is_positive(graph: Any) -> None:
    """Make signs of zero +1: 2 (1 - [x < 0]) - 1."""
    from onnx import TensorProto, helper, numpy_helper

    zero, one, two = (f"sign.{at}" for at in range(3))
    for value, name in enumerate((zero, one, two)):
        graph.initializer.append(numpy_helper.from_array(np.full((), value, np.float32), name))
    nodes = []
    for node in graph.node:
        if node.op_type != "Sign":
            nodes.append(node)
            continue
        (given,), (made,) = node.input, node.output
        below, not_, whole, double = (f"{made}.{at}" for at in range(4))
        nodes += [
            helper.make_node("Less", [given, zero], [below]),
            helper.make_node("Not", [below], [not_]),
            helper.make_node("Cast", [not_], [whole], to=TensorProto.FLOAT),
            helper.make_node("Mul", [whole, two], [double]),
            helper.make_node("Sub", [double, one], [made]),
        ]
    _replace_nodes(graph, nodes)


def _replace_nodes(graph: Any, nodes: list[Any]) -> None:
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _rename(graph: Any, names: set[str]) -> None:
    for node in graph.node:
        node.input[:] = [f"{name}{GIVEN}" if name in names else name for name in node.input]
        for attribute in node.attribute:  # subgraphs of If and Loop read outer values
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                _rename(inner, names - names_made(inner.node))


class _Session:
    """A model with additional outputs, ready to run."""

    def __init__(self, proto: Any, more: list[str]) -> None:
        from onnx import helper

        whole = type(proto)()
        whole.CopyFrom(proto)
        known = {one.name for one in whole.graph.output}
        extra = [name for name in dict.fromkeys(more) if name not in known]
        whole.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in extra)
        self._model = whole.SerializeToString()
        self._session = open_session(self._model)
        self.inputs = {one.name for one in self._session.get_inputs()}

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return all outputs by name."""
        names = [one.name for one in self._session.get_outputs()]
        return dict(zip(names, run_session(self._session, feeds, self._model), strict=True))
