"""What the host does around the cores, step by step: the plan, and running it.

`simulate` runs the plan, and nothing else does work of the host. A node that no core computes is a
model of one node, run by the reference implementation of ONNX.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, cast

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
from mapper.errors import MapperError

Step = dict[str, Any]
Data = NDArray[Any]
Cores = Callable[[dict[str, Data]], dict[str, Data]]
"""Stored integers of the maps that go to the cores, by name, as those that come back."""


def plan_host(graph: Graph, opsets: list[tuple[str, int]]) -> list[Step]:
    """The steps around a graph of integers, whose nodes run on cores, but for those of the host.

    Raises `MapperError` that names a node of the host with nodes of the cores behind it.
    """
    quantised = [node for node in graph.nodes if isinstance(node.operator, Quantise)]
    between = [node for node in quantised if graph.maker(node.inputs[0]) is not None]
    if between:
        raise MapperError(
            f"node {between[0].sources[0]!r} runs on the host, and nodes behind it on the cores; "
            "programs have one part for the cores: keep those nodes on the host, too"
        )
    steps: list[Step] = []
    for name, view in graph.inputs.items():
        if view.tensor.type != "float32":
            steps.append({"do": "quantise", "value": name, **_stored(view)})
    for node in quantised:
        name, view = next(item for item in graph.inputs.items() if item[1].tensor is node.inputs[0])
        stored = _stored(view._replace(tensor=node.output))
        steps.append({"do": "quantise", "value": name, **stored, "levels": _levels(node)})
    steps += [
        {
            "do": "windows",
            "tensor": node.inputs[0].name,
            "result": node.output.name,
            "window": asdict(node.operator.window),
            "value": node.inputs[0].zero_point,
        }
        for node in graph.nodes
        if isinstance(node.operator, Windows)
    ]
    hosted = [node for node in graph.nodes if isinstance(node.operator, Host)]
    made = {tensor for node in hosted for tensor in node.outputs}
    back: dict[str, View] = {}
    for node in hosted:
        assert isinstance(node.operator, Host)
        taken = zip(node.operator.node.proto.input, node.operator.given, strict=True)
        back |= {
            name: value
            for name, value in taken
            if isinstance(value, View) and value.tensor not in made
        }
    back |= {name: view for name, view in graph.outputs.items() if view.tensor not in made}
    back = {name: view for name, view in back.items() if graph.maker(view.tensor) is not None}
    steps.append({"do": "cores", "results": [view.tensor.name for view in back.values()]})
    for name, view in back.items():
        steps.append({"do": "dequantise", "value": name, **_stored(view)})
    steps += [
        {"do": "node", "kind": node.kind, "sources": list(node.sources), **_model(node, opsets)}
        for node in hosted
    ]
    return steps


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
        "tensor_shape": list(tensor.shape),
        "order": list(view.order),
        "shape": list(view.shape),
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


def run_host(
    steps: list[Step], values: Mapping[str, Data], cores: Cores
) -> tuple[dict[str, Data], dict[str, Data]]:
    """All values by name, as ONNX sees them, and what the cores made, as stored integers.

    values : float32, shape (frames, ...), the inputs of the model
    """
    known: dict[str, Data] = dict(values)
    stored: dict[str, Data] = {}
    results: dict[str, Data] = {}
    for step in steps:
        if step["do"] == "quantise":
            view = view_of(step)
            maps = view.stored(known[step["value"]])
            tensor = view.tensor
            stored[tensor.name] = (
                _stored_by_levels(step["levels"], maps)
                if step.get("levels")
                else quantise(maps, tensor.scale, tensor.zero_point, tensor.bits)
            )
        elif step["do"] == "windows":
            stored[step["result"]] = _windows(step, stored.pop(step["tensor"]))
        elif step["do"] == "cores":
            results = cores(stored)
        elif step["do"] == "dequantise":
            view = view_of(step)
            maps = results[view.tensor.name]
            real = dequantise(maps, view.tensor.scale, view.tensor.zero_point)
            known[step["value"]] = view.array(real)
        else:
            known |= _run_node(step, known)
    return known, results


def _windows(step: Step, maps: Data) -> Data:
    made = step["window"]
    window = Window(
        tuple(made["size"]), tuple(made["stride"]), Pad(*made["pad"]), tuple(made["dilation"])
    )
    return pixels_of_windows(maps, window, step["value"])


def _run_node(step: Step, known: Mapping[str, Data]) -> dict[str, Data]:
    """Frame by frame: models have a batch of one."""
    from onnx import load_model_from_string
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(load_model_from_string(base64.b64decode(step["model"])))
    frames = known[step["inputs"][0]].shape[0]
    rows: list[Any] = []
    for frame in range(frames):
        feeds = {name: known[name][frame : frame + 1] for name in step["inputs"]}
        try:
            rows.append(evaluator.run(None, feeds))
        except Exception as error:
            reason = " ".join(str(error).split())[:120]
            raise MapperError(f"node {step['sources'][0]!r} ({step['op']}): {reason}") from error
    return {
        name: np.concatenate([np.asarray(row[at]) for row in rows])
        for at, name in enumerate(step["outputs"])
    }
