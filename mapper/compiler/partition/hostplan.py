"""What the host does around the cores, step by step: the plan, and running it.

`simulate` runs the plan, and nothing else does work of the host. Its steps, by `do`:

node        a node that no core computes: a model of one node, for the reference implementation
view        a value as another node sees it: transposed, or of another shape
quantise    real numbers as stored integers; windows: the windows of a map as its pixels
pack        stored integers into the memory of a core, in vectors of its channels
start       a function of the cores, which runs to its end
unpack      stored integers from the memory of a core; dequantise: as real numbers
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict
from threading import Lock
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.graph.graph import Graph, View
from mapper.compiler.graph.node import (
    Host,
    Levels,
    Node,
    Operator,
    Quantise,
    Sign,
    Window,
    Windows,
)
from mapper.compiler.graph.tensor import BITS, Pad, Tensor
from mapper.compiler.integer.binary import steps_of
from mapper.compiler.integer.formulas import dequantise, quantise
from mapper.compiler.integer.levels import stored_input
from mapper.compiler.integer.windows import pixels_of_windows
from mapper.compiler.memory.planner import Region
from mapper.compiler.partition.functions import Partition
from mapper.errors import MapperError

Step = dict[str, Any]
Data = NDArray[Any]
Maps = dict[str, Data]
"""Stored integers by the names of their tensors, shape (1, rows, columns, channels)."""


class Cores(Protocol):
    """The cores of a chip, as the host sees them in a frame."""

    def write(self, tensor: str, maps: Data) -> None:
        """Stored integers into the memory of a core."""

    def start(self, function: int) -> None:
        """Run a function to its end."""

    def read(self, tensor: str) -> Data:
        """Stored integers from the memory of a core."""


def plan_host(
    graph: Graph, partition: Partition, regions: Mapping[Tensor, Region],
    opsets: list[tuple[str, int]],
) -> list[Step]:  # fmt: skip
    """The host's steps around the functions of a graph of integers, in their order."""
    return _Planner(graph, partition, regions, opsets).steps


class _Planner:
    """Adds steps, and what they need before.

    values : name and view of what the host has as real numbers, by tensor
    known : names of such values
    """

    def __init__(
        self, graph: Graph, partition: Partition, regions: Mapping[Tensor, Region],
        opsets: list[tuple[str, int]],
    ) -> None:  # fmt: skip
        self.graph, self.regions, self.opsets = graph, regions, opsets
        self.steps: list[Step] = []
        self.known = set(graph.inputs)
        self.values = {view.tensor: (name, view) for name, view in graph.inputs.items()}
        for number, function in enumerate(partition.functions):
            for node in function.host:
                self._node(node)
            for tensor in function.inputs:
                self._pack(tensor)
            self.steps.append({"do": "start", "function": number})
            for tensor in function.results:
                self.steps.append({"do": "unpack", **self._place(tensor)})
        for node in partition.host:
            self._node(node)
        for name, view in graph.outputs.items():
            self._need(name, view)

    def _place(self, tensor: Tensor) -> Step:
        region = self.regions[tensor]
        return {
            "tensor": tensor.name,
            "address": region.first,
            "strides": [region.row, region.pixel],
            "shape": list(tensor.shape),
        }

    def _pack(self, tensor: Tensor) -> None:
        """A map of the host into memory; inputs of the model are quantised for it."""
        for name, view in self.graph.inputs.items():
            if view.tensor is tensor:
                self.steps.append({"do": "quantise", "value": name, **_stored(view)})
        self.steps.append({"do": "pack", **self._place(tensor)})

    def _need(self, name: str, view: View) -> None:
        """Let the host have a value: of what cores made, or of what it has in another view."""
        if name in self.known:
            return
        self.known.add(name)
        found = self.values.get(view.tensor)
        if found is None:
            self.steps.append({"do": "dequantise", "value": name, **_stored(view)})
            self.values[view.tensor] = name, view
            return
        value, seen = found
        step = {"do": "view", "value": value, "result": name, "seen": _shapes(seen)}
        self.steps.append({**step, "as": _shapes(view)})

    def _node(self, node: Node) -> None:
        if isinstance(node.operator, Windows):
            self._windows(node, node.operator)
        elif isinstance(node.operator, Quantise):
            name, view = self.values[node.inputs[0]]
            step = {"do": "quantise", "value": name, **_stored(view._replace(tensor=node.output))}
            self.steps.append(step | {"levels": _levels(node)})
        else:
            self._host(node)

    def _windows(self, node: Node, operator: Windows) -> None:
        for name, view in self.graph.inputs.items():
            if view.tensor is node.inputs[0]:
                self.steps.append({"do": "quantise", "value": name, **_stored(view)})
        self.steps.append(
            {
                "do": "windows",
                "tensor": node.inputs[0].name,
                "result": node.output.name,
                "window": asdict(operator.window),
                "value": node.inputs[0].zero_point,
            }
        )

    def _host(self, node: Node) -> None:
        operator = node.operator
        assert isinstance(operator, Host)
        proto = operator.node.proto
        for name, value in zip(proto.input, operator.given, strict=True):
            if isinstance(value, View):
                self._need(name, value)
        what = {"kind": node.kind, "sources": list(node.sources)}
        self.steps.append({"do": "node", **what, **_model(node, self.opsets)})
        for name, view in zip(proto.output, operator.results, strict=False):
            self.values.setdefault(view.tensor, (name, view))
            self.known.add(name)


def _shapes(view: View) -> Step:
    shape = list(view.tensor.shape)
    return {"tensor_shape": shape, "order": list(view.order), "shape": list(view.shape)}


