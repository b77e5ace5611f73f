"""Graphs as JSON and arrays, and as readable text."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir import node as operators
from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import Host, Levels, Node, Operator, Sign, Window
from mapper.compiler.ir.requantisation import AddFactors, Multiplier, Requantisation
from mapper.compiler.ir.tensor import MOST_ELEMENTS, Pad, Tensor

Arrays = dict[str, NDArray[Any]]

_KINDS: dict[str, type[Operator]] = {
    one.name: one
    for one in vars(operators).values()
    if isinstance(one, type) and issubclass(one, Operator) and one is not Operator
}
_TUPLES: dict[str, Any] = {
    one.__name__: one for one in (Pad, AddFactors, Levels, Multiplier, Requantisation, Sign, Window)
}


def graph_to_json(graph: Graph) -> tuple[dict[str, Any], Arrays]:
    """Return an integer graph as a JSON object and its constants; host nodes are omitted."""
    tensors = list(graph.tensors())
    number = {tensor: at for at, tensor in enumerate(tensors)}
    arrays: Arrays = {
        f"c{at}": tensor.value for at, tensor in enumerate(tensors) if tensor.value is not None
    }
    fields = ("name", "type", "scale", "zero_point", "stored", "address", "pad", "planes")
    return {
        "tensors": [
            {name: getattr(tensor, name) for name in fields}
            | {"shape": list(tensor.shape), "constant": tensor.value is not None}
            for tensor in tensors
        ],
        "nodes": [
            {
                "kind": node.kind,
                "operator": {
                    field.name: _plain(getattr(node.operator, field.name), arrays)
                    for field in dataclasses.fields(node.operator)
                },
                "inputs": [number[tensor] for tensor in node.inputs],
                "outputs": [number[tensor] for tensor in node.outputs],
                "sources": list(node.sources),
            }
            for node in graph.nodes
            if not isinstance(node.operator, Host)
        ],
        **{
            role: {
                name: {"tensor": number[view.tensor], "order": view.order, "shape": view.shape}
                for name, view in getattr(graph, role).items()
            }
            for role in ("inputs", "outputs")
        },
    }, arrays


def graph_from_json(data: dict[str, Any], arrays: Arrays) -> Graph:
    """Return the graph from JSON; raises KeyError, TypeError or ValueError if it is damaged."""
    tensors = [
        Tensor(
            name=str(one["name"]),
            shape=_read_shape(one["shape"]),
            type=one["type"],
            scale=float(one["scale"]),
            zero_point=int(one["zero_point"]),
            stored=bool(one["stored"]),
            address=one["address"],
            planes=bool(one["planes"]),
            pad=Pad(*map(int, one["pad"])),
            value=arrays[f"c{at}"] if one["constant"] else None,
        )
        for at, one in enumerate(data["tensors"])
    ]
    graph = Graph()
    for one in data["nodes"]:
        made = _built(_KINDS[one["kind"]], one["operator"], arrays)
        taken, results = ([tensors[at] for at in one[role]] for role in ("inputs", "outputs"))
        graph.nodes.append(Node(made, taken, results, tuple(one["sources"])))
    for role in ("inputs", "outputs"):
        for name, view in data[role].items():
            found = View(tensors[view["tensor"]], tuple(view["order"]), _read_shape(view["shape"]))
            if math.prod(found.shape) != math.prod(found.tensor.shape):
                raise ValueError(f"shape {found.shape} of {name}")
            getattr(graph, role)[name] = found
    return graph


def _plain(value: Any, arrays: Arrays) -> Any:
    """Return a value for JSON; arrays are stored separately."""
    if isinstance(value, np.ndarray):
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {f.name: _plain(getattr(value, f.name), arrays) for f in dataclasses.fields(value)}
        return {"is": type(value).__name__, **found}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        named = {name: _plain(getattr(value, name), arrays) for name in value._fields}
        return {"is": type(value).__name__, **named}
    if isinstance(value, tuple):
        return [_plain(one, arrays) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def _value(value: Any, arrays: Arrays) -> Any:
    if isinstance(value, dict) and "array" in value:
        return arrays[value["array"]]
    if isinstance(value, dict):
        rest = {name: _value(one, arrays) for name, one in value.items() if name != "is"}
        return _TUPLES[value["is"]](**rest)
    if isinstance(value, list):
        return tuple(_value(one, arrays) for one in value)
    return value


def _built(kind: type[Operator], fields: dict[str, Any], arrays: Arrays) -> Operator:
    known = get_type_hints(kind)
    return kind(**{name: _value(one, arrays) for name, one in fields.items() if name in known})


def graph_text(graph: Graph) -> str:
    """Return a line per node: outputs, inputs, and the nodes of the model that it implements."""
    lines = []
    for node in graph.nodes:
        made = ", ".join(f"{tensor.name} {_shape(tensor)}" for tensor in node.outputs)
        taken = ", ".join(tensor.name for tensor in node.inputs)
        lines.append(f"{node.kind:<12} {made} <- {taken}  [{', '.join(node.sources)}]")
    return "\n".join(lines) + "\n"


def _read_shape(sizes: Any) -> tuple[int, ...]:
    """Return the shape of a tensor; raise `ValueError` if no model has such a map."""
    found = tuple(int(size) for size in sizes)
    if min(found, default=1) < 1 or math.prod(found) > MOST_ELEMENTS:
        raise ValueError(f"shape {found}")
    return found


def _shape(tensor: Tensor) -> str:
    scaled = f" s={tensor.scale:.6g} z={tensor.zero_point}" if tensor.type != "float32" else ""
    return f"{tensor.type}{list(tensor.shape)}{scaled}"
