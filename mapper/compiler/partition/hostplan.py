"""The host plan: all steps of the host around the cores.

`simulate` runs the plan; all host computation is part of it. Steps, by `do`:

node        a node that cores do not support: a model of one node, for ONNX Runtime
view        a value as another node sees it: transposed or reshaped
quantise    real numbers to stored integers; windows: im2col of a feature map
slice       a part of stored integers of the host; concat: some of them, concatenated
pack        stored integers into the memory of a core, in vectors of its channels
start       a function of the cores, which runs to its end
unpack      stored integers from the memory of a core; dequantise: as real numbers
take, put   vectors from and to the memory of a core without a change of layout, if all nodes
            between two functions are elementwise: `packed` steps between them use such vectors
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import Concat, Host, Node, Quantise, Slice, Windows
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import Region
from mapper.compiler.numerics.binary import steps_of
from mapper.compiler.numerics.execute import model_of, views_of
from mapper.compiler.partition.functions import Partition
from mapper.compiler.partition.packing import PackingLists, packing_lists, parts_of

Step = dict[str, Any]
"""A step of the host, as a JSON object."""


def plan_host(
    graph: Graph, partition: Partition, regions: Mapping[Tensor, Region],
    lists: PackingLists | None = None,
) -> list[Step]:  # fmt: skip
    """Return the host's steps around the functions of an integer graph, in order.

    lists : where layouts change; None to compute it, with the fewest changes
    """
    lists = lists or packing_lists(parts_of(partition))
    return _Planner(graph, partition, regions, lists).steps


class _Planner:
    """Adds steps, and the steps that they depend on.

    values : name and view of the real-valued tensors on the host
    known : names of such values; real : feature maps on the host as real numbers in vectors
    stored : feature maps on the host as stored integers
    """

    def __init__(
        self,
        graph: Graph,
        partition: Partition,
        regions: Mapping[Tensor, Region],
        lists: PackingLists,
    ) -> None:
        self.graph, self.regions = graph, regions
        self.real: set[Tensor] = set()
        self.stored: set[Tensor] = set()
        self.steps: list[Step] = []
        self.known = set(graph.inputs)
        self.values = {view.tensor: (name, view) for name, view in graph.inputs.items()}
        for number, function in enumerate(partition.functions):
            changes = lists.packing[number]
            for node in function.host:
                (self._node if changes.pack else self._packed_node)(node)
            for tensor in function.inputs:
                if changes.pack:
                    self._pack(tensor)
                else:
                    self.steps.append({"do": "put", **self._place(tensor)})
            self.steps.append({"do": "start", "function": number})
            for tensor in function.results:
                what = "unpack" if changes.unpack else "take"
                self.steps.append({"do": what, **self._place(tensor)})
                self.stored.add(tensor)
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
            "planes": tensor.planes,
        }

    def _pack(self, tensor: Tensor) -> None:
        """Add the steps that write a feature map to memory; model inputs are quantised first."""
        self._quantise_input(tensor)
        self.steps.append({"do": "pack", **self._place(tensor)})

    def _quantise_input(self, tensor: Tensor) -> None:
        for name, view in self.graph.inputs.items():
            if view.tensor is tensor:
                self.steps.append({"do": "quantise", "value": name, **_stored(view)})
                self.stored.add(tensor)

    def _store(self, tensor: Tensor) -> None:
        """Make a map available as stored integers, if it is made of maps that the host has."""
        if tensor in self.stored:
            return
        node = self.graph.maker(tensor)
        if node is None:
            self._quantise_input(tensor)
            return
        for one in node.inputs:
            self._store(one)
        match node.operator:
            case Slice(axis, first):
                step = {"do": "slice", "tensor": node.inputs[0].name, "axis": axis}
                step |= {"first": first, "stop": first + tensor.shape[axis]}
            case Concat(axis):
                step = {"do": "concat", "tensors": [one.name for one in node.inputs], "axis": axis}
            case _:
                raise AssertionError(f"{node.label}: its map is not on the host")
        self.steps.append({**step, "result": tensor.name})
        self.stored.add(tensor)

    def _need(self, name: str, view: View) -> None:
        """Make a value available on the host: read it from cores, or change its view."""
        if name in self.known:
            return
        self.known.add(name)
        found = self.values.get(view.tensor)
        if found is None:
            self._store(view.tensor)
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
            self.stored.add(node.output)
        else:
            self._host(node)

    def _packed_node(self, node: Node) -> None:
        """Add the steps of an elementwise node on feature maps in vectors."""
        for tensor in node.inputs:
            if tensor.type != "float32" and tensor not in self.real:
                self.real.add(tensor)
                step = {"do": "dequantise", "packed": True, "value": tensor.name}
                self.steps.append({**step, **_stored(View(tensor))})
        if isinstance(node.operator, Quantise):
            step = {"do": "quantise", "packed": True, "value": node.inputs[0].name}
            self.steps.append({**step, **_stored(View(node.output))})
            self.stored.add(node.output)
            return
        what = {"kind": node.kind, "sources": list(node.sources), "packed": True}
        maps = {"values": [one.name for one in node.inputs], "results": [node.output.name]}
        self.steps.append({"do": "node", **what, **maps, **_model(node, of_vectors=True)})

    def _windows(self, node: Node, operator: Windows) -> None:
        data = node.inputs[0]
        self._quantise_input(data)
        self._store(data)
        step = {"do": "windows", "tensor": data.name, "result": node.output.name}
        self.steps.append({**step, "window": asdict(operator.window), "value": data.zero_point})
        self.stored.add(node.output)

    def _host(self, node: Node) -> None:
        operator = node.operator
        assert isinstance(operator, Host)
        proto = operator.node.proto
        for name, value in zip(proto.input, operator.given, strict=True):
            if isinstance(value, View):
                self._need(name, value)
        what = {"kind": node.kind, "sources": list(node.sources)}
        self.steps.append({"do": "node", **what, **_model(node)})
        for name, view in zip(proto.output, operator.results, strict=False):
            self.values.setdefault(view.tensor, (name, view))
            self.known.add(name)


def _shapes(view: View) -> Step:
    shape = list(view.tensor.shape)
    return {"tensor_shape": shape, "order": list(view.order), "shape": list(view.shape)}


def _levels(node: Node) -> Step | None:
    """Return the signs or levels that an input is quantised to, and the preceding steps."""
    operator = node.operator
    assert isinstance(operator, Quantise)
    if operator.levels is None:
        return None
    steps = [[part.tolist() for part in pair] for pair in steps_of(node)]
    return {"kind": operator.levels.name, **asdict(operator.levels), "steps": steps}


def _stored(view: View) -> Step:
    tensor = view.tensor
    return {
        "tensor": tensor.name,
        **_shapes(view),
        "scale": tensor.scale,
        "zero_point": tensor.zero_point,
        "bits": tensor.bits,
    }


def _model(node: Node, of_vectors: bool = False) -> Step:
    """Return a node as a single-node model with constants; of_vectors : its inputs are vectors"""
    operator = node.operator
    assert isinstance(operator, Host)
    proto = operator.node.proto
    return {
        "why": operator.why,
        "op": proto.op_type,
        "inputs": [name for name, _ in views_of(operator)],
        "outputs": [name for name in proto.output if name],
        "model": base64.b64encode(model_of(operator, of_vectors)).decode(),
    }