def _levels(node: Node) -> Step | None:
    """The signs or levels that an input becomes, and what is applied to it before."""
    operator = node.operator
    assert isinstance(operator, Quantise)
    if operator.levels is None:
        return None
    steps = [[part.tolist() for part in pair] for pair in steps_of(node)]
    return {"kind": operator.levels.name, **asdict(operator.levels), "steps": steps}


def _stored_by_levels(how: Step, maps: Data) -> Data:
    fields = {name: value for name, value in how.items() if name not in ("kind", "steps")}
    operator: Operator = (Sign if how["kind"] == Sign.name else Levels)(**fields)
    parts = [np.array(part) for pair in how["steps"] for part in pair]
    tensors = [Tensor("", part.shape, value=part) for part in parts]
    return stored_input(Node(operator, [Tensor("", maps.shape), *tensors], [], ()), maps)


def _stored(view: View) -> Step:
    tensor = view.tensor
    return {
        "tensor": tensor.name,
        **_shapes(view),
        "scale": tensor.scale,
        "zero_point": tensor.zero_point,
        "bits": tensor.bits,
    }


def _model(node: Any, opsets: list[tuple[str, int]]) -> Step:
    """A node as a model of its own, constants included."""
    from onnx import helper, numpy_helper

    proto, given = node.operator.node.proto, node.operator.given
    constants = [
        numpy_helper.from_array(value, name)
        for name, value in zip(proto.input, given, strict=True)
        if isinstance(value, np.ndarray)
    ]
    taken = [
        helper.make_tensor_value_info(name, 1, list(value.shape))
        for name, value in zip(proto.input, given, strict=True)
        if isinstance(value, View)
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in proto.output if name]
    graph = helper.make_graph([proto], "host", taken, results, constants)
    if node.operator.opset is not None:
        opsets = [("", node.operator.opset)]
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets]
    )
    return {
        "why": node.operator.why,
        "op": proto.op_type,
        "inputs": [value.name for value in taken],
        "outputs": [name for name in proto.output if name],
        "model": base64.b64encode(model.SerializeToString(deterministic=True)).decode(),
    }


def view_of(step: Step) -> View:
    """The view that a step of quantising or dequantising is about."""
    kind = next(name for name, bits in BITS.items() if bits == step["bits"])
    tensor = Tensor(
        step["tensor"], tuple(step["tensor_shape"]), cast(Any, kind), step["scale"],
        step["zero_point"],
    )  # fmt: skip
    return View(tensor, tuple(step["order"]), tuple(step["shape"]))


class HostPlan:
    """The steps of a compiled model, ready to run; several threads may."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self._ready: dict[int, Any] = {}
        self._lock = Lock()

    def run(self, values: Mapping[str, Data], cores: Cores) -> tuple[dict[str, Data], Maps]:
        """A frame: all values by name, as ONNX sees them, and what the cores made for the host, as
        stored integers.

        values : float32, shape (1, ...), the inputs of the model
        """
        known: dict[str, Data] = dict(values)
        stored: Maps = {}
        results: Maps = {}
        for number, step in enumerate(self.steps):
            match step["do"]:
                case "quantise":
                    view = view_of(step)
                    maps, to = _map_of(view, known[step["value"]]), view.tensor
                    stored[to.name] = (
                        _stored_by_levels(step["levels"], maps)
                        if step.get("levels")
                        else quantise(maps, to.scale, to.zero_point, to.bits)
                    )
                case "windows":
                    stored[step["result"]] = _windows(step, stored[step["tensor"]])
                case "pack":
                    cores.write(step["tensor"], stored[step["tensor"]])
                case "start":
                    cores.start(step["function"])
                case "unpack":
                    results[step["tensor"]] = cores.read(step["tensor"])
                case "dequantise":
                    view = view_of(step)
                    of = view.tensor
                    real = dequantise(results[of.name], of.scale, of.zero_point)
                    known[step["value"]] = view.frame(real)
                case "view":
                    seen, made = _view(step["seen"]), _view(step["as"])
                    known[step["result"]] = made.frame(_map_of(seen, known[step["value"]]))
                case _:
                    known |= self._node(number, step, known)
        return known, results

    def _node(self, number: int, step: Step, known: Mapping[str, Data]) -> dict[str, Data]:
        """What a node of the host makes; the reference implementation is built once."""
        from onnx import load_model_from_string
        from onnx.reference import ReferenceEvaluator

        with self._lock:
            if number not in self._ready:
                model = load_model_from_string(base64.b64decode(step["model"]))
                self._ready[number] = ReferenceEvaluator(model)
            try:
                made = self._ready[number].run(None, {name: known[name] for name in step["inputs"]})
            except Exception as error:
                reason = " ".join(str(error).split())[:120]
                name = f"node {step['sources'][0]!r} ({step['op']})"
                raise MapperError(f"{name}: {reason}") from error
        arrays = (np.asarray(one) for one in made)
        return dict(zip(step["outputs"], arrays, strict=True))


def _map_of(view: View, array: Data) -> Data:
    """The tensor's data of one frame, whose first axis need not be that of the batch."""
    return array.reshape(view.ordered).transpose(np.argsort(view.order))


def _view(step: Step) -> View:
    tensor = Tensor("", tuple(step["tensor_shape"]))
    return View(tensor, tuple(step["order"]), tuple(step["shape"]))


def _windows(step: Step, maps: Data) -> Data:
    made = step["window"]
    window = Window(
        tuple(made["size"]), tuple(made["stride"]), Pad(*made["pad"]), tuple(made["dilation"])
    )
    return pixels_of_windows(maps, window, step["value"])
